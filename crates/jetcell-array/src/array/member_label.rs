//! Identifies the array of a member, for programs that must not overwrite the member.

use std::fmt;
use std::io;
use std::path::Path;

use jetcell_vfs::Vfs;

use crate::geometry::RaidLevel;
use crate::member::{MemberDevice, Superblock};

/// Array to which a file or device belongs, according to its superblocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemberLabel {
    /// A superblock is intact.
    Known {
        /// Identity of the array.
        array: u128,
        /// Level of the array.
        level: RaidLevel,
    },
    /// The file begins with a superblock that is damaged, or was written by a later version.
    Unreadable,
}

impl MemberLabel {
    /// Reads the label of a file, or of a device that may be in use. Returns `None` if it is not a member. Nothing
    /// is written.
    ///
    /// # Errors
    /// Returns an error if the file cannot be opened or read.
    pub fn read(vfs: &dyn Vfs, path: &Path) -> io::Result<Option<MemberLabel>> {
        let device = MemberDevice::open_unlocked(vfs, path)?;
        if let Some(Superblock { config, .. }) = device.newest_superblock() {
            return Ok(Some(MemberLabel::Known { array: config.array, level: config.layout.level }));
        }
        Ok(device.begins_with_superblock()?.then_some(MemberLabel::Unreadable))
    }
}

impl fmt::Display for MemberLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MemberLabel::Known { array, level } => {
                write!(f, "a member of the Jetcell array {array:032x} ({level})")
            }
            MemberLabel::Unreadable => f.write_str("a member of a Jetcell array, with a damaged superblock"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::BLOCK;
    use crate::test_array::TestArray;

    #[test]
    fn a_member_is_identified_by_either_superblock_and_by_a_damaged_one() {
        let tested = TestArray::closed(RaidLevel::Raid5, 4);
        let path = tested.members[1].clone();
        let label = || MemberLabel::read(&tested.disk, &path).unwrap();
        let Some(MemberLabel::Known { array, level: RaidLevel::Raid5 }) = label() else {
            panic!("{:?}", label())
        };
        tested.disk.corrupt(&path, 100, &[0xFF; 8]).unwrap();
        assert_eq!(label(), Some(MemberLabel::Known { array, level: RaidLevel::Raid5 }), "the second one");
        let length = tested.disk.contents(&path).unwrap().len();
        let zeros = vec![0; length - BLOCK];
        tested.disk.corrupt(&path, BLOCK as u64, &zeros).unwrap();
        assert_eq!(label(), Some(MemberLabel::Unreadable));
        tested.disk.corrupt(&path, 0, &[0; BLOCK]).unwrap();
        assert_eq!(label(), None);
    }
}
