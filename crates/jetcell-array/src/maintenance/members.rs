//! Spares, replacements, members that are taken out, and growth.

use std::path::{Path, PathBuf};

use jetcell_vfs::{OpenMode, Vfs};

use crate::array::Array;
use crate::error::{Refusal, Result};
use crate::geometry::Level;
use crate::member::{Config, Device, Extents, MemberLayout, SlotConfig};

impl Array {
    /// Adds an empty member that takes the place of the next member that fails. If one is missing already, it is rebuilt on the
    /// spare.
    pub fn add_spare(&mut self, path: &Path, force: bool) -> Result<()> {
        if self.config.spares.len() >= Config::MAX_SPARES {
            return Err(
                Refusal::Parameter(format!("an array has at most {} spares", Config::MAX_SPARES)).into()
            );
        }
        let member = self.add_device(path, force)?;
        self.config.spares.push(member);
        self.employ_spares();
        self.save_config()
    }

    /// Gives a slot an empty member. If the slot still has its old one, it is copied, and only blocks that it cannot read are
    /// recovered from the others; else all blocks are. The old member stays in use until that is finished.
    pub fn replace(&mut self, slot: usize, path: &Path, force: bool) -> Result<()> {
        let config = self.slot_config(slot)?;
        if config.replacement != 0 {
            let text = format!("slot {slot} is being rebuilt already; take that member out first");
            return Err(Refusal::Parameter(text).into());
        }
        let member = self.add_device(path, force)?;
        self.config.slots[slot].replacement = member;
        self.config.slots[slot].rebuilt = Extents::default();
        self.save_config()
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
        self.flush()?;
        let level = self.config.layout.level;
        let slots = self.config.layout.slots + paths.len();
        if level == Level::Mirror || !level.member_counts().any(|count| count == slots) {
            let needed = "a number of members that the level can have; a mirror cannot grow".to_owned();
            return Err(Refusal::MemberCount { level: level.to_string(), members: slots, needed }.into());
        }
        let first = self.devices.len();
        let added: Result<Vec<_>> = paths.iter().map(|path| self.add_device(path, force)).collect();
        let added = match added {
            Ok(added) => added,
            Err(error) => {
                self.devices.truncate(first);
                return Err(error);
            }
        };
        // Entries of the journal count cells as they are now: none of them may be replayed.
        self.sync_members()?;
        self.config.journal_floor = self.sequence;
        self.config.layout.slots = slots;
        self.config
            .slots
            .extend(added.into_iter().map(|member| SlotConfig { member, ..SlotConfig::default() }));
        self.save_config()
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

    fn slot_config(&self, slot: usize) -> Result<SlotConfig> {
        let count = self.config.slots.len();
        let config = self.config.slots.get(slot).cloned();
        config.ok_or_else(|| {
            Refusal::Parameter(format!("there is no slot {slot}; slots are 0 to {}", count - 1)).into()
        })
    }
}
