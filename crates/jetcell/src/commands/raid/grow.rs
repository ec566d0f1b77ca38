//! `jetcell raid grow`.

use std::path::PathBuf;

use clap::Args;
use jetcell_workload::units::{ByteSize, human_bytes};
use serde_json::json;

use super::array_directory::absolute;
use super::member_file::{MadeFiles, warn_of_shared_devices};
use super::running_array::{RunningArray, Severity, Start};
use crate::console;
use crate::outcome::{Failure, Outcome};

/// Adds members with further room to an array
#[derive(Args)]
#[command(after_help = "\
No block moves and no parity is computed: the room of the new members follows that of the array before, and reads as zeros. RAID 10
grows by whole mirrors. A mirror cannot grow.

Examples:
  jetcell raid grow arr1 /dev/sdj /dev/sdk
  jetcell raid grow arr1 disks/m9 --size 1GiB

Exit code: 0 grown, 2 refused; the array is as before then.")]
pub struct Grow {
    #[command(flatten)]
    start: Start,
    /// Files or block devices of the size of the other members
    #[arg(required = true, value_name = "FILE")]
    members: Vec<PathBuf>,
    /// Make the files that do not exist, with this size
    #[arg(long, value_name = "SIZE")]
    size: Option<ByteSize>,
    /// Use members that hold data or belong to an array, and destroy that
    #[arg(long)]
    force: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl Grow {
    pub fn grow(&self) -> Result<Outcome, Failure> {
        let mut running = self.start.start()?;
        let grown = self.add(&mut running);
        let (bytes, slots) = (running.array.layout().bytes(), running.array.layout().slots);
        running.close()?;
        grown?;
        console::answer(
            self.json,
            &match self.json {
                true => format!("{}\n", json!({ "slots": slots, "bytes": bytes })),
                false => format!("{}: {slots} slots, {}\n", self.start.array.display(), human_bytes(bytes)),
            },
        );
        Ok(Outcome::Good)
    }

    fn add(&self, running: &mut RunningArray) -> Result<(), Failure> {
        let vfs = running.vfs.clone();
        let members = self.members.iter().map(|path| absolute(path)).collect::<Result<Vec<_>, _>>()?;
        let is_sparse = running.files.directory.simulated_drive.is_some();
        let files = MadeFiles::make(&*vfs, &members, self.size.map(|size| size.0), is_sparse)?;
        running.note_candidates(&members)?;
        running.array.grow(&members, self.force).map_err(|error| Failure::from(error.to_string()))?;
        files.keep();
        running.save_members()?;
        let text = format!("The array has grown by {} members.", members.len());
        running.event("array_grown", Severity::Information, &text, json!({ "members": members }));
        warn_of_shared_devices(&running.files.directory.members);
        Ok(())
    }
}
