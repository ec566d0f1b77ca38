//! Files that become members. A look at one takes long on a slow drive, so it needs no array, which others use meanwhile.

use std::path::{Path, PathBuf};

use jetcell_sync::Arc;
use jetcell_vfs::{OpenMode, Vfs};

use super::Array;
use crate::error::{Refusal, Result};
use crate::geometry::Level;
use crate::member::{Config, Device, Extents, MemberId, MemberLayout, SlotConfig};

/// What new members are for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// To wait for a member to fail.
    Spare,
    /// To get the content of a slot.
    Replacement(usize),
    /// To add room.
    Columns,
}

/// What files must be to become members of an array.
#[derive(Clone)]
pub struct Admission {
    vfs: Arc<dyn Vfs>,
    layout: MemberLayout,
    zones: u64,
    bytes: u64,
    part: Part,
}

/// A file that can become a member. It is locked, and no member before [`Array::admit`].
pub struct NewMember {
    device: Device,
    part: Part,
}

impl Admission {
    /// Examines a file, and prepares it.
    ///
    /// # Errors
    /// It is in use or too small, or has content and there is no `force`. Then it is as before.
    pub fn prepare(&self, path: &Path, force: bool) -> Result<NewMember> {
        let mut device = Device::open(&*self.vfs, path, OpenMode::Write)?;
        device.layout = self.layout;
        let found = device.len()?;
        if found < self.bytes {
            return Err(Refusal::TooSmall { path: path.to_owned(), found, needed: self.bytes }.into());
        }
        if let Some(what) = device.content()?.filter(|_| !force) {
            return Err(Refusal::HasData { path: path.to_owned(), what }.into());
        }
        // A rebuild or copy writes the records of all rows before any of them counts. New columns read as zeros at once.
        if self.part == Part::Columns {
            device.clear_records(self.zones)?;
            device.sync()?;
        }
        Ok(NewMember { device, part: self.part })
    }
}

impl Array {
    /// The conditions for files that are to become members.
    ///
    /// # Errors
    /// The array cannot have such members now, or has some of the files already, or files are given twice.
    pub fn admission(&self, part: Part, paths: &[PathBuf]) -> Result<Admission> {
        self.check_part(part, paths.len())?;
        for (index, path) in paths.iter().enumerate() {
            let is_member = |device: &Device| !device.failed && self.vfs.same_file(&device.path(), path);
            if self.devices.iter().any(is_member)
                || paths[..index].iter().any(|other| self.vfs.same_file(other, path))
            {
                return Err(Refusal::Twice(path.clone()).into());
            }
        }
        let (layout, rows) = (self.devices[0].layout, self.config.layout.rows);
        let (zones, bytes) = (self.config.layout.zones(), layout.bytes_for(rows));
        Ok(Admission { vfs: self.vfs.clone(), layout, zones, bytes, part })
    }

    fn check_part(&self, part: Part, count: usize) -> Result<()> {
        self.check_writable()?;
        match part {
            Part::Spare if self.config.spares.len() + count > Config::MAX_SPARES => {
                let text = format!("an array has at most {} spares", Config::MAX_SPARES);
                Err(Refusal::Parameter(text).into())
            }
            Part::Spare => Ok(()),
            Part::Replacement(slot) if self.slot_config(slot)?.replacement != 0 => {
                let text = format!("slot {slot} is being rebuilt already; take that member out first");
                Err(Refusal::Parameter(text).into())
            }
            Part::Replacement(_) => Ok(()),
            Part::Columns => {
                let level = self.config.layout.level;
                let slots = self.config.layout.slots + count;
                if level == Level::Mirror || !level.member_counts().any(|count| count == slots) {
                    let needed =
                        "a number of members that the level can have; a mirror cannot grow".to_owned();
                    let level = level.to_string();
                    return Err(Refusal::MemberCount { level, members: slots, needed }.into());
                }
                Ok(())
            }
        }
    }

    /// Makes files members, for the part for which they were prepared.
    ///
    /// # Errors
    /// The array cannot have such members any more, or failed.
    pub fn admit(&mut self, members: Vec<NewMember>) -> Result<()> {
        let Some(part) = members.first().map(|member| member.part) else { return Ok(()) };
        if part == Part::Columns {
            self.flush()?;
        }
        self.check_part(part, members.len())?;
        if part == Part::Columns {
            // Entries of the journal count cells as they are now: none of them may be replayed.
            self.sync_members()?;
        }
        let added: Vec<MemberId> = members.into_iter().map(|member| self.add_device(member.device)).collect();
        match part {
            Part::Spare => {
                self.config.spares.extend(added);
                self.employ_spares();
            }
            Part::Replacement(slot) => {
                self.config.slots[slot].replacement = added[0];
                self.config.slots[slot].rebuilt = Extents::default();
            }
            Part::Columns => {
                self.config.journal_floor = self.sequence;
                self.config.layout.slots += added.len();
                let slot = |member| SlotConfig { member, ..SlotConfig::default() };
                self.config.slots.extend(added.into_iter().map(slot));
            }
        }
        self.save_config()
    }

    /// A device whose part the caller saves with the configuration.
    fn add_device(&mut self, mut device: Device) -> MemberId {
        device.member = self.config.next_member;
        self.config.next_member += 1;
        self.devices.push(device);
        self.records.forget_generations();
        self.config.next_member - 1
    }

    /// Admits files without letting others use the array meanwhile.
    pub(crate) fn add_members(&mut self, part: Part, paths: &[PathBuf], force: bool) -> Result<()> {
        let admission = self.admission(part, paths)?;
        let members: Result<Vec<_>> = paths.iter().map(|path| admission.prepare(path, force)).collect();
        self.admit(members?)
    }

    pub(crate) fn slot_config(&self, slot: usize) -> Result<SlotConfig> {
        let count = self.config.slots.len();
        let config = self.config.slots.get(slot).cloned();
        config.ok_or_else(|| {
            Refusal::Parameter(format!("there is no slot {slot}; slots are 0 to {}", count - 1)).into()
        })
    }
}
