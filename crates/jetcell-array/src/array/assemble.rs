//! Assembles an array from its members.

use std::path::PathBuf;

use jetcell_sync::Arc;
use jetcell_vfs::{OpenMode, Vfs};

use super::create::open_distinct;
use super::members::{ArrayMode, MemberSet};
use super::read::BlockReader;
use super::recovery::JournalReplay;
use super::rows::RowStore;
use super::write::{RowWriter, Staging};
use super::{Array, LoadMeter};
use crate::error::{ArrayRefusal, Result};
use crate::kernels::Kernel;
use crate::member::{ArrayConfig, MemberDevice, MemberLayout, Superblock};

/// Default number of zones that are rebuilt between two saves of the rebuild progress in the superblocks.
const ZONES_PER_SAVE: u64 = 64;

/// Access mode for an assembled array.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum ArrayAccess {
    /// The array can be read and written.
    #[default]
    ReadWrite,
    /// The array can only be read, and nothing on the members changes. Any number of members may be missing; reads of
    /// blocks that cannot be recovered fail.
    ReadOnly,
}

/// Options for assembling an array.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct AssembleOptions {
    /// Whether to start after a crash even if members are missing, and to ignore files that are stale, too small, or
    /// have no superblock. With [`ArrayAccess::ReadOnly`], the array is assembled even if its journal was not replayed.
    /// The most recently written blocks may then have their old content.
    pub force: bool,
    /// Access to the array.
    pub access: ArrayAccess,
}

impl Array {
    /// Assembles an array from its members, which may be given in any order. After a crash, the journal is replayed.
    pub fn assemble(vfs: Arc<dyn Vfs>, members: &[PathBuf], options: AssembleOptions) -> Result<Array> {
        let mut found = vec![];
        let (open_mode, mode) = match options.access {
            ArrayAccess::ReadWrite => (OpenMode::Write, ArrayMode::ReadWrite),
            ArrayAccess::ReadOnly => (OpenMode::Read, ArrayMode::ReadOnly),
        };
        for device in open_distinct(&*vfs, members, open_mode)? {
            match device.newest_superblock() {
                Some(superblock) => found.push((device, superblock)),
                None if options.force => {}
                None => return Err(ArrayRefusal::NotAMember(device.path()).into()),
            }
        }
        let config = newest_config(&found)?;
        let devices = usable_devices(found, &config, options.force)?;
        let clock = vfs.clock();
        let kernel = Kernel::for_this_machine(&*clock);
        let rows = RowStore::new(MemberSet::new(vfs, config, devices, mode), kernel);
        Ok(Array {
            staging: Staging::new(start(rows, options)?),
            reader: BlockReader::default(),
            zones_since_save: 0,
            zones_per_save: ZONES_PER_SAVE,
            load: LoadMeter::new(clock),
        })
    }
}

/// Brings the members to a consistent state, and records on them that the array is in use.
fn start(mut rows: RowStore, options: AssembleOptions) -> Result<RowWriter> {
    let members = &mut rows.members;
    let lost = members.lost_slots();
    let floor = members.config.journal_floor;
    if members.mode == ArrayMode::ReadOnly {
        if members.config.is_open && !options.force {
            return Err(ArrayRefusal::NotShutDown.into());
        }
        // Open rows may contain unacknowledged writes. They are hidden, so they read as if never written.
        let open = members.config.open_rows.clone();
        members.records.hide(open);
        return Ok(RowWriter::new(rows, floor));
    }
    if !members.tolerates_loss(&lost) {
        let level = members.layout().level;
        return Err(ArrayRefusal::TooManyMissing { level, missing: lost.len() }.into());
    }
    // Slots whose members had already failed are ignored here: the last writes were journalled without those
    // members.
    let known = |slot: &&usize| members.config.slots[**slot].member != 0;
    let missing = lost.iter().filter(known).count();
    let is_open = members.config.is_open;
    if is_open && missing > 0 && !options.force {
        return Err(ArrayRefusal::DirtyDegraded { missing }.into());
    }
    let replayed = if is_open { JournalReplay { rows: &mut rows }.run()? } else { None };
    let sequence = replayed.unwrap_or(floor);
    // From now on, members that were not found are stale.
    rows.members.remove_missing_members();
    rows.members.assign_spares();
    let mut writer = RowWriter::new(rows, sequence);
    writer.clear_open_rows()?;
    let config = &mut writer.rows.members.config;
    config.is_open = true;
    config.journal_floor = sequence;
    writer.rows.members.save_config()?;
    Ok(writer)
}

/// Returns the newest configuration. All members must belong to the same array.
fn newest_config(found: &[(MemberDevice, Superblock)]) -> Result<ArrayConfig> {
    let Some((first, superblock)) = found.first() else {
        return Err(ArrayRefusal::NoMember.into());
    };
    for (device, other) in found {
        if other.config.array != superblock.config.array {
            return Err(ArrayRefusal::Foreign { path: device.path(), first: first.path() }.into());
        }
    }
    let newest = found.iter().max_by_key(|(_, superblock)| superblock.config.generation);
    Ok(newest.expect("there is a first").1.config.clone())
}

fn usable_devices(
    found: Vec<(MemberDevice, Superblock)>,
    config: &ArrayConfig,
    force: bool,
) -> Result<Vec<MemberDevice>> {
    let mut devices: Vec<MemberDevice> = vec![];
    for (mut device, superblock) in found {
        device.member = superblock.member;
        device.layout = MemberLayout::new(config.journal_images);
        let (length, needed) = (device.len()?, device.layout.bytes_for(config.layout.rows));
        let refusal = if !config.has_member(device.member) {
            ArrayRefusal::Stale(device.path())
        } else if length < needed {
            ArrayRefusal::TooSmall { path: device.path(), found: length, needed }
        } else {
            // The array cannot tell which of the two copies is newer. Therefore, `force` does not help here.
            if let Some(first) = devices.iter().find(|other| other.member == device.member) {
                return Err(ArrayRefusal::CopyOfMember { path: device.path(), first: first.path() }.into());
            }
            devices.push(device);
            continue;
        };
        if !force {
            return Err(refusal.into());
        }
    }
    Ok(devices)
}

#[cfg(test)]
mod tests {
    use crate::error::{ArrayError, ArrayRefusal};
    use crate::geometry::RaidLevel;
    use crate::test_array::TestArray;

    #[test]
    fn a_byte_copy_of_a_member_is_rejected_by_name() {
        let mut tested = TestArray::closed(RaidLevel::Raid6, 5);
        let (first, path) = (tested.members[0].clone(), tested.members[1].clone());
        let content = tested.disk.contents(&first).unwrap();
        tested.disk.put(&path, &content);
        for force in [false, true] {
            let refused = tested.assemble(force).unwrap_err();
            let ArrayError::Refused(refusal) = refused else { panic!("{refused}") };
            assert_eq!(refusal, ArrayRefusal::CopyOfMember { path: path.clone(), first: first.clone() });
            assert!(refusal.to_string().contains("is a copy of"));
        }
        // The array starts once the copy is removed.
        tested.members.remove(1);
        tested.assemble(false).unwrap();
        tested.check();
    }
}
