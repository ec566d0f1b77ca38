//! Search for database files in directories.

use std::io;
use std::path::{Path, PathBuf};

use jetcell_vfs::files_below;

/// Extensions by which database files are found in directories.
const DATABASE_EXTENSIONS: [&str; 2] = ["edb", "dit"];

/// Returns the databases below a directory in name order. Links to directories are not followed.
///
/// # Errors
/// A directory cannot be read.
pub fn find_databases(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut failure = None;
    let mut files = files_below(directory, &mut |_, error| failure = failure.take().or(Some(error)));
    files.retain(|path| {
        let is = |known: &str| path.extension().is_some_and(|found| found.eq_ignore_ascii_case(known));
        DATABASE_EXTENSIONS.into_iter().any(is)
    });
    failure.map_or(Ok(files), Err)
}
