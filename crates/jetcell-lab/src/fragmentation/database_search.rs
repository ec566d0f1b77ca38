//! Search for database files in directories.

use std::path::{Path, PathBuf};
use std::{fs, io};

/// Extensions by which database files are found in directories.
const DATABASE_EXTENSIONS: [&str; 2] = ["edb", "dit"];
/// Maximum depth of nested directories that are searched.
const MAX_DEPTH: usize = 64;

/// Returns the databases below a directory in name order.
///
/// # Errors
/// A directory cannot be read.
pub fn find_databases(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    add_databases(directory, MAX_DEPTH, &mut files)?;
    Ok(files)
}

/// Adds the databases below a directory in name order. Links to directories are not followed.
fn add_databases(directory: &Path, deepest: usize, found: &mut Vec<PathBuf>) -> io::Result<()> {
    let mut entries = fs::read_dir(directory)?.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let (path, kind) = (entry.path(), entry.file_type()?);
        if kind.is_dir() {
            if deepest > 0 {
                add_databases(&path, deepest - 1, found)?;
            }
            continue;
        }
        let extension = path.extension().map(std::ffi::OsStr::to_ascii_lowercase);
        if extension.is_some_and(|found| DATABASE_EXTENSIONS.iter().any(|known| found == *known))
            && path.is_file()
        {
            found.push(path);
        }
    }
    Ok(())
}
