//! Option values of `jetcell recover`.

use std::io::ErrorKind;
use std::path::PathBuf;

use jetcell_vfs::is_unfinished;

use crate::outcome::CommandError;

/// Parses `OLD=NEW`.
pub fn mapping(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((old, new)) if !old.is_empty() && !new.is_empty() => Ok((old.to_string(), PathBuf::from(new))),
        _ => Err(format!(
            r"could not parse '{text}' as a mapping; specify the path in the log and the path on this machine, such as C:\Data\mail.edb=mail.edb"
        )),
    }
}

/// Returns the files at the given paths. A directory is replaced by the files in it.
pub fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, CommandError> {
    let mut files = Vec::new();
    for path in paths {
        let error_with_path = |error: std::io::Error| format!("{}: {error}", path.display());
        if !std::fs::metadata(path).map_err(error_with_path)?.is_dir() {
            files.push(path.clone());
            continue;
        }
        for entry in std::fs::read_dir(path).map_err(error_with_path)? {
            let entry = entry.map_err(error_with_path)?;
            let path = entry.path();
            match std::fs::metadata(&path) {
                Ok(found) if found.is_file() && !is_unfinished(&path) => files.push(path),
                // The file was removed or renamed after the directory was listed.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(format!("{}: {error}", path.display()).into()),
                Ok(_) => {}
            }
        }
    }
    files.sort();
    files.dedup();
    Ok(files)
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
