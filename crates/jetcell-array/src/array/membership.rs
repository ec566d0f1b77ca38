//! Spares, replacements, removal of members, and growth. With [`Array::member_requirements`] and [`Array::admit`],
//! new members can be prepared while others use the array.

use std::path::{Path, PathBuf};

use jetcell_vfs::{OpenMode, Vfs};

use super::{Array, MemberPurpose, MemberRequirements, MemberSet, PreparedMember};
use crate::error::{ArrayRefusal, Result};
use crate::member::{MemberDevice, MemberLayout};

impl Array {
    /// Returns the requirements for files that are to become members.
    ///
    /// # Errors
    /// Returns an error if the array cannot accept members for this purpose now, some of the files are already members,
    /// or a file is given twice.
    pub fn member_requirements(&self, part: MemberPurpose, paths: &[PathBuf]) -> Result<MemberRequirements> {
        let MemberSet { vfs, devices, config, .. } = self.members();
        self.members().check_purpose(part, paths.len())?;
        for (index, path) in paths.iter().enumerate() {
            let is_member = |device: &MemberDevice| !device.failed && vfs.same_file(&device.path(), path);
            if devices.iter().any(is_member) || paths[..index].iter().any(|other| vfs.same_file(other, path))
            {
                return Err(ArrayRefusal::DuplicateMember(path.clone()).into());
            }
        }
        let layout = devices[0].layout;
        let (zones, bytes) = (config.layout.zones(), layout.bytes_for(config.layout.rows));
        Ok(MemberRequirements { vfs: vfs.clone(), layout, zones, bytes, purpose: part })
    }

    /// Adds files as members, for the purpose for which they were prepared.
    ///
    /// # Errors
    /// Returns an error if the array can no longer accept these members, or has failed.
    pub fn admit(&mut self, members: Vec<PreparedMember>) -> Result<()> {
        let Some(part) = members.first().map(|member| member.purpose) else { return Ok(()) };
        if part == MemberPurpose::DataColumns {
            self.flush()?;
        }
        self.members().check_purpose(part, members.len())?;
        if part == MemberPurpose::DataColumns {
            // Journal entries use the current numbering of cells, so they must not be replayed after this change.
            self.row_writer().sync_members()?;
        }
        let sequence = self.staging.writer.sequence;
        self.members_mut().enlist(part, members, sequence)
    }

    /// Prepares and admits files in one call. No other operation can use the array during the call.
    fn add_members(&mut self, part: MemberPurpose, paths: &[PathBuf], force: bool) -> Result<()> {
        let admission = self.member_requirements(part, paths)?;
        let members: Result<Vec<_>> = paths.iter().map(|path| admission.prepare(path, force)).collect();
        self.admit(members?)
    }

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
        let members = self.members_mut();
        members.check_writable()?;
        let config = members.slot_config(slot)?;
        let member = if config.replacement == 0 { config.member } else { config.replacement };
        let Some(device) = members.device_of(member) else {
            return Err(ArrayRefusal::EmptySlot(slot).into());
        };
        let mut lost = members.lost_slots();
        if member == config.member {
            lost.push(slot);
        }
        if !members.tolerates_loss(&lost) {
            let level = members.layout().level;
            return Err(ArrayRefusal::TooManyMissing { level, missing: lost.len() }.into());
        }
        members.fail_device(device)?;
        members.save_config()
    }

    /// Adds members as additional data columns or mirrors. No block moves and no parity changes: the new blocks are
    /// zeros, and come after the existing blocks of the array.
    pub fn grow(&mut self, paths: &[PathBuf], force: bool) -> Result<()> {
        self.add_members(MemberPurpose::DataColumns, paths, force)
    }

    /// Erases the array `id`, even if it cannot be started. Its members among the given files become ordinary files,
    /// and the array's content is lost. Returns the number of these members.
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
