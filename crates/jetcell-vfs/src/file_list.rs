//! Files that a user names.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

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

/// Returns the files below a directory in name order, except unfinished ones. `failed` receives the errors of
/// directories that cannot be read. Links to directories are not followed, because they may form a loop.
pub fn files_below(directory: &Path, failed: &mut dyn FnMut(&Path, io::Error)) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let mut entries = entries.unwrap_or_else(|error| {
        failed(directory, error);
        Vec::new()
    });
    entries.sort_by_key(fs::DirEntry::file_name);
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => files.extend(files_below(&path, failed)),
            _ if path.is_file() && !is_unfinished(&path) => files.push(path),
            _ => {}
        }
    }
    files
}
