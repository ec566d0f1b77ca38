//! Parts of paths: the directory of a file, and names of files that are not finished.

use std::path::{Path, PathBuf};

/// Ending of the names of files that get their final name when they are durable.
pub(crate) const UNFINISHED: &str = "unfinished";
/// Endings of other files that are not finished: exports, states of interrupted work, logs of a restore, messages of copies.
const OTHERS: [&str; 4] = ["partial", "restoring", "copy-new", "message-new"];

/// The directory of a file; `.` for a bare name.
pub fn parent_directory(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Whether a file is not finished, by its name. Its program will rename it or remove it, so a listing of a directory does not use it.
pub fn is_unfinished(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str());
    ending.is_some_and(|ending| ending == UNFINISHED || OTHERS.contains(&ending))
}

/// The path with `.ending` added to its file name.
pub(crate) fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".");
    name.push(ending);
    path.with_file_name(name)
}
