//! `jetcell raid grow`: adds members to an array.

use std::path::PathBuf;

use clap::Args;
use jetcell_array::MemberPurpose;
use jetcell_input::number::human_bytes;
use jetcell_workload::units::ByteSize;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::members::add_members;
use super::operation_context::{ArrayGuard, OperationContext, OperationResult};
use super::output_options::OutputOptions;
use super::running_array::{ArrayEventSeverity, ArrayStartOptions};
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
    pub start: ArrayStartOptions,
    #[command(flatten)]
    pub add: MemberAddition,
    #[command(flatten)]
    pub shown: OutputOptions,
}

/// Request to add members to an array.
#[derive(Args, Serialize, Deserialize)]
pub struct MemberAddition {
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

impl MemberAddition {
    pub fn perform(&self, on: &OperationContext<'_>) -> CommandResult<OperationResult> {
        let members = self.members.iter().map(|path| on.resolve_path(path)).collect::<Result<Vec<_>, _>>()?;
        let is_whole = on.with_access(|held| Ok(matches!(held, ArrayGuard::Array(_))))?;
        add_members(on, MemberPurpose::DataColumns, &members, self.size, self.force)?;
        let text = format!("The array has grown by {} members.", members.len());
        on.event("array_grown", ArrayEventSeverity::Information, &text, json!({ "members": members }));
        let (bytes, slots) = on.with_array(|array| Ok((array.layout().bytes(), array.layout().slots)))?;
        let later = match on.concurrent_activity {
            Some(_) if is_whole => {
                "; processes that currently use the array see the new space after their next \
             start"
            }
            _ => "",
        };
        let text = format!("{}: {slots} slots, {}{later}", on.name, human_bytes(bytes));
        Ok(OperationResult::success(&json!({ "slots": slots, "bytes": bytes }), &text))
    }
}
