//! `jetcell raid snapshot`: creates, lists, restores, clones and deletes snapshots of LUNs.

use clap::{Args, Subcommand};
use jetcell_array_service::{ArrayOperation, SnapshotChange, SnapshotName};

use super::array_operation::{ArrayOperationArgs, require_force};
use crate::outcome::CommandResult;

/// Commands for snapshots of LUNs.
#[derive(Subcommand)]
pub enum SnapshotCommand {
    /// Create a snapshot of the current state of a LUN
    Create(SnapshotChangeArgs),
    /// List the snapshots of all LUNs
    #[command(after_help = "\
Examples:
  jetcell raid snapshot list arr1 --json

Exit code: 0 listed, 2 could not run.")]
    List(ArrayOperationArgs),
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
    array: ArrayOperationArgs,
    /// Name of the LUN
    #[arg(value_name = "LUN")]
    lun: String,
    /// Name of the snapshot: letters, digits, and - _ .
    #[arg(value_name = "SNAPSHOT")]
    snapshot: String,
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
    named: SnapshotChangeArgs,
    /// Confirm the loss of all later writes
    #[arg(long)]
    force: bool,
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
    named: SnapshotChangeArgs,
    /// Name of the new LUN
    #[arg(value_name = "NEW")]
    new: String,
}

impl SnapshotCommand {
    pub fn run(self) -> CommandResult {
        let (named, change) = match self {
            SnapshotCommand::List(array) => return array.perform(ArrayOperation::ListSnapshots),
            SnapshotCommand::Create(named) => (named, SnapshotChange::Create),
            SnapshotCommand::Delete(named) => (named, SnapshotChange::Delete),
            SnapshotCommand::Rollback(RollBackSnapshotArgs { named, force }) => {
                let what = format_args!("discard all writes to {} since the snapshot", named.lun);
                require_force(force, &named.array.start.array, what)?;
                (named, SnapshotChange::RollBack)
            }
            SnapshotCommand::Clone(CloneSnapshotArgs { named, new }) => (named, SnapshotChange::Clone(new)),
        };
        let SnapshotChangeArgs { array, lun, snapshot } = named;
        array.perform(ArrayOperation::Snapshot(SnapshotName { lun, snapshot }, change))
    }
}
