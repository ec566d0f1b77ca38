//! `jetcell raid lun`: creates, lists, cleans and deletes LUNs.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use jetcell_array_service::{ArrayOperation, NewLun};
use jetcell_input::quantity::ByteSize;

use super::array_operation::{ArrayOperationArgs, require_force};
use crate::outcome::CommandResult;

/// Commands for LUNs of an array.
#[derive(Subcommand)]
pub enum LunCommand {
    /// Create a LUN; the first one makes the array a volume of LUNs
    Create(CreateLunArgs),
    /// List the LUNs with their space and their snapshots
    #[command(after_help = "\
`used` is the space that the current state of a LUN references, including its map and blocks shared with snapshots and clones.

Examples:
  jetcell raid lun list arr1
  jetcell raid lun list arr1 --json

Exit code: 0 listed, 2 could not run.")]
    List(ArrayOperationArgs),
    /// Consolidate blocks to free whole rows
    #[command(after_help = "\
While there are entirely free rows, new data is written to them, which takes the fewest writes. Blocks shared with snapshots are not moved.

Examples:
  jetcell raid lun clean arr1

Exit code: 0 cleaned, 2 could not run.")]
    Clean(ArrayOperationArgs),
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
    array: ArrayOperationArgs,
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

/// Delete a LUN with its snapshots
#[derive(Args)]
#[command(after_help = "\
Clones of its snapshots remain.

Examples:
  jetcell raid lun delete arr1 mail --force

Exit code: 0 deleted, 2 refused.")]
pub struct DeleteLunArgs {
    #[command(flatten)]
    array: ArrayOperationArgs,
    /// Name of the LUN
    #[arg(value_name = "LUN")]
    name: String,
    /// Confirm the loss of the LUN's content
    #[arg(long)]
    force: bool,
}

impl LunCommand {
    pub fn run(self) -> CommandResult {
        match self {
            LunCommand::Create(CreateLunArgs { array, name, size, log, log_size }) => {
                array.perform(ArrayOperation::CreateLun(NewLun { name, size, log, log_size }))
            }
            LunCommand::List(array) => array.perform(ArrayOperation::ListLuns),
            LunCommand::Clean(array) => array.perform(ArrayOperation::CleanLuns),
            LunCommand::Delete(command) => {
                let DeleteLunArgs { array, name, force } = command;
                let what = format_args!("delete all data on the LUN {name}");
                require_force(force, &array.start.array, what)?;
                array.perform(ArrayOperation::DeleteLun(name))
            }
        }
    }
}
