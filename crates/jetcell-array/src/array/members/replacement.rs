//! Spares, replacements, removal of members, and growth. With [`Array::member_requirements`] and [`Array::admit`],
//! new members can be prepared while others use the array.

use std::path::{Path, PathBuf};

use jetcell_vfs::{OpenMode, Vfs};

use crate::array::{Array, MemberPurpose};
use crate::error::{ArrayRefusal, Result};
use crate::member::{MemberDevice, MemberLayout};

impl Array {
    /// Adds an empty member as a spare, which replaces the next member that fails. If a member is already missing, it
    /// is rebuilt on the spare.
    pub fn add_spare(&mut self, path: &Path, force: bool) -> Result<()> {
        self.add_members(MemberPurpose::Spare, &[path.to_owned()], force)
    }

    /// Adds an empty member as the replacement of a slot. If the slot still has a member, that member is copied, and
    /// only its unreadable blocks are recovered from other members. If the slot has no member, all blocks are
    /// recovered. An old member remains in use until the copy is complete.
    pub fn replace(&mut self, slot: usize, path: &Path, force: bool) -> Result<()> {
        self.add_members(MemberPurpose::Replacement(slot), &[path.to_owned()], force)
    }

    /// Removes the member of a slot from the array, as if it had failed. If the slot is being rebuilt or copied, the
    /// new member is removed.
    pub fn fail(&mut self, slot: usize) -> Result<()> {
        self.check_writable()?;
        let config = self.slot_config(slot)?;
        let member = if config.replacement == 0 { config.member } else { config.replacement };
        let Some(device) = self.device_of(member) else {
            return Err(ArrayRefusal::EmptySlot(slot).into());
        };
        let mut lost = self.lost_slots();
        if member == config.member {
            lost.push(slot);
        }
        if !self.tolerates_loss(&lost) {
            let level = self.config.layout.level;
            return Err(ArrayRefusal::TooManyMissing { level, missing: lost.len() }.into());
        }
        self.fail_device(device)?;
        self.save_config()
    }

    /// Adds members as additional data columns or mirrors. No block moves and no parity changes: the new blocks are
    /// zeros, and come after the existing blocks of the array.
    pub fn grow(&mut self, paths: &[PathBuf], force: bool) -> Result<()> {
        self.add_members(MemberPurpose::DataColumns, paths, force)
    }

    /// Erases the array `id`, even if it cannot be started. Those of the given files that are members become ordinary
    /// files, and the array's content is lost. Returns their number.
    pub fn erase(vfs: &dyn Vfs, id: u128, paths: &[PathBuf]) -> Result<usize> {
        let mut members = vec![];
        for path in paths {
            let mut device = MemberDevice::open(vfs, path, OpenMode::Write)?;
            let superblock =
                device.superblocks().into_iter().find(|superblock| superblock.config.array == id);
            if let Some(superblock) = superblock {
                device.layout = MemberLayout::new(superblock.config.journal_images);
                members.push(device);
            }
        }
        members.iter_mut().try_for_each(MemberDevice::erase_superblocks)?;
        Ok(members.len())
    }
}
