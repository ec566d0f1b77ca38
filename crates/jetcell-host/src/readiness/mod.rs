//! Examines whether the machine and the storage under some directories are ready for a measurement.

mod error;
mod limits;
mod machine;
mod observation;
mod storage;
mod system_files;

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

pub use self::error::ReadinessError;
pub use self::observation::{Observation, ObservationSeverity};
use self::storage::WritableDirectory;
use self::system_files::SystemFiles;

/// Time during which the devices are watched for use by other programs.
const OBSERVATION_TIME: Duration = Duration::from_secs(1);

/// Observations about a machine, with the recommended changes before a measurement.
#[derive(Debug, Serialize)]
pub struct ReadinessReport {
    /// Number of observations that recommend a change.
    pub changes: usize,
    /// All observations: first those about the machine, then those about each directory.
    pub observations: Vec<Observation>,
}

impl ReadinessReport {
    /// Examines the machine and the storage under `directories`. No file is left in these directories. The examination
    /// takes about two seconds.
    ///
    /// # Errors
    /// Returns an error if a directory does not exist or is not writable.
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
