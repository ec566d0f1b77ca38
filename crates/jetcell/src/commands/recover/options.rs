//! Option values of `jetcell recover`.

use std::path::PathBuf;

use jetcell_input::OptionValueError;

/// Parses `OLD=NEW`.
pub fn mapping(text: &str) -> Result<(String, PathBuf), OptionValueError> {
    match text.split_once('=') {
        Some((old, new)) if !old.is_empty() && !new.is_empty() => Ok((old.to_string(), PathBuf::from(new))),
        _ => Err(OptionValueError::unparsable(
            text,
            "a mapping",
            r"specify the path in the log and the path on this machine, such as C:\Data\mail.edb=mail.edb",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_names_two_paths() {
        assert_eq!(mapping(r"C:\a b\x.edb=/y=z"), Ok((r"C:\a b\x.edb".to_string(), "/y=z".into())));
        assert!(["", "a", "=b", "a="].iter().all(|bad| mapping(bad).is_err()));
    }
}
