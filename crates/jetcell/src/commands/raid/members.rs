//! `jetcell raid fail`, `replace` and `spare`: changes to single members.

use std::path::PathBuf;

use clap::Args;
use jetcell_array::MemberPurpose;
use jetcell_input::quantity::ByteRate;
use jetcell_workload::units::ByteSize;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::maintenance::rebuild;
use super::member_file::{CreatedMemberFiles, shared_devices};
use super::operation_context::{ArrayGuard, OperationContext, OperationResult};
use super::output_options::OutputOptions;
use super::running_array::{ArrayEventSeverity, ArrayStartOptions, state_name};
use crate::outcome::{CommandContext, CommandResult};

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
    pub start: ArrayStartOptions,
    #[command(flatten)]
    pub take_out: MemberRemoval,
    #[command(flatten)]
    pub shown: OutputOptions,
}

/// Request to remove a member from an array.
#[derive(Args, Serialize, Deserialize)]
pub struct MemberRemoval {
    /// Path of the member, or the number of its slot
    #[arg(value_name = "MEMBER")]
    member: String,
}

impl MemberRemoval {
    pub fn perform(&self, on: &OperationContext<'_>) -> CommandResult<OperationResult> {
        let slot = on.find_slot(&self.member)?;
        let status = on.with_array(|array| array.fail(slot).map(|()| array.status()))?;
        // If the array is in use, the maintainer records all failures.
        if on.concurrent_activity.is_none() {
            let text = format!("The member {} of slot {slot} was removed.", self.member);
            let figures = json!({ "slot": slot, "member": self.member });
            on.event("member_failed", ArrayEventSeverity::Warning, &text, figures);
        }
        let (name, spare) = (on.name, &status.slots[slot].replacement);
        let next = match (spare, on.concurrent_activity) {
            (Some(spare), None) => {
                format!("the spare {} takes its place: run jetcell raid rebuild {name}", spare.display())
            }
            (Some(spare), Some(_)) => {
                format!("the spare {} takes its place and is rebuilt while the load runs", spare.display())
            }
            (None, _) => format!("replace it with jetcell raid replace {name} {slot} FILE"),
        };
        Ok(OperationResult::success(
            &json!({ "slot": slot, "state": state_name(status.state), "replacement": spare }),
            &format!("{name}: slot {slot} has lost its member; {next}"),
        ))
    }
}

/// A file that is to become a member.
#[derive(Args, Serialize, Deserialize)]
pub struct NewMemberArgs {
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
    /// Adds the file as a member. If that fails, the array and the file are unchanged.
    fn add(&self, on: &OperationContext<'_>, part: MemberPurpose) -> CommandResult<()> {
        add_members(on, part, &[on.resolve_path(&self.file)?], self.size, self.force)
    }

    /// Adds the file as a spare.
    pub fn add_spare(&self, on: &OperationContext<'_>) -> CommandResult<OperationResult> {
        self.add(on, MemberPurpose::Spare)?;
        let (file, figures) = (self.file.display(), json!({ "member": self.file }));
        let text = format!("{file} was added as a spare.");
        on.event("spare_added", ArrayEventSeverity::Information, &text, figures.clone());
        Ok(OperationResult::success(&figures, &format!("{}: {file} is a spare", on.name)))
    }
}

/// Adds files as members. If that fails, the array and the files are unchanged.
pub fn add_members(
    on: &OperationContext<'_>,
    part: MemberPurpose,
    paths: &[PathBuf],
    size: Option<ByteSize>,
    force: bool,
) -> CommandResult<()> {
    // Simulated drives are sparse files on one device and need no reserved space.
    let is_simulated = on.files().directory.simulated_drive.is_some();
    let files = CreatedMemberFiles::create_missing(&*on.vfs, paths, size.map(|size| size.0), is_simulated)?;
    let admission = on.with_array(|array| array.member_requirements(part, paths))?;
    // The array is not locked here. Otherwise, the load would have to wait while slow drives are prepared.
    let members: Result<Vec<_>, _> = paths.iter().map(|path| admission.prepare(path, force)).collect();
    let members = members.context(on.name)?;
    {
        // The file lock is held, so no other thread writes the member list between the two steps.
        let mut of_array = on.files();
        of_array.record_candidates(paths)?;
        on.with_access(|held| match held {
            ArrayGuard::Luns(volume) if part == MemberPurpose::DataColumns => volume.add_members(members),
            held => held.array().admit(members),
        })?;
    }
    files.keep();
    on.save_members()?;
    if !is_simulated {
        let members = on.files().directory.members.clone();
        shared_devices(&members).iter().for_each(|line| (on.show_note)(line));
    }
    Ok(())
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
    pub start: ArrayStartOptions,
    #[command(flatten)]
    pub replace: MemberReplacement,
    #[command(flatten)]
    pub shown: OutputOptions,
}

/// Request to replace a member of an array.
#[derive(Args, Serialize, Deserialize)]
pub struct MemberReplacement {
    /// Path of the old member, or the number of its slot
    #[arg(value_name = "MEMBER")]
    member: String,
    #[command(flatten)]
    new: NewMemberArgs,
    /// Limit the rate of the rebuild
    #[arg(long, value_name = "BYTES/S")]
    rate: Option<ByteRate>,
}

impl MemberReplacement {
    pub fn perform(&self, on: &OperationContext<'_>) -> CommandResult<OperationResult> {
        let slot = on.find_slot(&self.member)?;
        self.new.add(on, MemberPurpose::Replacement(slot))?;
        let text = format!("In slot {slot}, {} replaces {}.", self.new.file.display(), self.member);
        let figures = json!({ "slot": slot, "member": self.new.file });
        on.event("member_replaced", ArrayEventSeverity::Information, &text, figures);
        rebuild(on, self.rate)
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
    pub start: ArrayStartOptions,
    #[command(flatten)]
    pub new: NewMemberArgs,
    #[command(flatten)]
    pub shown: OutputOptions,
}
