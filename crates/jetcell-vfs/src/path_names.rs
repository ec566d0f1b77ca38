//! Parts of paths: the parent directory of a file, and names of incomplete files.

use std::path::{Path, PathBuf};

/// Extension of incomplete files. Such a file is renamed to its final name once it is durable.
pub(crate) const UNFINISHED: &str = "unfinished";
/// Extension of incomplete files that only one process may write, such as exports.
pub(crate) const PARTIAL: &str = "partial";
/// Extensions of other incomplete files: logs that are being restored, states and messages of copies.
const OTHERS: [&str; 4] = [PARTIAL, "restoring", "copy-new", "message-new"];

/// Returns the parent directory of a file, or `.` for a bare name.
pub fn parent_directory(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Returns true if a file's name marks it as incomplete. The program that created it will rename or remove it, so
/// directory listings skip it.
pub fn is_unfinished(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str());
    ending.is_some_and(|ending| ending == UNFINISHED || OTHERS.contains(&ending))
}

/// Returns the path of the temporary file for a file that only one process replaces. Every call returns the same
/// path.
pub fn fixed_unfinished_path(path: &Path) -> PathBuf {
    with_ending(path, UNFINISHED)
}

/// Returns the path with `.ending` appended to its file name.
pub(crate) fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".");
    name.push(ending);
    path.with_file_name(name)
}
