//! The drive model whose timing an array's members simulate.

use std::path::Path;
use std::sync::Arc;

use jetcell_disk_simulation::config::{drives, parse_drive};
use jetcell_disk_simulation::drive::DriveModel;
use jetcell_simulated_drives::SimulatedDriveVfs;
use jetcell_vfs::{Vfs, read_input};
use jetcell_workload::units::ByteSize;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::outcome::{CommandContext, CommandError, CommandResult};

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
    pub fn new(name: &str, time_scale: f64) -> CommandResult<SimulatedDriveOptions> {
        let mut table = drives();
        let drive = match table.remove(name) {
            Some(drive) => drive,
            None if Path::new(name).exists() => {
                let source = format!("--simulate-drive {name}");
                let text = read_input(Path::new(name), MAX_CONFIG_BYTES).context(&source)?;
                parse_drive(&source, &text)?
            }
            None => {
                let names = drives().into_keys().collect::<Vec<_>>().join(", ");
                return Err(CommandError::new(format_args!(
                    "--simulate-drive {name}: there is no drive or file with this name"
                ))
                .advise(format!("available drives: {names}")));
            }
        };
        let drive = SimulatedDriveOptions { time_scale, drive };
        match drive.invalid_reason() {
            Some(what) => Err(CommandError::new(what).advise("correct this value")),
            None => Ok(drive),
        }
    }

    /// Returns why no drive can have these parameters, or `None` if they are valid.
    pub fn invalid_reason(&self) -> Option<String> {
        if !(MIN_TIME_SCALE..=MAX_TIME_SCALE).contains(&self.time_scale) {
            return Some(format!("the time scale must be between {MIN_TIME_SCALE} and {MAX_TIME_SCALE}"));
        }
        self.drive.impossible_field().map(|field| format!("the {field} is not possible for a drive"))
    }

    /// Fails if members of this size are larger than the drive.
    pub fn check_size(&self, size: Option<ByteSize>) -> CommandResult<()> {
        match size {
            Some(size) if size.0 > self.drive.capacity() => Err(CommandError::new(format_args!(
                "--size {size}: the simulated drive ({}) has {} GB",
                self.drive.name(),
                self.drive.capacity() / 1_000_000_000
            ))
            .advise("use a smaller --size; the seek times remain those of the whole drive")),
            _ => Ok(()),
        }
    }

    /// Returns a file system in which the files of `vfs` have the timing of these drives.
    pub fn wrap_vfs(&self, vfs: Arc<dyn Vfs>) -> CommandResult<Arc<dyn Vfs>> {
        let drives = SimulatedDriveVfs::new(vfs, self.drive.clone(), self.time_scale);
        Ok(Arc::new(drives.context("could not start the simulated drives")?))
    }

    pub fn as_text(&self) -> String {
        let name = self.drive.name();
        match self.time_scale {
            1.0 => format!("simulated drives: {name}, in real time"),
            scale => format!("simulated drives: {name}, {scale} times as fast as real ones"),
        }
    }

    pub fn as_json(&self) -> Value {
        json!({ "name": self.drive.name(), "time_scale": self.time_scale })
    }
}
