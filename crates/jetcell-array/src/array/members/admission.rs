//! Admission of files as new members. Examining a file on a slow drive takes a long time, so it does not require access
//! to the array. Others can use the array in the meantime.

use std::path::Path;

use jetcell_sync::Arc;
use jetcell_vfs::{OpenMode, Vfs};

use super::MemberSet;
use crate::error::{ArrayRefusal, Result};
use crate::geometry::RaidLevel;
use crate::member::{ArrayConfig, Extents, MemberDevice, MemberId, MemberLayout, SlotConfig};

/// Purpose for which files are added to an array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemberPurpose {
    /// The members stand by to replace a failed member.
    Spare,
    /// The member receives the content of the slot with this number.
    Replacement(usize),
    /// The members add capacity.
    DataColumns,
}

/// Requirements that a file must meet to become a member of an array.
#[derive(Clone)]
pub struct MemberRequirements {
    pub(crate) vfs: Arc<dyn Vfs>,
    pub(crate) layout: MemberLayout,
    pub(crate) zones: u64,
    pub(crate) bytes: u64,
    pub(crate) purpose: MemberPurpose,
}

/// A locked file that is ready to become a member. It is not a member until it is passed to
/// [`Array::admit`](crate::Array::admit).
pub struct PreparedMember {
    device: MemberDevice,
    pub(crate) purpose: MemberPurpose,
}

impl MemberRequirements {
    /// Examines and prepares a file.
    ///
    /// # Errors
    /// Returns an error if the file is in use or too small, or if it has content and `force` is not set. In these
    /// cases, the file is unchanged.
    pub fn prepare(&self, path: &Path, force: bool) -> Result<PreparedMember> {
        let mut device = MemberDevice::open(&*self.vfs, path, OpenMode::Write)?;
        device.layout = self.layout;
        let found = device.len()?;
        if found < self.bytes {
            return Err(ArrayRefusal::TooSmall { path: path.to_owned(), found, needed: self.bytes }.into());
        }
        if let Some(what) = device.describe_content()?.filter(|_| !force) {
            return Err(ArrayRefusal::HasData { path: path.to_owned(), what }.into());
        }
        // A rebuild or copy writes the records of each row before the row is used on the new member. New columns,
        // however, read as zeros immediately.
        if self.purpose == MemberPurpose::DataColumns {
            device.clear_records(self.zones)?;
            device.sync()?;
        }
        Ok(PreparedMember { device, purpose: self.purpose })
    }
}

impl MemberSet {
    /// Returns an error if `count` members cannot currently be added for the purpose `part`.
    pub fn check_purpose(&self, part: MemberPurpose, count: usize) -> Result<()> {
        self.check_writable()?;
        match part {
            MemberPurpose::Spare if self.config.spares.len() + count > ArrayConfig::MAX_SPARES => {
                Err(ArrayRefusal::TooManySpares(ArrayConfig::MAX_SPARES).into())
            }
            MemberPurpose::Spare => Ok(()),
            MemberPurpose::Replacement(slot) if self.slot_config(slot)?.replacement != 0 => {
                Err(ArrayRefusal::SlotInRebuild(slot).into())
            }
            MemberPurpose::Replacement(_) => Ok(()),
            MemberPurpose::DataColumns => {
                let level = self.config.layout.level;
                let slots = self.config.layout.slots + count;
                if level == RaidLevel::Mirror || !level.member_counts().any(|count| count == slots) {
                    return Err(ArrayRefusal::Extension { level, members: slots }.into());
                }
                Ok(())
            }
        }
    }

    /// Adds members for the purpose for which they were prepared, and saves the configuration. `sequence` is the
    /// number of the next commit.
    pub fn enlist(&mut self, part: MemberPurpose, members: Vec<PreparedMember>, sequence: u64) -> Result<()> {
        let added: Vec<MemberId> = members.into_iter().map(|member| self.add_device(member.device)).collect();
        match part {
            MemberPurpose::Spare => {
                self.config.spares.extend(added);
                self.assign_spares();
            }
            MemberPurpose::Replacement(slot) => {
                self.config.slots[slot].replacement = added[0];
                self.config.slots[slot].rebuilt = Extents::default();
            }
            MemberPurpose::DataColumns => {
                self.config.journal_floor = sequence;
                self.config.layout.slots += added.len();
                let slot = |member| SlotConfig { member, ..SlotConfig::default() };
                self.config.slots.extend(added.into_iter().map(slot));
            }
        }
        self.save_config()
    }

    /// Adds a device. The caller assigns its purpose and saves the configuration.
    fn add_device(&mut self, mut device: MemberDevice) -> MemberId {
        device.member = self.config.next_member;
        self.config.next_member += 1;
        self.devices.push(device);
        self.records.forget_generations();
        self.config.next_member - 1
    }

    /// Returns the configuration of a slot.
    pub fn slot_config(&self, slot: usize) -> Result<SlotConfig> {
        let count = self.config.slots.len();
        let config = self.config.slots.get(slot).cloned();
        config.ok_or_else(|| ArrayRefusal::NoSlot { slot, count }.into())
    }
}
