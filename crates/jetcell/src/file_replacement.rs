//! Atomic writes of output files. Even after a kill or a power failure, a file is either complete or absent.

use std::io::{self, Write};
use std::path::Path;

use jetcell_vfs::UnfinishedFile;

/// Replaces the file durably. If an error occurs, the old file is unchanged.
pub fn replace_file(path: &Path, text: &str) -> io::Result<()> {
    let mut file = UnfinishedFile::create(path)?;
    file.write_all(text.as_bytes())?;
    file.finish()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_replacement_leaves_no_other_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.txt");
        for text in ["a longer text", "short"] {
            replace_file(&path, text).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        assert_eq!(names(dir.path()), ["a.txt"]);
    }

    #[test]
    fn a_failed_replacement_keeps_the_old_file_and_cleans_up() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("taken/inside")).unwrap();
        assert!(replace_file(&dir.path().join("taken"), "text").is_err());
        assert!(replace_file(&dir.path().join("nowhere/a.txt"), "text").is_err());
        assert!(replace_file(Path::new("/"), "text").is_err());
        assert_eq!(names(dir.path()), ["taken"]);
        assert_eq!(names(&dir.path().join("taken")), ["inside"]);
    }
}
