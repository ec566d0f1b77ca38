//! Examines members without locking or changing them, even while a process uses the array.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use jetcell_vfs::Vfs;

use super::status::{ArrayState, SlotStatus};
use crate::error::{ArrayRefusal, Result};
use crate::geometry::ArrayLayout;
use crate::member::{ArrayConfig, LifetimeTotals, MemberDevice, MemberId, MemberLayout, Superblock};

/// Role of a file in an array.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MemberState {
    /// The member of a slot, with all blocks of the slot.
    Slot(usize),
    /// A member on which a slot is being rebuilt, or to which it is being copied.
    Replacement(usize),
    /// A spare that replaces the next failed member.
    Spare,
    /// A former member that failed or was replaced. The array has been used without it since then.
    Stale,
    /// A member of another array.
    Foreign,
    /// A member whose file or device has become too small.
    TooSmall {
        /// Length of the file in bytes.
        bytes: u64,
        /// Length in bytes that the member needs.
        needed: u64,
    },
    /// A file without a readable superblock.
    NotAMember,
    /// The file does not exist.
    Absent,
    /// The file cannot be read.
    Unreadable(String),
}

impl MemberState {
    /// Returns true if the array uses the file.
    pub fn is_used(&self) -> bool {
        matches!(self, MemberState::Slot(_) | MemberState::Replacement(_) | MemberState::Spare)
    }
}

/// State of an array, according to its members' superblocks.
#[derive(Clone, PartialEq, Debug)]
pub struct ArrayExamination {
    /// Geometry and level of the array.
    pub layout: ArrayLayout,
    /// Whether a process is using the array, or the last process to use it did not shut it down.
    pub is_open: bool,
    /// Health of the array, based on the members that were found.
    pub state: ArrayState,
    /// Slots of the array.
    pub slots: Vec<SlotStatus>,
    /// Number of rows with data that cannot be recovered.
    pub lost_rows: u64,
    /// Byte ranges of the array that cannot be recovered, in ascending order. At most 10,000 chunks are examined.
    pub lost_bytes: Vec<Range<u64>>,
    /// Number of lost rows whose bytes are not in `lost_bytes`, because there are too many.
    pub lost_rows_not_listed: u64,
    /// The examined files, in the order in which they were given.
    pub members: Vec<(PathBuf, MemberState)>,
    /// Fraction of the array that the current scrub pass has verified, between 0 and 1.
    pub scrubbed: f64,
    /// Totals since the array was created, as recorded in its superblocks. They are updated at shutdown, and after
    /// every 16 MiB of a rebuild or scrub.
    pub lifetime: LifetimeTotals,
}

impl ArrayExamination {
    /// Reads the superblocks of files that may be members of the array `id`.
    ///
    /// # Errors
    /// Returns an error if none of the files is a member of the array.
    pub fn new(vfs: &dyn Vfs, id: u128, paths: &[PathBuf]) -> Result<ArrayExamination> {
        let found: Vec<(PathBuf, ExaminedFile)> =
            paths.iter().map(|path| (path.clone(), examine_file(vfs, id, path))).collect();
        let superblocks = || {
            found.iter().filter_map(|(path, found)| match found {
                ExaminedFile::Member { superblock, bytes } => Some((path, superblock, *bytes)),
                ExaminedFile::Other(_) => None,
            })
        };
        let newest = superblocks().max_by_key(|(_, superblock, _)| superblock.config.generation);
        let Some((_, newest, _)) = newest else {
            return Err(ArrayRefusal::NoReadableMember.into());
        };
        let config = newest.config.clone();
        let needed = MemberLayout::new(config.journal_images).bytes_for(config.layout.rows);
        let path_of = |member: MemberId| {
            superblocks()
                .find(|(_, superblock, bytes)| member != 0 && superblock.member == member && *bytes >= needed)
                .map(|(path, ..)| path.clone())
        };
        let zones = config.layout.zones();
        let slots: Vec<SlotStatus> =
            config.slots.iter().map(|slot| SlotStatus::new(slot, zones, path_of)).collect();
        let lost: Vec<usize> = (0..slots.len()).filter(|slot| slots[*slot].member.is_none()).collect();
        let state = match config.layout.tolerates_loss(&lost) {
            _ if lost.is_empty() => ArrayState::Optimal,
            true => ArrayState::Degraded(lost.len()),
            false => ArrayState::Stopped,
        };
        let members = found
            .iter()
            .map(|(path, found)| match found {
                ExaminedFile::Member { superblock, bytes } => {
                    let state = member_state(&config, superblock.member);
                    let is_too_small = state.is_used() && *bytes < needed;
                    let too_small = MemberState::TooSmall { bytes: *bytes, needed };
                    (path.clone(), if is_too_small { too_small } else { state })
                }
                ExaminedFile::Other(state) => (path.clone(), state.clone()),
            })
            .collect();
        let (lost_bytes, lost_rows_not_listed) = config.lost_rows.lost_bytes(&config.layout);
        Ok(ArrayExamination {
            layout: config.layout,
            is_open: config.is_open,
            state,
            slots,
            lost_rows: config.lost_rows.len(),
            lost_bytes,
            lost_rows_not_listed,
            members,
            scrubbed: config.scrub_cursor as f64 / zones as f64,
            lifetime: config.lifetime,
        })
    }
}

enum ExaminedFile {
    Member { superblock: Box<Superblock>, bytes: u64 },
    Other(MemberState),
}

fn examine_file(vfs: &dyn Vfs, id: u128, path: &Path) -> ExaminedFile {
    let device = match MemberDevice::open_unlocked(vfs, path) {
        Ok(device) => device,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return ExaminedFile::Other(MemberState::Absent);
        }
        Err(error) => return ExaminedFile::Other(MemberState::Unreadable(error.to_string())),
    };
    match device.newest_superblock() {
        None => ExaminedFile::Other(MemberState::NotAMember),
        Some(superblock) if superblock.config.array != id => ExaminedFile::Other(MemberState::Foreign),
        Some(superblock) => match device.len() {
            Ok(bytes) => ExaminedFile::Member { superblock: Box::new(superblock), bytes },
            Err(error) => ExaminedFile::Other(MemberState::Unreadable(error.to_string())),
        },
    }
}

fn member_state(config: &ArrayConfig, member: MemberId) -> MemberState {
    let slot = |has: fn(&crate::member::SlotConfig) -> MemberId| {
        config.slots.iter().position(|slot| member != 0 && has(slot) == member)
    };
    if let Some(slot) = slot(|slot| slot.member) {
        MemberState::Slot(slot)
    } else if let Some(slot) = slot(|slot| slot.replacement) {
        MemberState::Replacement(slot)
    } else if config.spares.contains(&member) {
        MemberState::Spare
    } else {
        MemberState::Stale
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::RaidLevel;
    use crate::test_array::TestArray;

    #[test]
    fn a_shrunk_member_is_missing_and_the_array_starts_without_it() {
        let mut tested = TestArray::closed(RaidLevel::Raid6, 5);
        let path = tested.members[3].clone();
        let content = tested.disk.contents(&path).unwrap();
        tested.disk.put(&path, &content[..content.len() / 2]);
        let found = ArrayExamination::new(&tested.disk, 77, &tested.members).unwrap();
        assert_eq!(found.state, ArrayState::Degraded(1));
        assert_eq!(
            (&found.slots[3].member, &found.slots[2].member),
            (&None, &Some(tested.members[2].clone()))
        );
        let (bytes, needed) = (content.len() as u64 / 2, content.len() as u64);
        assert_eq!(found.members[3], (path, MemberState::TooSmall { bytes, needed }));
        tested.members =
            found.members.into_iter().filter(|(_, state)| state.is_used()).map(|(path, _)| path).collect();
        tested.assemble(false).unwrap();
        assert_eq!(tested.array().status().state, ArrayState::Degraded(1));
        tested.check();
    }
}
