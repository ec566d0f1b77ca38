//! Access to the files in `/proc` and `/sys`. Tests use a directory with files from other machines.

use std::fs;
use std::path::{Path, PathBuf};

/// Reads files below a root directory.
pub(super) struct SystemFiles {
    root: PathBuf,
}

impl SystemFiles {
    pub(super) fn for_this_machine() -> SystemFiles {
        SystemFiles { root: PathBuf::from("/") }
    }

    #[cfg(test)]
    pub(super) fn from_root(root: &Path) -> SystemFiles {
        SystemFiles { root: root.to_path_buf() }
    }

    /// Returns the path of a file below the root. `path` is absolute.
    pub(super) fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Returns the text of a file, or `None` if it cannot be read.
    pub(super) fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        fs::read_to_string(self.path(path)).ok()
    }

    /// Returns the text of a one-line file, or `None` if it cannot be read or is empty.
    pub(super) fn line(&self, path: impl AsRef<Path>) -> Option<String> {
        self.text(path).map(|text| text.trim().to_string()).filter(|text| !text.is_empty())
    }

    /// Returns the active value from a file that lists all values with the active one in brackets, such as `none
    /// [mq-deadline]`.
    pub(super) fn active_value(&self, path: impl AsRef<Path>) -> Option<String> {
        let all = self.line(path)?;
        let active =
            all.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(name, _)| name.to_string());
        Some(active.unwrap_or(all))
    }

    /// Returns the sorted names in a directory, or an empty list if it cannot be read.
    pub(super) fn names(&self, path: impl AsRef<Path>) -> Vec<String> {
        let entries = fs::read_dir(self.path(path)).into_iter().flatten().filter_map(Result::ok);
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// Returns the share of the last 10 s, in percent, during which some tasks waited for a resource (`cpu`, `memory`
    /// or `io`).
    pub(super) fn pressure(&self, resource: &str) -> Option<f64> {
        let text = self.text(format!("/proc/pressure/{resource}"))?;
        let some = text.lines().find(|line| line.starts_with("some "))?;
        some.split(' ').find_map(|word| word.strip_prefix("avg10="))?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_below_the_root() {
        let root = tempfile::tempdir().unwrap();
        let files = SystemFiles::from_root(root.path());
        fs::create_dir_all(root.path().join("proc/pressure")).unwrap();
        fs::write(root.path().join("proc/pressure/cpu"), "some avg10=12.50 avg60=1.00 total=5\n").unwrap();
        fs::write(root.path().join("scheduler"), "none [mq-deadline] bfq\n").unwrap();
        assert_eq!(files.pressure("cpu"), Some(12.5));
        assert_eq!(files.pressure("io"), None);
        assert_eq!(files.active_value("/scheduler").as_deref(), Some("mq-deadline"));
        assert_eq!(files.names("/proc"), ["pressure"]);
    }
}
