//! Information about this process and its machine, from the files in `/proc`.

use std::fs;

/// Returns the host name, for use in messages. Contains only the ASCII letters, digits, dots, hyphens and
/// underscores of the system's name, at most 255 characters.
pub fn host_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    name.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_')).take(255).collect()
}

/// Returns the value for `key` in a text with `key: value` or `key=value` lines.
pub fn field<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    let rest = text.lines().find_map(|line| line.strip_prefix(key)?.trim_start().strip_prefix([':', '=']))?;
    Some(rest.trim().trim_matches('"'))
}

/// Returns the value for `key` in bytes. The text contains the value in kibibytes.
pub fn kibibytes_field(text: &str, key: &str) -> Option<u64> {
    field(text, key)?.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// Returns the peak resident memory of this process in bytes.
pub fn peak_resident_bytes() -> Option<u64> {
    kibibytes_field(&fs::read_to_string("/proc/self/status").ok()?, "VmHWM")
}

/// Returns the processor time used by all threads of this process so far, in seconds. The resolution is one kernel
/// tick, usually 10 ms.
pub fn processor_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    processor_ticks(&stat) as f64 / rustix::param::clock_ticks_per_second() as f64
}

/// Parses the processor time from the content of `/proc/PID/stat`, in ticks.
pub fn processor_ticks(stat: &str) -> u64 {
    // The name in parentheses may contain spaces. utime and stime are the 12th and 13th words after it.
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    rest.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum()
}

#[cfg(test)]
#[path = "process_tests.rs"]
mod tests;
