//! Search for database files in directories.

use std::io;
use std::path::{Path, PathBuf};

use ese_format::recognise::has_database_extension;
use jetcell_vfs::{SkippedPath, files_below, with_path};

/// Returns the databases below a directory in name order. Links to directories are not followed.
///
/// # Errors
/// A directory cannot be read, or a link with the name of a database has no target.
pub fn find_databases(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut failure = None;
    let mut files = files_below(directory, &mut |skipped| {
        let error = match skipped {
            SkippedPath::Unreadable(path, error) => with_path(&path, error),
            SkippedPath::DanglingLink(path) if has_database_extension(&path) => {
                let what = "the target of the link does not exist";
                with_path(&path, io::Error::new(io::ErrorKind::NotFound, what))
            }
            // Everything else is skipped: unfinished files have other names, and links to directories are not followed.
            _ => return,
        };
        failure.get_or_insert(error);
    });
    files.retain(|path| has_database_extension(path));
    failure.map_or(Ok(files), Err)
}
