//! `jetcell raid lun`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use jetcell_array::{BLOCK, LogOptions, LunVolume, check_lun_name};
use jetcell_workload::units::{ByteSize, human_bytes};
use serde_json::json;

use super::array_directory::absolute;
use super::content::{Content, log_options, start_with_content};
use super::running_array::{ArrayFiles, RunningArray, Severity, Start};
use super::shown::Shown;
use crate::console;
use crate::outcome::{Failure, Outcome};

/// The commands of LUNs.
#[derive(Subcommand)]
pub enum LunCommand {
    /// Make a LUN; the first one makes the array a volume of LUNs
    Create(CreateLun),
    /// List the LUNs with their room and their snapshots
    List(ListLuns),
    /// Move blocks together, so that whole rows become free
    Clean(CleanLuns),
    /// Delete a LUN with its snapshots
    Delete(DeleteLun),
}

impl LunCommand {
    pub fn run(self) -> Result<Outcome, Failure> {
        match self {
            LunCommand::Create(command) => command.create(),
            LunCommand::List(command) => command.list(),
            LunCommand::Clean(command) => command.clean(),
            LunCommand::Delete(command) => command.delete(),
        }
    }
}

/// Makes a LUN that reads as zeros and takes no room
#[derive(Args)]
#[command(after_help = "\
LUNs may have more room together than the array (thin provisioning); a write for which the array has no room fails. The first LUN makes an
array that was never written a volume of LUNs. Its write log is the file write-log in the directory of the array, or --log: on a fast
device, best on one that has a mirror, because writes that were acknowledged since the last consistency point are nowhere else.

Examples:
  jetcell raid lun create arr1 mail --size 1TiB
  jetcell raid lun create arr2 mail --size 500GiB --log /nvme/arr2.log --log-size 1GiB

Exit code: 0 made, 2 refused; nothing was changed then.")]
pub struct CreateLun {
    #[command(flatten)]
    start: Start,
    /// Name of the LUN: letters, digits, and - _ .
    #[arg(value_name = "LUN")]
    name: String,
    /// Bytes that clients see, in blocks of 4 KiB
    #[arg(long, value_name = "SIZE")]
    size: ByteSize,
    /// File of the write log, for the first LUN
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Size of the write log, for the first LUN
    #[arg(long, value_name = "SIZE", default_value = "64MiB")]
    log_size: ByteSize,
    #[command(flatten)]
    shown: Shown,
}

impl CreateLun {
    fn create(&self) -> Result<Outcome, Failure> {
        let block = BLOCK as u64;
        if self.size.0 == 0 || !self.size.0.is_multiple_of(block) {
            return Err(format!("--size {} must be a multiple of {block} bytes", self.size).into());
        }
        check_lun_name(&self.name).map_err(|error| error.to_string())?;
        let mut running = self.start.start()?;
        let shown = self.start.array.display();
        let is_volume = LunVolume::is_on(&mut running.array);
        let refused = match &is_volume {
            Err(error) => Some(error.to_string()),
            Ok(true) if self.log.is_some() => {
                Some("the array has LUNs, and so a write log; leave --log out".into())
            }
            Ok(_) => None,
        };
        if let Some(what) = refused {
            running.close()?;
            return Err(format!("{shown}: {what}").into());
        }
        if let Some(log) = &self.log {
            running.files.directory.write_log = Some(absolute(log)?);
            running.files.directory.save()?;
        }
        let log = LogOptions { bytes: self.log_size.0, ..log_options(&running, false) };
        let RunningArray { array, mut files, .. } = running;
        let volume = match is_volume {
            Ok(true) => LunVolume::start(array, &log),
            _ => LunVolume::create(array, &log),
        };
        let mut volume = match volume {
            Ok(volume) => volume,
            Err(error) => {
                if self.log.is_some() {
                    files.directory.write_log = None;
                    files.directory.save()?;
                }
                return Err(format!("{shown}: {error}").into());
            }
        };
        let made = volume.create_lun(&self.name, self.size.0 / block);
        volume.close().map_err(|error| format!("{shown}: {error}"))?;
        made.map_err(|error| format!("{shown}: {error}"))?;
        let text = format!("LUN {} of {} was made.", self.name, human_bytes(self.size.0));
        let figures = json!({ "lun": self.name, "bytes": self.size.0 });
        files.event("lun_created", Severity::Information, &text, figures.clone());
        self.shown.print(&figures, &format!("{shown}: LUN {}, {}", self.name, human_bytes(self.size.0)));
        Ok(Outcome::Good)
    }
}

/// Starts the volume of an array, runs something on it, and shuts it down whatever happened.
pub fn with_luns<T>(
    start: &Start,
    run: impl FnOnce(&mut LunVolume) -> Result<T, jetcell_array::ArrayError>,
) -> Result<(T, ArrayFiles), Failure> {
    let shown = start.array.display();
    let (content, mut files) = start_with_content(start, false)?;
    let mut volume = match content {
        Content::Luns(volume) => volume,
        Content::Array(array) => {
            array.close().map_err(|error| format!("{shown}: {error}"))?;
            return Err(format!("{shown}: the array has no LUNs; jetcell raid lun create makes one").into());
        }
    };
    let result = run(&mut volume);
    files.save_members(&volume.array().status())?;
    let closed = volume.close();
    let result = result.map_err(|error| format!("{shown}: {error}"))?;
    closed.map_err(|error| format!("{shown}: {error}"))?;
    Ok((result, files))
}

/// Lists the LUNs of an array
#[derive(Args)]
#[command(after_help = "\
`used` is what the present state of a LUN refers to, with its map, and with what it shares with snapshots and clones.

Examples:
  jetcell raid lun list arr1
  jetcell raid lun list arr1 --json

Exit code: 0 listed, 2 could not run.")]
pub struct ListLuns {
    #[command(flatten)]
    start: Start,
    /// Print the list as JSON
    #[arg(long)]
    json: bool,
}

impl ListLuns {
    fn list(&self) -> Result<Outcome, Failure> {
        let ((luns, free), _) = with_luns(&self.start, |volume| Ok((volume.luns()?, volume.free_bytes())))?;
        if self.json {
            let luns: Vec<_> = luns
                .iter()
                .map(|lun| {
                    json!({ "name": lun.name, "bytes": lun.bytes, "used_bytes": lun.used_bytes,
                            "snapshots": lun.snapshots.len() })
                })
                .collect();
            console::print(&format!("{}\n", json!({ "free_bytes": free, "luns": luns })));
            return Ok(Outcome::Good);
        }
        let lines = luns.iter().map(|lun| {
            let (bytes, used) = (human_bytes(lun.bytes), human_bytes(lun.used_bytes));
            format!("{}: {bytes}, {used} used, {} snapshots\n", lun.name, lun.snapshots.len())
        });
        let lines: String = lines.collect();
        console::show(&format!("{lines}{} free for all LUNs\n", human_bytes(free)));
        Ok(Outcome::Good)
    }
}

/// Moves blocks of zones that are at most half in use together
#[derive(Args)]
#[command(after_help = "\
New data goes to whole free rows as long as there are any, which takes the fewest writes. Blocks that snapshots share do not move.

Examples:
  jetcell raid lun clean arr1

Exit code: 0 cleaned, 2 could not run.")]
pub struct CleanLuns {
    #[command(flatten)]
    start: Start,
    #[command(flatten)]
    shown: Shown,
}

impl CleanLuns {
    fn clean(&self) -> Result<Outcome, Failure> {
        let ((moved, before, after), _) = with_luns(&self.start, |volume| {
            let first = volume.clean_step()?;
            let (mut moved, mut last) = (first.moved, first);
            while last.moved > 0 && last.whole_rows_after > last.whole_rows_before {
                last = volume.clean_step()?;
                moved += last.moved;
            }
            Ok((moved, first.whole_rows_before, last.whole_rows_after))
        })?;
        let array = self.start.array.display();
        self.shown.print(
            &json!({ "blocks_moved": moved, "free_rows": after, "free_rows_before": before }),
            &format!("{array}: {moved} blocks moved; {after} rows are free as a whole, {before} before"),
        );
        Ok(Outcome::Good)
    }
}

/// Deletes a LUN with its snapshots
#[derive(Args)]
#[command(after_help = "\
Clones of its snapshots stay.

Examples:
  jetcell raid lun delete arr1 mail --force

Exit code: 0 deleted, 2 refused.")]
pub struct DeleteLun {
    #[command(flatten)]
    start: Start,
    /// Name of the LUN
    #[arg(value_name = "LUN")]
    name: String,
    /// Confirm that what the LUN holds may be lost
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    shown: Shown,
}

impl DeleteLun {
    fn delete(&self) -> Result<Outcome, Failure> {
        let shown = self.start.array.display();
        if !self.force {
            return Err(format!(
                "{shown}: what the LUN {} holds would be lost; add --force if that is intended",
                self.name
            )
            .into());
        }
        let ((), mut files) = with_luns(&self.start, |volume| volume.delete_lun(&self.name))?;
        let text = format!("LUN {} was deleted.", self.name);
        let figures = json!({ "lun": self.name });
        files.event("lun_deleted", Severity::Information, &text, figures.clone());
        self.shown.print(&figures, &format!("{shown}: LUN {} was deleted", self.name));
        Ok(Outcome::Good)
    }
}
