//! Options for snapshot backups.

use clap::{Args, ValueEnum};
use jetcell_backup::{SnapshotMethod, SnapshotOptions};
use jetcell_workload::units::TimeSpan;

use crate::outcome::{CommandError, CommandResult};

/// Options for snapshot backups.
#[derive(Args)]
pub struct SnapshotArgs {
    /// Make the backup as a snapshot, and verify the snapshot in place
    #[arg(long, value_name = "METHOD", conflicts_with_all = ["incremental", "differential", "base", "remove_logs"])]
    snapshot: Option<SnapshotMethodName>,
    /// Command that makes a snapshot of $JETCELL_SOURCE in $JETCELL_SNAPSHOT, which is the --to directory
    #[arg(long, value_name = "COMMAND", requires = "snapshot")]
    snapshot_command: Option<String>,
    /// Maximum time that the snapshot may take
    #[arg(long, value_name = "TIME", requires = "snapshot", default_value = "70s")]
    snapshot_limit: TimeSpan,
}

#[derive(Clone, Copy, ValueEnum)]
enum SnapshotMethodName {
    /// Copies of the files that share blocks with the originals (btrfs, XFS and others)
    Reflink,
    /// Snapshot of the btrfs subvolume that is specified as --from
    Btrfs,
    /// Snapshot made by --snapshot-command: LVM, ZFS, a disk array
    Command,
}

impl SnapshotArgs {
    /// Returns the snapshot to be made, or `None` if no snapshot was requested.
    pub fn snapshot(&self) -> CommandResult<Option<SnapshotOptions>> {
        let method = match (self.snapshot, &self.snapshot_command) {
            (None, _) => return Ok(None),
            (Some(SnapshotMethodName::Command), Some(command)) => SnapshotMethod::Command(command.clone()),
            (Some(SnapshotMethodName::Command), None) => {
                return Err(CommandError::new("--snapshot command requires a command")
                    .advise("specify it with --snapshot-command"));
            }
            (Some(_), Some(_)) => {
                return Err(CommandError::new("--snapshot-command requires --snapshot command")
                    .advise("omit it, or add --snapshot command"));
            }
            (Some(SnapshotMethodName::Reflink), None) => SnapshotMethod::Reflink,
            (Some(SnapshotMethodName::Btrfs), None) => SnapshotMethod::Btrfs,
        };
        Ok(Some(SnapshotOptions { method, limit: self.snapshot_limit.0 }))
    }
}
