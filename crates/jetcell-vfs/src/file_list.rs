//! Lists the files at paths that a user names.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::{is_unfinished, with_path};

/// Returns the sorted files at the given paths. A directory is replaced by the files in it, except unfinished ones.
/// `is_needed` returns true for the names of files that must not be missing.
///
/// # Errors
/// Returns an error if a path does not exist or cannot be read, or if a directory contains a dangling link with a needed
/// name. The error contains the path.
pub fn files_at(paths: &[PathBuf], is_needed: fn(&Path) -> bool) -> io::Result<Vec<PathBuf>> {
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
                // A dangling link may point to a database on a file system that is not mounted.
                Err(error)
                    if error.kind() == io::ErrorKind::NotFound
                        && is_needed(&path)
                        && !is_editor_lock(&path)
                        && is_link(&path) =>
                {
                    let what = "the target of the link does not exist";
                    return Err(with_path(&path, io::Error::new(error.kind(), what)));
                }
                // Other dangling links are ignored, and files that were removed after the directory was listed.
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(with_path(&path, error)),
                _ => {}
            }
        }
    }
    files.sort();
    files.dedup();
    Ok(files)
}

/// A path below a directory that [`files_below`] skips, although it may lead to files.
#[derive(Debug)]
#[non_exhaustive]
pub enum SkippedPath {
    /// A directory, or a file in it, cannot be read.
    Unreadable(PathBuf, io::Error),
    /// The target of a link does not exist.
    DanglingLink(PathBuf),
    /// A link leads to a directory outside the listed one.
    LinkToDirectory(PathBuf),
    /// The name of a file marks it as [unfinished](is_unfinished).
    Unfinished(PathBuf),
}

/// Returns the files below a directory in name order. `skipped` receives the paths that are skipped, except pipes,
/// sockets and devices, which are not files with content. Links to directories are not followed, because they may
/// form a loop. A link to a directory that is itself below the listed one is not reported.
pub fn files_below(directory: &Path, skipped: &mut dyn FnMut(SkippedPath)) -> Vec<PathBuf> {
    let place = fs::canonicalize(directory).unwrap_or_else(|_| directory.to_path_buf());
    let mut files = Vec::new();
    list_below(directory, &place, &mut files, skipped);
    files
}

/// Adds the files below `directory`. `listed` is the canonical path of the directory whose files are listed.
fn list_below(
    directory: &Path,
    listed: &Path,
    files: &mut Vec<PathBuf>,
    skipped: &mut dyn FnMut(SkippedPath),
) {
    let entries = fs::read_dir(directory).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let mut entries = entries.unwrap_or_else(|error| {
        skipped(SkippedPath::Unreadable(directory.to_path_buf(), error));
        Vec::new()
    });
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            list_below(&path, listed, files, skipped);
            continue;
        }
        match fs::metadata(&path) {
            Ok(found) if found.is_file() && is_unfinished(&path) => skipped(SkippedPath::Unfinished(path)),
            Ok(found) if found.is_file() => files.push(path),
            Ok(found) if found.is_dir() => {
                let is_listed = fs::canonicalize(&path).is_ok_and(|target| target.starts_with(listed));
                if !is_listed {
                    skipped(SkippedPath::LinkToDirectory(path));
                }
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if is_link(&path) {
                    skipped(SkippedPath::DanglingLink(path));
                }
                // Otherwise, the file was removed or renamed after the directory was listed.
            }
            Err(error) => skipped(SkippedPath::Unreadable(path, error)),
        }
    }
}

/// Returns true if the name is that of an Emacs lock, which is a dangling link.
fn is_editor_lock(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b".#"))
}

fn is_link(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink())
}

#[cfg(test)]
#[path = "file_list_tests.rs"]
mod tests;
