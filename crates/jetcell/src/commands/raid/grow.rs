//! `jetcell raid grow`: adds members to an array.

use std::path::PathBuf;

use clap::Args;
use jetcell_array_service::{ArrayOperation, NewMembers};
use jetcell_input::quantity::ByteSize;

use super::array_operation::ArrayOperationArgs;
use crate::outcome::CommandResult;

/// Add members and their space to an array
#[derive(Args)]
#[command(after_help = "\
No block is moved and no parity is computed: the space of the new members is appended to the array and reads as zeros. RAID 10
grows by whole mirrors. A mirror cannot grow.

Examples:
  jetcell raid grow arr1 /dev/sdj /dev/sdk
  jetcell raid grow arr1 disks/m9 --size 1GiB

Exit code: 0 grown, 2 refused; the array was not changed.")]
pub struct RaidGrowArgs {
    #[command(flatten)]
    array: ArrayOperationArgs,
    /// Files or block devices of the same size as the other members
    #[arg(required = true, value_name = "FILE")]
    members: Vec<PathBuf>,
    /// Create files that do not exist, with this size
    #[arg(long, value_name = "SIZE")]
    size: Option<ByteSize>,
    /// Use members that hold data or belong to an array, and destroy their content
    #[arg(long)]
    force: bool,
}

impl RaidGrowArgs {
    pub fn run(self) -> CommandResult {
        let new = NewMembers { files: self.members, size: self.size, force: self.force };
        self.array.perform(ArrayOperation::Grow(new))
    }
}
