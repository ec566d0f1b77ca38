//! Files that a user names.

use std::fs;
use std::io;
use std::path::PathBuf;

use crate::{is_unfinished, with_path};

/// Returns the sorted files at the given paths. A directory is replaced by the files in it, except unfinished ones.
///
/// # Errors
/// A path does not exist or cannot be read. The error contains the path.
pub fn files_at(paths: &[PathBuf]) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        if !fs::metadata(path).map_err(|error| with_path(path, error))?.is_dir() {
            files.push(path.clone());
            continue;
        }
        let entries = fs::read_dir(path).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        for entry in entries.map_err(|error| with_path(path, error))? {
            let path = entry.path();
            match fs::metadata(&path) {
                Ok(found) if found.is_file() && !is_unfinished(&path) => files.push(path),
                // The file was removed or renamed after the directory was listed.
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(with_path(&path, error)),
                _ => {}
            }
        }
    }
    files.sort();
    files.dedup();
    Ok(files)
}
