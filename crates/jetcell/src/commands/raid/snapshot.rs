//! `jetcell raid snapshot`: creates, lists, restores, clones and deletes snapshots of LUNs.

use std::time::{SystemTime, UNIX_EPOCH};

use chrono::{DateTime, Local, SecondsFormat};
use clap::{Args, Subcommand};
use jetcell_luns::LunVolume;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::operation_context::{OperationContext, OperationResult};
use super::output_options::OutputOptions;
use super::running_array::{ArrayEventSeverity, ArrayStartOptions};
use crate::outcome::{CommandError, CommandResult};

/// Commands for snapshots of LUNs.
#[derive(Subcommand)]
pub enum SnapshotCommand {
    /// Create a snapshot of the current state of a LUN
    Create(SnapshotChangeArgs),
    /// List the snapshots of all LUNs
    List(ListSnapshotsArgs),
    /// Restore the state of a LUN from a snapshot
    Rollback(RollBackSnapshotArgs),
    /// Create a LUN from a snapshot
    Clone(CloneSnapshotArgs),
    /// Delete a snapshot
    Delete(SnapshotChangeArgs),
}

/// A snapshot of a LUN
#[derive(Args)]
#[command(after_help = "\
A new snapshot uses no space; it retains the blocks that its LUN replaces later. The LUN may be in use. Data that its clients have
not yet written is not in the snapshot: shut the clients down first, or freeze their file systems.

Examples:
  jetcell raid snapshot create arr1 mail before-update
  jetcell raid snapshot delete arr1 mail before-update

Exit code: 0 done, 2 refused; nothing was changed.")]
pub struct SnapshotChangeArgs {
    #[command(flatten)]
    pub start: ArrayStartOptions,
    #[command(flatten)]
    pub name: SnapshotName,
    #[command(flatten)]
    pub shown: OutputOptions,
}

/// Name of a snapshot, together with its LUN.
#[derive(Args, Serialize, Deserialize)]
pub struct SnapshotName {
    /// Name of the LUN
    #[arg(value_name = "LUN")]
    lun: String,
    /// Name of the snapshot: letters, digits, and - _ .
    #[arg(value_name = "SNAPSHOT")]
    snapshot: String,
}

/// An operation on a snapshot of a LUN.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SnapshotChange {
    Create,
    Delete,
    RollBack,
    /// Creates a LUN with this name that shares the blocks of the snapshot.
    Clone(String),
}

/// List the snapshots of all LUNs of an array
#[derive(Args)]
#[command(after_help = "\
Examples:
  jetcell raid snapshot list arr1 --json

Exit code: 0 listed, 2 could not run.")]
pub struct ListSnapshotsArgs {
    #[command(flatten)]
    pub start: ArrayStartOptions,
    #[command(flatten)]
    pub shown: OutputOptions,
}

/// Restore the state of a LUN from a snapshot
#[derive(Args)]
#[command(after_help = "\
Later writes are lost, unless another snapshot contains them. All snapshots remain. A LUN that is served or used by a test is refused.

Examples:
  jetcell raid snapshot create arr1 mail undo && jetcell raid snapshot rollback arr1 mail before-update --force

Exit code: 0 done, 2 refused; nothing was changed.")]
pub struct RollBackSnapshotArgs {
    #[command(flatten)]
    pub named: SnapshotChangeArgs,
    /// Confirm the loss of all later writes
    #[arg(long)]
    pub force: bool,
}

/// Create a LUN with the content of a snapshot
#[derive(Args)]
#[command(after_help = "\
Both share blocks until one of them changes. The clone remains if the snapshot or its LUN is deleted.

Examples:
  jetcell raid snapshot clone arr1 mail before-update trial

Exit code: 0 done, 2 refused; nothing was changed.")]
pub struct CloneSnapshotArgs {
    #[command(flatten)]
    pub named: SnapshotChangeArgs,
    /// Name of the new LUN
    #[arg(value_name = "NEW")]
    pub new: String,
}

impl RollBackSnapshotArgs {
    /// Fails unless the operation was confirmed.
    pub fn check(&self) -> CommandResult<()> {
        if self.force {
            return Ok(());
        }
        let (array, lun) = (self.named.start.array.display(), &self.named.name.lun);
        Err(CommandError::new(format_args!(
            "{array}: this would discard all writes to {lun} since the snapshot"
        ))
        .advise("to continue, add --force"))
    }
}

impl SnapshotName {
    /// Performs the operation, records an event, and returns the result.
    pub fn perform(
        &self,
        on: &OperationContext<'_>,
        change: &SnapshotChange,
    ) -> CommandResult<OperationResult> {
        let SnapshotName { lun, snapshot } = self;
        let (event, done) = match change {
            SnapshotChange::Create => ("snapshot_created", "was created".into()),
            SnapshotChange::Delete => ("snapshot_deleted", "was deleted".into()),
            SnapshotChange::RollBack => {
                on.refuse_used_lun(lun)?;
                ("snapshot_rolled_back", "is the current state of its LUN".into())
            }
            SnapshotChange::Clone(new) => ("snapshot_cloned", format!("is shared by the LUN {new}")),
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        on.with_lun_volume(|volume| match change {
            SnapshotChange::Create => volume.create_snapshot(lun, snapshot, now),
            SnapshotChange::Delete => volume.delete_snapshot(lun, snapshot),
            SnapshotChange::RollBack => volume.roll_back(lun, snapshot),
            SnapshotChange::Clone(new) => volume.clone_snapshot(lun, snapshot, new),
        })?;
        let figures = json!({ "lun": lun, "snapshot": snapshot });
        let text = format!("Snapshot {snapshot} of {lun} {done}.");
        on.event(event, ArrayEventSeverity::Information, &text, figures.clone());
        Ok(OperationResult::success(&figures, &format!("{}: snapshot {snapshot} of {lun} {done}", on.name)))
    }
}

/// Returns one line for each snapshot.
pub fn list(on: &OperationContext<'_>) -> CommandResult<OperationResult> {
    let luns = on.with_lun_volume(LunVolume::luns)?;
    let time_text = |seconds: u64| {
        let time = i64::try_from(seconds).ok().and_then(|seconds| DateTime::from_timestamp(seconds, 0));
        time.map_or_else(String::new, |time| {
            time.with_timezone(&Local).to_rfc3339_opts(SecondsFormat::Secs, false)
        })
    };
    let snapshots = luns.iter().flat_map(|lun| lun.snapshots.iter().map(move |snapshot| (lun, snapshot)));
    let (mut json, mut text) = (String::new(), String::new());
    for (lun, snapshot) in snapshots {
        let (lun, name, created) = (&lun.name, &snapshot.name, time_text(snapshot.created));
        json += &format!("{}\n", json!({ "lun": lun, "snapshot": name, "created": created }));
        text += &format!("{lun} {name} {created}\n");
    }
    Ok(OperationResult { json, text, is_good: true })
}
