//! Methods for copying the files of a frozen instance: reflinks, a btrfs subvolume snapshot, or a user-supplied
//! command.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use jetcell_sync::Arc;
use jetcell_vfs::{FileName, OpenMode, Vfs};

use crate::error::{BackupError, Result};
use crate::file_names::copy_names;
use crate::refusal::{BackupRefusal, ProgramFailure};
use crate::set_error::{BackupSetError, DirectoryContent};
use crate::snapshot_seal::SnapshotFile;

/// How to make a snapshot of database files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapshotMethod {
    /// File copies that share their blocks with the originals (`FICLONE`); supported by btrfs, XFS, bcachefs and
    /// others.
    Reflink,
    /// A snapshot of the btrfs subvolume that holds all files, made by the `btrfs` program.
    Btrfs,
    /// A shell command that makes the snapshot by other means, such as LVM, ZFS or a disk array. It is run by
    /// `/bin/sh`.
    ///
    /// The command must make the snapshot available in the backup directory, readable and writable. The environment
    /// variable `JETCELL_SOURCE` contains the instance directory, and `JETCELL_SNAPSHOT` the backup directory.
    Command(String),
}

/// Callback that returns the time remaining, or `None` if the time limit has passed.
pub(crate) type RemainingTimeFn<'a> = dyn Fn() -> Option<Duration> + 'a;

/// A request for a snapshot.
pub(crate) struct SnapshotRequest<'a> {
    pub vfs: &'a dyn Vfs,
    pub method: &'a SnapshotMethod,
    /// Files to copy: databases first, then logs.
    pub files: &'a [PathBuf],
    pub to: &'a Path,
}

/// Maximum interval between checks for whether a program has exited.
const EXIT_POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Number of bytes of a program's output messages to keep.
const MESSAGE_BYTES: u64 = 4096;

impl SnapshotRequest<'_> {
    /// Fails if the snapshot is already known to be impossible. Called before the instance is frozen.
    pub fn check(&self) -> Result<()> {
        let (vfs, to) = (self.vfs, self.to);
        let not_empty = |content| BackupSetError::NotEmpty { directory: to.to_path_buf(), content };
        for file in self.files {
            let directory = parent_directory(file);
            if to.starts_with(directory) && !directory.as_os_str().is_empty() {
                let outer = directory.to_path_buf();
                return Err(BackupRefusal::SnapshotInside { directory: to.to_path_buf(), outer }.into());
            }
        }
        let exists = vfs.exists(to).map_err(|error| BackupError::io(to, &error))?;
        if exists && *self.method == SnapshotMethod::Btrfs {
            return Err(not_empty(DirectoryContent::ExistingDirectory).into());
        }
        let files =
            if exists { vfs.list(to).map_err(|error| BackupError::io(to, &error))? } else { Vec::new() };
        if !files.is_empty() {
            return Err(not_empty(DirectoryContent::SnapshotFiles).into());
        }
        if *self.method != SnapshotMethod::Reflink {
            self.directory()?;
        }
        Ok(())
    }

    /// Returns the directory that contains all files. Fails if they are in several directories.
    fn directory(&self) -> Result<&Path> {
        let first = self.files.first().map_or(Path::new("."), |file| parent_directory(file));
        match self.files.iter().find(|file| parent_directory(file) != first) {
            None => Ok(first),
            Some(other) => {
                let (file, directory) = (other.clone(), first.to_path_buf());
                Err(BackupRefusal::SeveralDirectories { file, directory }.into())
            }
        }
    }

    /// Returns the files that the snapshot should contain. The instance must be frozen or locked.
    pub fn expected_files(&self) -> Result<Vec<SnapshotFile>> {
        let expect = |(name, source): (FileName, &PathBuf)| {
            let bytes = self.vfs.file_len(source).map_err(|error| BackupError::io(source, &error))?;
            Ok(SnapshotFile { name, source: source.clone(), bytes })
        };
        self.names()?.into_iter().zip(self.files).map(expect).collect()
    }

    /// Returns the names of the files in the snapshot, in the order of [`SnapshotRequest::files`].
    fn names(&self) -> Result<Vec<FileName>> {
        match self.method {
            SnapshotMethod::Reflink => Ok(copy_names(self.files.iter().map(|file| &**file))?),
            _ => {
                let name = |file: &PathBuf| Ok(FileName::from_path(file)?);
                self.files.iter().map(name).collect()
            }
        }
    }

    /// Makes the snapshot. After an error, removes all snapshot files, except those left behind by the user's
    /// command.
    pub fn create(&self, left: &RemainingTimeFn<'_>) -> Result<()> {
        match self.method {
            SnapshotMethod::Reflink => self.clone_files(left),
            SnapshotMethod::Btrfs => {
                let words = ["subvolume", "snapshot"].map(OsStr::new);
                let words = words.into_iter().chain([self.directory()?.as_os_str(), self.to.as_os_str()]);
                let mut command = Command::new("btrfs");
                run(command.args(words), "btrfs subvolume snapshot", left).inspect_err(|_| self.discard())
            }
            SnapshotMethod::Command(text) => {
                let mut command = Command::new("/bin/sh");
                command.arg("-c").arg(text);
                command.env("JETCELL_SOURCE", self.directory()?).env("JETCELL_SNAPSHOT", self.to);
                run(&mut command, "the snapshot command", left)
            }
        }
    }

    fn clone_files(&self, left: &RemainingTimeFn<'_>) -> Result<()> {
        let clone = || {
            for (from, name) in self.files.iter().zip(self.names()?) {
                if left().is_none() {
                    return Err(BackupRefusal::SnapshotTimedOut.into());
                }
                let path = self.to.join(name);
                self.vfs.clone_file(from, &path).map_err(|error| match error.kind() {
                    io::ErrorKind::Unsupported => BackupRefusal::NoReflink(from.clone()).into(),
                    io::ErrorKind::CrossesDevices => {
                        BackupRefusal::OtherFileSystem { from: from.clone(), to: path.clone() }.into()
                    }
                    _ => BackupError::io(&path, &error),
                })?;
            }
            Ok(())
        };
        clone().inspect_err(|_| self.discard())
    }

    /// Removes the snapshot, unless the user's command made it.
    pub fn discard(&self) {
        match self.method {
            SnapshotMethod::Reflink => {
                // The directory was empty before, so all files in it belong to the snapshot.
                for path in self.vfs.list(self.to).unwrap_or_default() {
                    let _ = self.vfs.remove(&path);
                }
            }
            SnapshotMethod::Btrfs => {
                if self.vfs.exists(self.to).unwrap_or(false) {
                    let words =
                        ["subvolume", "delete"].map(OsStr::new).into_iter().chain([self.to.as_os_str()]);
                    let _ = run(Command::new("btrfs").args(words), "btrfs", &|| Some(Duration::MAX));
                }
            }
            SnapshotMethod::Command(_) => {}
        }
    }

    /// Makes the files of an instance that is not running durable. Otherwise the snapshot might lack data that is
    /// still only in the kernel's page cache.
    pub fn sync_source(&self) -> Result<()> {
        self.files.iter().try_for_each(|path| {
            let file = self.vfs.open(path, OpenMode::Read);
            let synced = file.and_then(|file| file.sync(jetcell_vfs::IoReason::Backup));
            synced.map_err(|error| BackupError::io(path, &error))
        })
    }
}

fn parent_directory(file: &Path) -> &Path {
    jetcell_vfs::parent_directory(file)
}

/// Runs a program until it exits. If the time limit passes first, kills the program and the processes that it has
/// started.
fn run(command: &mut Command, name: &'static str, left: &RemainingTimeFn<'_>) -> Result<()> {
    run_program(command, left).map_err(|failure| BackupRefusal::Program { name, failure }.into())
}

fn run_program(command: &mut Command, left: &RemainingTimeFn<'_>) -> std::result::Result<(), ProgramFailure> {
    let io_error = |error| ProgramFailure::Io(Arc::new(error));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0);
    let mut child = match command.spawn() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(ProgramFailure::NotInstalled(command.get_program().into()));
        }
        started => started.map_err(io_error)?,
    };
    let (sender, message) = channel();
    if let Some(errors) = child.stderr.take() {
        // The thread ends when the last process that can write messages has exited, which may be after the program
        // itself.
        std::thread::spawn(move || {
            let mut text = Vec::new();
            let mut errors = errors.take(MESSAGE_BYTES);
            let _ = errors.read_to_end(&mut text);
            let _ = sender.send(text);
            let _ = io::copy(&mut errors.into_inner(), &mut io::sink());
        });
    }
    let status = wait(&mut child, left).map_err(io_error)?.ok_or(ProgramFailure::TimedOut)?;
    if status.success() {
        return Ok(());
    }
    let text = message.recv_timeout(Duration::from_millis(500)).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    Err(match text.lines().map(str::trim).rfind(|line| !line.is_empty()) {
        Some(line) => ProgramFailure::Message(status, line.to_string()),
        None => ProgramFailure::Exit(status),
    })
}

/// Waits until a program exits. Returns `None` if it was killed because the time limit had passed.
fn wait(child: &mut Child, left: &RemainingTimeFn<'_>) -> io::Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        let Some(left) = left() else {
            let group = rustix::process::Pid::from_child(child);
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
            child.wait()?;
            return Ok(None);
        };
        std::thread::sleep(EXIT_POLL_INTERVAL.min(left));
    }
}
