//! Remedies for operating system and parser errors, whose messages do not contain one.

/// Adds a remedy to a message that ends in an operating system error, `… (os error 28)`, or that names a line in a
/// file or the limits of a value. A message that contains text after a `;` already includes a remedy.
pub fn with_remedy(message: &str) -> String {
    let of_line =
        || (contains_line_number(message) && !message.contains("; ")).then_some("correct this line");
    let of_limit =
        || (message.contains(" must be ") && !message.contains("; ")).then_some("correct this value");
    match error_number(message).and_then(remedy).or_else(of_line).or_else(of_limit) {
        Some(remedy) => format!("{message}; {remedy}"),
        None => message.to_string(),
    }
}

fn contains_line_number(message: &str) -> bool {
    message.split("line ").skip(1).any(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
}

/// Returns the operating system's error number from a message that ends with the standard library's text for the
/// error. ESE's name for the error may follow.
fn error_number(message: &str) -> Option<u32> {
    let (_, rest) = message.rsplit_once("(os error ")?;
    let (number, name) = rest.split_once(')')?;
    let is_end = name.is_empty() || (name.starts_with(" (JET_err") && name.find(')') == Some(name.len() - 1));
    number.parse().ok().filter(|_| is_end)
}

/// Returns the remedy for a Linux error number.
fn remedy(number: u32) -> Option<&'static str> {
    Some(match number {
        2 => "specify an existing path",
        1 | 13 => "use a path that this user can access, or change its permissions",
        4 | 11 | 110 => "try again",
        5 => "the device failed: check the kernel log (dmesg) before using it again",
        6 | 19 => "the device is missing: check the kernel log (dmesg)",
        12 => "raise the memory limit of the process, or reduce its workload",
        16 | 26 => "stop the process that uses it",
        17 => "use a different name",
        18 => "use directories on the same file system",
        20 => "part of the path is a file; specify a different path",
        21 => "specify a file",
        22 | 95 => "the file system or device does not support this; use another file system or device",
        23 | 24 => "raise the limit on open files (ulimit -n)",
        27 => "raise the limit on the file size (ulimit -f), or use another file system",
        28 => "free some space, or use a different volume",
        30 => "make the volume writable, or use another volume",
        36 => "use a shorter path",
        39 => "use an empty directory",
        40 => "the symbolic links form a loop; specify a different path",
        98 | 99 => "use a different address or port",
        101 | 111 | 113 => "start the other side first, or use a different address",
        116 => "mount the file system again",
        122 => "free some space, or raise the quota",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn a_trailing_system_error_gets_advice() {
        for (number, expected) in [
            (2, "existing path"),
            (13, "permissions"),
            (28, "free some space"),
            (30, "writable"),
            (5, "dmesg"),
        ] {
            let error = io::Error::from_raw_os_error(number);
            for end in ["", " (JET_errDiskIO -1022)"] {
                let message = format!("a.edb: {error}{end}");
                let text = with_remedy(&message);
                assert!(text.starts_with(&format!("{message}; ")) && text.contains(expected), "{text}");
            }
        }
    }

    #[test]
    fn an_error_with_a_line_number_gets_line_advice() {
        assert_eq!(with_remedy("a.toml, line 3: no value"), "a.toml, line 3: no value; correct this line");
        for text in ["a.toml, line 3: no key 'a'; the nearest is 'b'", "a line of text"] {
            assert_eq!(with_remedy(text), text);
        }
    }

    #[test]
    fn an_out_of_range_value_gets_advice() {
        let text = "--config a.toml: servers.count = 0 must be from 1 to 10000";
        assert_eq!(with_remedy(text), format!("{text}; correct this value"));
        let complete = "the block must be a power of two; give 4KiB";
        assert_eq!(with_remedy(complete), complete);
    }

    #[test]
    fn other_messages_are_unchanged() {
        let error = io::Error::from_raw_os_error(28);
        for text in [
            format!("a.edb: {error}; use --into"),
            format!("cannot be written ({error}); use another place"),
            format!("a.edb: {error} (JET_errDiskIO -1022); use --into"),
            "no error of the system".to_string(),
            "a file (os error x)".to_string(),
            "(os error 99999999999)".to_string(),
            "unknown (os error 4000)".to_string(),
            String::new(),
        ] {
            assert_eq!(with_remedy(&text), text);
        }
    }
}
