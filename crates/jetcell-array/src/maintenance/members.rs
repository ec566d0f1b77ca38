//! Spares, replacements, members that are taken out, and growth. New members are prepared while others use the array by
//! [`Array::admission`] and [`Array::admit`].

use std::path::{Path, PathBuf};

use jetcell_vfs::{OpenMode, Vfs};

use crate::array::{Array, Part};
use crate::error::{Refusal, Result};
use crate::member::{Device, MemberLayout};

impl Array {
    /// Adds an empty member that takes the place of the next member that fails. If one is missing already, it is rebuilt on the
    /// spare.
    pub fn add_spare(&mut self, path: &Path, force: bool) -> Result<()> {
        self.add_members(Part::Spare, &[path.to_owned()], force)
    }

    /// Gives a slot an empty member. If the slot still has its old one, it is copied, and only blocks that it cannot read are
    /// recovered from the others; else all blocks are. The old member stays in use until that is finished.
    pub fn replace(&mut self, slot: usize, path: &Path, force: bool) -> Result<()> {
        self.add_members(Part::Replacement(slot), &[path.to_owned()], force)
    }

    /// Takes the member of a slot out of the array, as if it had failed. If the slot is being rebuilt or copied, the new member.
    pub fn fail(&mut self, slot: usize) -> Result<()> {
        self.check_writable()?;
        let config = self.slot_config(slot)?;
        let member = if config.replacement == 0 { config.member } else { config.replacement };
        let Some(device) = self.device_of(member) else {
            return Err(Refusal::Parameter(format!("slot {slot} has no member")).into());
        };
        let mut lost = self.lost_slots();
        if member == config.member {
            lost.push(slot);
        }
        if !self.bears(&lost) {
            let level = self.config.layout.level.to_string();
            return Err(Refusal::TooManyMissing { level, missing: lost.len() }.into());
        }
        self.fail_device(device)?;
        self.save_config()
    }

    /// Adds members as further data columns, or mirrors. No block moves, no parity changes: the new blocks are zeros, and follow
    /// those that the array had.
    pub fn grow(&mut self, paths: &[PathBuf], force: bool) -> Result<()> {
        self.add_members(Part::Columns, paths, force)
    }

    /// Ends the array `id`: those of the files that are its members are none any more, and what it held is lost. Returns how
    /// many there were. Works also for an array that cannot start.
    pub fn erase(vfs: &dyn Vfs, id: u128, paths: &[PathBuf]) -> Result<usize> {
        let mut members = vec![];
        for path in paths {
            let mut device = Device::open(vfs, path, OpenMode::Write)?;
            let superblock =
                device.superblocks().into_iter().find(|superblock| superblock.config.array == id);
            if let Some(superblock) = superblock {
                device.layout = MemberLayout::new(superblock.config.journal_images);
                members.push(device);
            }
        }
        members.iter_mut().try_for_each(Device::erase_superblocks)?;
        Ok(members.len())
    }
}
