//! A temporary working directory for tests, and the command that runs in it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::SystemTime;

pub struct CellDirectory(tempfile::TempDir);

/// Length and modification time of every path below the cell.
pub type FileListing = BTreeMap<PathBuf, (u64, SystemTime)>;

impl CellDirectory {
    pub fn new() -> CellDirectory {
        // Created in the target directory, because the temporary directory of the system may be a tmpfs.
        CellDirectory(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn make_dir(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(&path).unwrap();
        path
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, content).unwrap();
        path
    }

    /// Writes a file that only its owner can read.
    pub fn secret(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let path = self.write(name, content);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        path
    }

    /// Returns the program with these arguments.
    pub fn program(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_jetcell"));
        command.current_dir(self.0.path()).args(words);
        command
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        self.program(&[&["test", "performance"], arguments].concat())
    }

    pub fn jetcell(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    pub fn listing(&self) -> FileListing {
        let mut found = FileListing::new();
        list(self.0.path(), &mut found);
        found
    }

    /// Checks that a performance test is refused with one line on stderr and changes nothing. Returns the line.
    #[track_caller]
    pub fn refused(&self, arguments: &[&str]) -> String {
        self.program_refused(&[&["test", "performance"], arguments].concat())
    }

    /// Checks that a command is refused with one line on stderr and changes nothing. Returns the line.
    #[track_caller]
    pub fn program_refused(&self, words: &[&str]) -> String {
        let before = self.listing();
        let output = self.program(words).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(output.stdout.is_empty());
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        assert_eq!(self.listing(), before, "a refusal changed something");
        stderr.strip_prefix("jetcell: ").unwrap().trim_end().to_string()
    }
}

fn list(dir: &Path, found: &mut FileListing) {
    let metadata = fs::metadata(dir).unwrap();
    found.insert(dir.into(), (0, metadata.modified().unwrap()));
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let metadata = entry.metadata().unwrap();
        if metadata.is_dir() {
            list(&entry.path(), found);
        } else {
            found.insert(entry.path(), (metadata.len(), metadata.modified().unwrap()));
        }
    }
}
