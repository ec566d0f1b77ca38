//! `jetcell raid fail`, `replace` and `spare`: changes to single members.

use std::path::PathBuf;

use clap::Args;
use jetcell_array_service::{ArrayOperation, NewMembers};
use jetcell_input::quantity::{ByteRate, ByteSize};

use super::array_operation::ArrayOperationArgs;
use crate::outcome::CommandResult;

/// Remove a member from an array, as if it had failed
#[derive(Args)]
#[command(after_help = "\
If the array has a spare, the spare takes its place; jetcell raid rebuild rebuilds it. The removed member keeps its data, and can
be added again only as a new member.

Examples:
  jetcell raid fail arr1 /dev/sdc
  jetcell raid fail arr1 2
      the member in slot 2

Exit code: 0 removed, 2 refused: the array cannot tolerate the loss.")]
pub struct RaidFailArgs {
    #[command(flatten)]
    array: ArrayOperationArgs,
    /// Path of the member, or the number of its slot
    #[arg(value_name = "MEMBER")]
    member: String,
}

impl RaidFailArgs {
    pub fn run(self) -> CommandResult {
        self.array.perform(ArrayOperation::Fail { member: self.member })
    }
}

/// A file that is to become a member.
#[derive(Args)]
struct NewMemberArgs {
    /// New member: a file or block device of the same size as the others
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Create the file if it does not exist, with this size
    #[arg(long, value_name = "SIZE")]
    size: Option<ByteSize>,
    /// Use the file even if it holds data or belongs to an array, and destroy its content
    #[arg(long)]
    force: bool,
}

impl NewMemberArgs {
    fn into_members(self) -> NewMembers {
        NewMembers { files: vec![self.file], size: self.size, force: self.force }
    }
}

/// Replace the member of a slot, and rebuild or copy its data
#[derive(Args)]
#[command(after_help = "\
If the old member is readable, its blocks are copied, and only its lost blocks are recovered from the other members; it remains
in use until the copy is complete. Ctrl-C interrupts the rebuild; jetcell raid rebuild resumes it, also after a crash.

Examples:
  jetcell raid replace arr1 /dev/sdc /dev/sdh
  jetcell raid replace arr1 2 disks/m9 --size 1GiB --rate 100MB/s

Exit code: 0 rebuilt, 1 interrupted, or blocks could not be recovered, 2 refused.")]
pub struct RaidReplaceArgs {
    #[command(flatten)]
    array: ArrayOperationArgs,
    /// Path of the old member, or the number of its slot
    #[arg(value_name = "MEMBER")]
    member: String,
    #[command(flatten)]
    new: NewMemberArgs,
    /// Limit the rate of the rebuild
    #[arg(long, value_name = "BYTES/S")]
    rate: Option<ByteRate>,
}

impl RaidReplaceArgs {
    pub fn run(self) -> CommandResult {
        let RaidReplaceArgs { array, member, new, rate } = self;
        array.perform(ArrayOperation::Replace { member, new: new.into_members(), rate })
    }
}

/// Add a spare that replaces the next member that fails
#[derive(Args)]
#[command(after_help = "\
If a member is already missing, the spare takes its place immediately; jetcell raid rebuild rebuilds it.

Examples:
  jetcell raid spare arr1 /dev/sdi
  jetcell raid spare arr1 disks/s1 --size 1GiB

Exit code: 0 added, 2 refused.")]
pub struct RaidSpareArgs {
    #[command(flatten)]
    array: ArrayOperationArgs,
    #[command(flatten)]
    new: NewMemberArgs,
}

impl RaidSpareArgs {
    pub fn run(self) -> CommandResult {
        self.array.perform(ArrayOperation::AddSpare(self.new.into_members()))
    }
}
