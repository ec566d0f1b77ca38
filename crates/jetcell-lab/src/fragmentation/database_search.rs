//! Search for database files in directories.

use std::io;
use std::path::{Path, PathBuf};

use jetcell_vfs::{SkippedPath, files_below, with_path};

/// Extensions by which database files are found in directories.
const DATABASE_EXTENSIONS: [&str; 2] = ["edb", "dit"];

/// Returns the databases below a directory in name order. Links to directories are not followed.
///
/// # Errors
/// A directory cannot be read, or a link with the name of a database has no target.
pub fn find_databases(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut failure = None;
    let mut files = files_below(directory, &mut |skipped| {
        let error = match skipped {
            SkippedPath::Unreadable(path, error) => with_path(&path, error),
            SkippedPath::DanglingLink(path) if is_database_name(&path) => {
                let what = "the target of the link does not exist";
                with_path(&path, io::Error::new(io::ErrorKind::NotFound, what))
            }
            // Everything else is skipped: unfinished files have other names, and links to directories are not followed.
            _ => return,
        };
        failure.get_or_insert(error);
    });
    files.retain(|path| is_database_name(path));
    failure.map_or(Ok(files), Err)
}

fn is_database_name(path: &Path) -> bool {
    let is = |known: &str| path.extension().is_some_and(|found| found.eq_ignore_ascii_case(known));
    DATABASE_EXTENSIONS.into_iter().any(is)
}
