//! Examines whether the machine and the storage under some directories are ready for a measurement.

mod limits;
mod machine;
mod observation;
mod storage;
mod system_files;

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

pub use self::observation::{Observation, ObservationSeverity};
use self::storage::WritableDirectory;
use self::system_files::SystemFiles;

/// Time during which the devices are watched for use by other programs.
const OBSERVATION_TIME: Duration = Duration::from_secs(1);

/// What to change before a measurement.
#[derive(Debug, Serialize)]
pub struct ReadinessReport {
    /// Number of observations that recommend a change.
    pub changes: usize,
    /// All observations: first those about the machine, then those about each directory.
    pub observations: Vec<Observation>,
}

/// Reason why a directory cannot be examined.
#[derive(Debug, thiserror::Error)]
pub enum ReadinessError {
    /// The directory does not exist, or cannot be accessed.
    #[error("{} cannot be examined: {1}", .0.display())]
    Missing(PathBuf, #[source] io::Error),
    /// The path is not a directory.
    #[error("{} is not a directory", .0.display())]
    NotADirectory(PathBuf),
    /// No file can be created in the directory.
    #[error("{} is not writable ({1})", .0.display())]
    NotWritable(PathBuf, #[source] io::Error),
    /// A file in the directory cannot be written.
    #[error("{}: could not write a file: {1}", .0.display())]
    Write(PathBuf, #[source] io::Error),
    /// The free space is unknown.
    #[error("{}: could not determine the free space: {1}", .0.display())]
    Space(PathBuf, #[source] io::Error),
}

impl ReadinessError {
    /// Returns what the user can do about the error.
    pub fn advice(&self) -> Option<&'static str> {
        Some(match self {
            ReadinessError::Missing(..) => "specify an existing directory",
            ReadinessError::NotADirectory(_) => "specify the directory of the test",
            ReadinessError::NotWritable(..) => "change its permissions, or use a different directory",
            ReadinessError::Write(..) => "free some space, or check the kernel log",
            ReadinessError::Space(..) => return None,
        })
    }
}

impl ReadinessReport {
    /// Examines the machine and the storage under `directories`. No file is left there. The examination takes about
    /// two seconds.
    ///
    /// # Errors
    /// A directory does not exist or is not writable.
    pub fn examine(directories: &[PathBuf]) -> Result<ReadinessReport, ReadinessError> {
        let files = SystemFiles::for_this_machine();
        let directories: Vec<WritableDirectory> =
            directories.iter().map(|path| WritableDirectory::open(path)).collect::<Result<_, _>>()?;
        let mut observations = machine::observe(&files);
        observations.extend(limits::observe(&files));
        observations.extend(machine::observe_transfers(&files));
        let busy = storage::busy_shares(&files, &directories, OBSERVATION_TIME);
        for (directory, busy) in directories.iter().zip(busy) {
            observations.extend(storage::observe(&files, directory, busy));
        }
        let changes = observations.iter().filter(|each| each.weight == ObservationSeverity::Change).count();
        Ok(ReadinessReport { changes, observations })
    }
}
