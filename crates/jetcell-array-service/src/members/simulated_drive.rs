//! The drive model whose timing an array's members simulate.

use std::path::Path;
use std::sync::Arc;

use jetcell_disk_simulation::config::{drives, parse_drive};
use jetcell_disk_simulation::drive::DriveModel;
use jetcell_input::quantity::ByteSize;
use jetcell_simulated_drives::SimulatedDriveVfs;
use jetcell_vfs::{Vfs, read_input};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::{DriveFault, Error, Result};

/// Maximum size in bytes of a file that describes a drive.
const MAX_CONFIG_BYTES: u64 = 1 << 20;
const MIN_TIME_SCALE: f64 = 0.01;
const MAX_TIME_SCALE: f64 = 10_000.0;

/// Options for simulated drives: the drive model, and how many times faster than a real drive it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SimulatedDriveOptions {
    time_scale: f64,
    drive: DriveModel,
}

impl SimulatedDriveOptions {
    /// Creates a simulated drive from a built-in name, or from a TOML file.
    pub(crate) fn new(name: &str, time_scale: f64) -> Result<SimulatedDriveOptions> {
        let mut table = drives();
        let drive = match table.remove(name) {
            Some(drive) => drive,
            None if Path::new(name).exists() => {
                let text = read_input(Path::new(name), MAX_CONFIG_BYTES)
                    .map_err(|source| Error::DriveFile { name: name.into(), source })?;
                parse_drive(&format!("--simulate-drive {name}"), &text)?
            }
            None => {
                let known = drives().into_keys().collect();
                return Err(Error::UnknownDrive { name: name.into(), known });
            }
        };
        let drive = SimulatedDriveOptions { time_scale, drive };
        drive.check()?;
        Ok(drive)
    }

    /// Fails if no drive can have these parameters.
    pub(crate) fn check(&self) -> std::result::Result<(), DriveFault> {
        if !(MIN_TIME_SCALE..=MAX_TIME_SCALE).contains(&self.time_scale) {
            return Err(DriveFault::TimeScale { min: MIN_TIME_SCALE, max: MAX_TIME_SCALE });
        }
        self.drive.impossible_field().map_or(Ok(()), |field| Err(DriveFault::Parameter(field)))
    }

    /// Fails if members of this size are larger than the drive.
    pub(crate) fn check_size(&self, size: Option<ByteSize>) -> Result<()> {
        let (drive, capacity) = (self.drive.name().to_string(), self.drive.capacity());
        match size {
            Some(size) if size.0 > capacity => Err(Error::DriveTooSmall { size, drive, capacity }),
            _ => Ok(()),
        }
    }

    /// Returns a file system in which the files of `vfs` have the timing of these drives.
    pub(crate) fn wrap_vfs(&self, vfs: Arc<dyn Vfs>) -> Result<Arc<dyn Vfs>> {
        let drives = SimulatedDriveVfs::new(vfs, self.drive.clone(), self.time_scale);
        Ok(Arc::new(drives.map_err(Error::SimulatedDrives)?))
    }

    /// Describes the drives in text.
    pub fn as_text(&self) -> String {
        let name = self.drive.name();
        match self.time_scale {
            1.0 => format!("simulated drives: {name}, in real time"),
            scale => format!("simulated drives: {name}, {scale} times as fast as real ones"),
        }
    }

    /// Describes the drives in JSON.
    pub fn as_json(&self) -> Value {
        json!({ "name": self.drive.name(), "time_scale": self.time_scale })
    }
}
