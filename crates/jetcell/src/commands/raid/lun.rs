//! `jetcell raid lun`: creates, lists, cleans and deletes LUNs.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use jetcell_array::BLOCK;
use jetcell_input::number::human_bytes;
use jetcell_luns::{CleaningProgress, LunVolume, WriteLogOptions, check_lun_name};
use jetcell_workload::units::ByteSize;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::content::{ArrayContent, RunningContent, log_options};
use super::maintainer::{MIN_PAUSE, maintenance_throttle};
use super::member_file::is_link_to_file;
use super::operation_context::{OperationContext, OperationResult};
use super::output_options::OutputOptions;
use super::running_array::{ArrayEventSeverity, ArrayStartOptions, RunningArray};
use crate::outcome::{CommandContext, CommandError, CommandResult};
use crate::shared::files::absolute;

/// Commands for LUNs of an array.
#[derive(Subcommand)]
pub enum LunCommand {
    /// Create a LUN; the first one makes the array a volume of LUNs
    Create(CreateLunArgs),
    /// List the LUNs with their space and their snapshots
    List(ListLunsArgs),
    /// Consolidate blocks to free whole rows
    Clean(CleanLunsArgs),
    /// Delete a LUN with its snapshots
    Delete(DeleteLunArgs),
}

/// Create a LUN that reads as zeros and uses no space
#[derive(Args)]
#[command(after_help = "\
LUNs together may be larger than the array (thin provisioning); a write fails if the array has no free space. The first LUN turns an
array that was never written into a LUN volume. Its write log is the file write-log in the directory of the array, or --log. Use a fast
device, preferably mirrored: writes acknowledged since the last consistency point exist only there.

Examples:
  jetcell raid lun create arr1 mail --size 1TiB
  jetcell raid lun create arr2 mail --size 500GiB --log /nvme/arr2.log --log-size 1GiB

Exit code: 0 created, 2 refused; nothing was changed.")]
pub struct CreateLunArgs {
    #[command(flatten)]
    pub start: ArrayStartOptions,
    #[command(flatten)]
    pub new: NewLun,
    #[command(flatten)]
    pub shown: OutputOptions,
}

/// Request to create a LUN.
#[derive(Args, Serialize, Deserialize)]
pub struct NewLun {
    /// Name of the LUN: letters, digits, and - _ .
    #[arg(value_name = "LUN")]
    name: String,
    /// Size of the LUN, a multiple of 4 KiB
    #[arg(long, value_name = "SIZE")]
    size: ByteSize,
    /// File of the write log, for the first LUN
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Size of the write log, for the first LUN
    #[arg(long, value_name = "SIZE", default_value = "64MiB")]
    log_size: ByteSize,
}

impl CreateLunArgs {
    /// Fails if the name or the size of the LUN is invalid.
    pub fn check(&self) -> CommandResult<()> {
        let block = BLOCK as u64;
        if self.new.size.0 == 0 || !self.new.size.0.is_multiple_of(block) {
            return Err(CommandError::new(format_args!(
                "--size {} must be a multiple of {block} bytes",
                self.new.size
            ))
            .advise("correct this value"));
        }
        Ok(check_lun_name(&self.new.name)?)
    }
}

/// Returns the error for `--log` if the array already has a write log.
fn write_log_exists() -> CommandError {
    CommandError::new("the array already has LUNs and a write log").advise("omit --log")
}

impl NewLun {
    /// Starts an array that no other process uses as a volume of LUNs.
    pub fn start(&self, start: &ArrayStartOptions) -> CommandResult<RunningContent> {
        let mut running = start.start()?;
        let shown = start.array.display();
        let is_volume = match LunVolume::exists_on(&mut running.array) {
            Ok(true) if self.log.is_some() => Err(write_log_exists()),
            found => found.map_err(CommandError::from),
        };
        let is_volume = match is_volume {
            Ok(is_volume) => is_volume,
            Err(error) => {
                running.close()?;
                return Err(error.context(shown));
            }
        };
        if let Some(log) = &self.log {
            running.files.directory.write_log = Some(absolute(log)?);
            running.files.directory.save()?;
        }
        let log = WriteLogOptions { bytes: self.log_size.0, ..log_options(&running, false) };
        if !is_volume && is_link_to_file(&log.path) {
            running.files.directory.write_log = None;
            running.files.directory.save()?;
            running.close()?;
            let log = log.path.display();
            return Err(CommandError::new(format_args!("{log} is a link"))
                .advise("use --log to specify the actual path of the write log"));
        }
        let RunningArray { array, vfs, mut files } = running;
        let volume = if is_volume { LunVolume::start(array, &log) } else { LunVolume::create(array, &log) };
        match volume {
            Ok(volume) => Ok(RunningContent { content: ArrayContent::Luns(Box::new(volume)), vfs, files }),
            Err(error) => {
                if self.log.is_some() {
                    files.directory.write_log = None;
                    files.directory.save()?;
                }
                Err(error).context(shown)
            }
        }
    }

    pub fn perform(&self, on: &OperationContext<'_>) -> CommandResult<OperationResult> {
        let name = on.name;
        if on.concurrent_activity.is_some() && self.log.is_some() {
            return Err(write_log_exists().context(name));
        }
        on.with_lun_volume(|volume| volume.create_lun(&self.name, self.size.0 / BLOCK as u64))?;
        let size = human_bytes(self.size.0);
        let text = format!("LUN {} of {size} was created.", self.name);
        let figures = json!({ "lun": self.name, "bytes": self.size.0 });
        on.event("lun_created", ArrayEventSeverity::Information, &text, figures.clone());
        let later = match on.concurrent_activity {
            Some(_) => "; jetcell raid serve exports it after its next start",
            None => "",
        };
        Ok(OperationResult::success(&figures, &format!("{name}: LUN {}, {size}{later}", self.name)))
    }
}

/// List the LUNs of an array
#[derive(Args)]
#[command(after_help = "\
`used` is the space that the current state of a LUN references, including its map and blocks shared with snapshots and clones.

Examples:
  jetcell raid lun list arr1
  jetcell raid lun list arr1 --json

Exit code: 0 listed, 2 could not run.")]
pub struct ListLunsArgs {
    #[command(flatten)]
    pub start: ArrayStartOptions,
    #[command(flatten)]
    pub shown: OutputOptions,
}

/// Returns the LUNs with the space that they use.
pub fn list(on: &OperationContext<'_>) -> CommandResult<OperationResult> {
    let (luns, free) = on.with_lun_volume(|volume| Ok((volume.luns()?, volume.free_bytes())))?;
    let lines = luns.iter().map(|lun| {
        let (bytes, used) = (human_bytes(lun.bytes), human_bytes(lun.used_bytes));
        format!("{}: {bytes}, {used} used, {} snapshots\n", lun.name, lun.snapshots.len())
    });
    let text = format!("{}{} free for all LUNs", lines.collect::<String>(), human_bytes(free));
    let luns: Vec<_> = luns
        .iter()
        .map(|lun| {
            json!({ "name": lun.name, "bytes": lun.bytes, "used_bytes": lun.used_bytes,
                    "snapshots": lun.snapshots.len() })
        })
        .collect();
    Ok(OperationResult::success(&json!({ "free_bytes": free, "luns": luns }), &text))
}

/// Consolidate the blocks of zones that are at most half full
#[derive(Args)]
#[command(after_help = "\
While there are entirely free rows, new data is written to them, which takes the fewest writes. Blocks shared with snapshots are not moved.

Examples:
  jetcell raid lun clean arr1

Exit code: 0 cleaned, 2 could not run.")]
pub struct CleanLunsArgs {
    #[command(flatten)]
    pub start: ArrayStartOptions,
    #[command(flatten)]
    pub shown: OutputOptions,
}

/// Cleans until a step no longer frees rows. If a load is running, cleaning pauses like a rebuild.
pub fn clean(on: &OperationContext<'_>) -> CommandResult<OperationResult> {
    let mut throttle = maintenance_throttle();
    let meter = on.with_array(|array| Ok(array.load_meter()))?;
    let mut step = || -> CommandResult<(CleaningProgress, Duration)> {
        on.with_lun_volume(|volume| {
            let (cleaned, pause) = throttle.step(&meter, |_| volume.clean_step());
            Ok((cleaned?, pause))
        })
    };
    let (first, mut pause) = step()?;
    let (mut moved, mut last) = (first.moved, first);
    while last.moved > 0 && last.whole_rows_after > last.whole_rows_before && !on.pace.cancel.is_cancelled() {
        if on.concurrent_activity.is_some() {
            on.pace.cancel.sleep(pause.max(MIN_PAUSE));
        }
        (last, pause) = step()?;
        moved += last.moved;
    }
    let (before, after) = (first.whole_rows_before, last.whole_rows_after);
    Ok(OperationResult::success(
        &json!({ "blocks_moved": moved, "free_rows": after, "free_rows_before": before }),
        &format!("{}: {moved} blocks moved; {after} rows are entirely free, {before} before", on.name),
    ))
}

/// Delete a LUN with its snapshots
#[derive(Args)]
#[command(after_help = "\
Clones of its snapshots remain.

Examples:
  jetcell raid lun delete arr1 mail --force

Exit code: 0 deleted, 2 refused.")]
pub struct DeleteLunArgs {
    #[command(flatten)]
    pub start: ArrayStartOptions,
    /// Name of the LUN
    #[arg(value_name = "LUN")]
    pub name: String,
    /// Confirm the loss of the LUN's content
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub shown: OutputOptions,
}

impl DeleteLunArgs {
    /// Fails unless the deletion was confirmed.
    pub fn check(&self) -> CommandResult<()> {
        let shown = self.start.array.display();
        if !self.force {
            return Err(CommandError::new(format_args!(
                "{shown}: this would delete all data on the LUN {}",
                self.name
            ))
            .advise("to continue, add --force"));
        }
        Ok(())
    }
}

/// Deletes a LUN that is not in use.
pub fn delete(on: &OperationContext<'_>, name: &str) -> CommandResult<OperationResult> {
    on.refuse_used_lun(name)?;
    on.with_lun_volume(|volume| volume.delete_lun(name))?;
    let figures = json!({ "lun": name });
    on.event(
        "lun_deleted",
        ArrayEventSeverity::Information,
        &format!("LUN {name} was deleted."),
        figures.clone(),
    );
    Ok(OperationResult::success(&figures, &format!("{}: LUN {name} was deleted", on.name)))
}
