//! `jetcell raid fail`, `replace` and `spare`: changes of single members.

use std::path::PathBuf;

use clap::Args;
use jetcell_workload::units::ByteSize;
use serde_json::json;

use super::array_directory::absolute;
use super::maintenance::{finish, rebuild};
use super::member_file::{MadeFiles, warn_of_shared_devices};
use super::running_array::{RunningArray, Severity, Start, state_word};
use super::shown::Shown;
use crate::commands::transfer_progress::rate;
use crate::console;
use crate::outcome::{Failure, Outcome};

/// Takes a member out of an array, as if it had failed
#[derive(Args)]
#[command(after_help = "\
A spare takes its place, if there is one; jetcell raid rebuild fills it. The member that was taken out keeps what it has, and can
be added again only as a new member.

Examples:
  jetcell raid fail arr1 /dev/sdc
  jetcell raid fail arr1 2        (the slot)

Exit code: 0 taken out, 2 refused: the array does not bear the loss.")]
pub struct Fail {
    #[command(flatten)]
    start: Start,
    /// The member, or the number of its slot
    #[arg(value_name = "MEMBER")]
    member: String,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl Fail {
    pub fn fail(&self) -> Result<Outcome, Failure> {
        let mut running = self.start.start()?;
        let slot = running.slot_of(&self.member)?;
        if let Err(error) = running.array.fail(slot) {
            let failure = running.failed(error);
            running.close()?;
            return Err(failure);
        }
        let text = format!("The member {} of slot {slot} was taken out.", self.member);
        running.event(
            "member_failed",
            Severity::Warning,
            &text,
            json!({ "slot": slot, "member": self.member }),
        );
        let status = running.array.status();
        let spare = status.slots[slot].replacement.clone();
        running.close()?;
        let name = self.start.array.display();
        console::answer(
            self.json,
            &match (self.json, &spare) {
                (true, _) => {
                    format!(
                        "{}\n",
                        json!({ "slot": slot, "state": state_word(status.state), "replacement": spare })
                    )
                }
                (false, Some(spare)) => format!(
                    "{name}: slot {slot} has lost its member; the spare {} takes its place: jetcell raid rebuild {name}\n",
                    spare.display()
                ),
                (false, None) => {
                    format!(
                        "{name}: slot {slot} has lost its member; jetcell raid replace {name} {slot} FILE gives it another\n"
                    )
                }
            },
        );
        Ok(Outcome::Good)
    }
}

/// A file that is to become a member.
#[derive(Args)]
pub struct NewMember {
    /// The new member: a file or block device of the size of the others
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Make the file if it does not exist, with this size
    #[arg(long, value_name = "SIZE")]
    size: Option<ByteSize>,
    /// Use the file although it holds data or belongs to an array, and destroy that
    #[arg(long)]
    force: bool,
}

impl NewMember {
    /// Makes the file a member by `add`. If that is refused, the array and the file are as before.
    fn add(
        &self,
        running: &mut RunningArray,
        add: impl FnOnce(&mut jetcell_array::Array, &std::path::Path, bool) -> jetcell_array::Result<()>,
    ) -> Result<(), Failure> {
        let vfs = running.vfs.clone();
        let path = absolute(&self.file)?;
        let is_sparse = running.files.directory.simulated_drive.is_some();
        let files =
            MadeFiles::make(&*vfs, std::slice::from_ref(&path), self.size.map(|size| size.0), is_sparse)?;
        running.note_candidates(std::slice::from_ref(&path))?;
        let added = add(&mut running.array, &path, self.force);
        added.map_err(|error| Failure::from(error.to_string()))?;
        files.keep();
        running.save_members()?;
        warn_of_shared_devices(&running.files.directory.members);
        Ok(())
    }
}

/// Gives a slot a new member, and rebuilds or copies it
#[derive(Args)]
#[command(after_help = "\
If the old member can still be read, its blocks are copied, and only those that it has lost are recovered from the others; it stays
in use until the copy is complete. Ctrl-C interrupts the work; jetcell raid rebuild continues it, also after a crash.

Examples:
  jetcell raid replace arr1 /dev/sdc /dev/sdh
  jetcell raid replace arr1 2 disks/m9 --size 1GiB --rate 100MB/s

Exit code: 0 rebuilt, 1 interrupted, or blocks could not be recovered, 2 refused.")]
pub struct Replace {
    #[command(flatten)]
    start: Start,
    /// The old member, or the number of its slot
    #[arg(value_name = "MEMBER")]
    member: String,
    #[command(flatten)]
    new: NewMember,
    /// Limit the rate of the rebuild
    #[arg(long, value_name = "BYTES/S", value_parser = rate)]
    rate: Option<ByteSize>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl Replace {
    pub fn replace(&self) -> Result<Outcome, Failure> {
        let mut running = self.start.start()?;
        let result = running.slot_of(&self.member).and_then(|slot| {
            self.new.add(&mut running, |array, path, force| array.replace(slot, path, force))?;
            let text = format!("Slot {slot} gets {} in place of {}.", self.new.file.display(), self.member);
            let figures = json!({ "slot": slot, "member": self.new.file });
            running.event("member_replaced", Severity::Information, &text, figures);
            rebuild(&mut running, self.rate)
        });
        finish(running, result, self.json)
    }
}

/// Adds a member that takes the place of the next one that fails
#[derive(Args)]
#[command(after_help = "\
If a member is missing already, the spare takes its place at once; jetcell raid rebuild fills it.

Examples:
  jetcell raid spare arr1 /dev/sdi
  jetcell raid spare arr1 disks/s1 --size 1GiB

Exit code: 0 added, 2 refused.")]
pub struct Spare {
    #[command(flatten)]
    start: Start,
    #[command(flatten)]
    new: NewMember,
    #[command(flatten)]
    shown: Shown,
}

impl Spare {
    pub fn add(&self) -> Result<Outcome, Failure> {
        let mut running = self.start.start()?;
        let added = self.new.add(&mut running, |array, path, force| array.add_spare(path, force));
        let (file, figures) = (self.new.file.display(), json!({ "member": self.new.file }));
        if added.is_ok() {
            let text = format!("{file} was added as a spare.");
            running.event("spare_added", Severity::Information, &text, figures.clone());
        }
        running.close()?;
        added?;
        self.shown.print(&figures, &format!("{}: {file} is a spare", self.start.array.display()));
        Ok(Outcome::Good)
    }
}
