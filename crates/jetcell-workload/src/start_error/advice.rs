//! What the user can do if a run cannot start.

use std::borrow::Cow;

use jetcell_host::UnsuitableStorage;

use super::StartError;

impl StartError {
    /// Returns what the user can do about the error, for example `specify a new directory`.
    pub fn advice(&self) -> Option<Cow<'static, str>> {
        Some(Cow::Borrowed(match self {
            StartError::DamagedStateFile { advice, .. } | StartError::OtherVersion { advice, .. } => advice,
            StartError::InterruptedStressTest { .. } => {
                "continue it with --resume, or remove jetcell-stress.json from this directory"
            }
            StartError::InterruptedCreation { .. } => "continue it with --resume, or start over with --force",
            StartError::OtherCreation(_) => "omit it to continue, or start over with --force",
            StartError::NothingToResume(_) => "use --open for existing databases, or omit --resume",
            StartError::NoDatabase(_) => "to create databases, omit --open",
            StartError::DatabaseExists(_) => "add --open to use the databases, or --force to replace them",
            StartError::NotADatabase { .. } => "specify a directory with databases, or omit --open",
            StartError::UnsupportedFormat { .. } => "create a new database",
            StartError::DamagedHeader { .. } => "restore it, or replace it with --force",
            StartError::LogMissing { .. } => "specify its --log-dir, or replace it with --force",
            StartError::UnsupportedState { .. } => "replace it with --force",
            StartError::PageSize { has, .. } => {
                return Some(format!("use --page-size {has} or different databases").into());
            }
            StartError::NotADirectory(_) => "specify a directory for the files",
            StartError::NoDirectory(path) => {
                let path = path.display();
                return Some(format!("create it (mkdir -p {path}) or use a different directory").into());
            }
            StartError::Storage(UnsuitableStorage::InMemory(..)) => "specify a directory on a disk",
            StartError::Storage(UnsuitableStorage::NoDirectIo(_)) => {
                "specify a directory on another file system"
            }
            StartError::Storage(UnsuitableStorage::NoSpace { .. }) => {
                "choose a smaller --size, fewer --databases or another directory"
            }
            StartError::ResultExists(_) => "specify a different --output, or use --force to replace it",
            StartError::OutputIsFile(_) => "use a different path",
            StartError::NotWritableDirectory { .. } | StartError::BackupNotReadable(_) => {
                "use a different directory"
            }
            StartError::SmallCache { min, .. } => {
                return Some(format!("use at least {min}, or fewer databases or threads").into());
            }
            StartError::LargeCache { max, .. } => {
                return Some(format!("use at most --cache {max}").into());
            }
            StartError::AddressSpace { .. } => {
                "raise the limit (ulimit -v), or choose a smaller cache or fewer threads"
            }
            StartError::Threads { .. } => {
                "raise the limit (ulimit -u, or pids.max of its control group), or choose fewer --threads"
            }
            StartError::HasPreservedState(_) => {
                "restore it with --open --reset and --databases, or replace it with --force"
            }
            StartError::InterruptedRestore(_) => "add --reset to restore them, or --force to replace them",
            StartError::ResetOnArray => "use directories on a file system of this machine",
            StartError::NoSharedBlocks(_) => "use --reset copy, or btrfs, or xfs with reflink=1",
            StartError::OtherDatabases { .. } => {
                "use the same --databases, --dir and --log-dir, or prepare the databases again with --force"
            }
            StartError::Restore(error) => return error.advice().map(Cow::Borrowed),
            StartError::StoppedDuringRestore => "restore them with --reset before using them",
            StartError::StoppedBeforeVerification => "nothing was changed",
            StartError::DamagedPages { .. } => "restore the database, or replace it with --force",
            StartError::BackupNotEmpty(_) => "specify a new directory",
            StartError::BackupInside { .. } => "specify a directory elsewhere",
            StartError::SizeOfVolume { error, .. } => return error.advice(),
            StartError::Maintenance(error) => return error.advice(),
            StartError::Io { .. }
            | StartError::StateFile { .. }
            | StartError::InUse(_)
            | StartError::NotWritable { .. }
            | StartError::FreeSpace { .. } => return None,
        }))
    }
}
