//! RAID types, and arrays that consist of equal groups.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use crate::Error;

/// Maximum number of drives per group that the models accept.
pub const MAX_GROUP_DRIVES: u32 = 100;

/// Maximum number of groups per array.
pub const MAX_GROUPS: u32 = 1_000_000;

/// A RAID type, which determines a group's redundancy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RaidType {
    /// Mirrored pairs, striped.
    Raid10,
    /// Single parity.
    Raid5,
    /// Double parity: P and Q.
    Raid6,
    /// Double parity: row and diagonal.
    RaidDp,
    /// Three-way mirrors, striped.
    Mirror3,
    /// Triple parity.
    TripleParity,
}

impl RaidType {
    /// All RAID types.
    pub const ALL: [RaidType; 6] = [
        RaidType::Raid10,
        RaidType::Mirror3,
        RaidType::Raid5,
        RaidType::Raid6,
        RaidType::RaidDp,
        RaidType::TripleParity,
    ];

    const NAMES: &str = "raid10, raid5, raid6, raid-dp, mirror3, triple-parity";

    /// Returns the name used on the command line.
    pub fn name(self) -> &'static str {
        match self {
            RaidType::Raid10 => "raid10",
            RaidType::Raid5 => "raid5",
            RaidType::Raid6 => "raid6",
            RaidType::RaidDp => "raid-dp",
            RaidType::Mirror3 => "mirror3",
            RaidType::TripleParity => "triple-parity",
        }
    }

    /// Returns the number of drives that a set can lose without losing data, regardless of which drives fail.
    pub fn parities(self) -> u32 {
        match self {
            RaidType::Raid10 | RaidType::Raid5 => 1,
            RaidType::Raid6 | RaidType::RaidDp | RaidType::Mirror3 => 2,
            RaidType::TripleParity => 3,
        }
    }

    /// Returns true if the type stores copies instead of parity.
    pub fn is_mirror(self) -> bool {
        matches!(self, RaidType::Raid10 | RaidType::Mirror3)
    }

    /// Returns the number of disk operations per small write. A mirror writes each copy. With parity, the old data
    /// and parities are read, then the new ones are written.
    pub fn write_cost(self) -> u32 {
        if self.is_mirror() { 1 + self.parities() } else { 2 * (1 + self.parities()) }
    }
}

impl fmt::Display for RaidType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for RaidType {
    type Err = Error;
    fn from_str(name: &str) -> Result<RaidType, Error> {
        let found = RaidType::ALL.into_iter().find(|raid| raid.name() == name);
        found.ok_or_else(|| Error::Unknown { what: "RAID type", name: name.into(), choices: RaidType::NAMES })
    }
}

jetcell_input::text_in_serde!(RaidType);

/// The shape of an array of identical drive groups. The array loses data when one of its groups does.
///
/// A mirrored group with n data disks is a stripe over n mirror sets. The unit that loses data is the [`DriveSet`]: a
/// mirror set, or a whole parity group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ArrayShape {
    #[serde(rename = "type")]
    raid: RaidType,
    data_disks: u32,
    groups: u32,
}

/// A set of drives with shared redundancy: n of them store data, and any m may be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriveSet {
    /// Number of drives whose capacity is available for data (n).
    pub data: u32,
    /// Number of drives that may be lost (m).
    pub parities: u32,
}

impl DriveSet {
    /// Returns the number of drives in the set (N = n + m).
    pub fn drives(self) -> u32 {
        self.data + self.parities
    }
}

impl ArrayShape {
    /// Creates an array of `groups` groups with `data_disks` data drives each.
    pub fn new(raid: RaidType, data_disks: u32, groups: u32) -> Result<ArrayShape, Error> {
        let most = if raid.is_mirror() { MAX_GROUPS } else { MAX_GROUP_DRIVES - raid.parities() };
        count("data disks of a group", data_disks, most)?;
        count("groups", groups, MAX_GROUPS)?;
        Ok(ArrayShape { raid, data_disks, groups })
    }

    /// Returns an array that stores at least as much data, in groups of the given type and size.
    pub fn regrouped(self, raid: RaidType, data_disks: u32) -> Result<ArrayShape, Error> {
        let usable = self.usable_disks();
        let groups = usable.div_ceil(u64::from(data_disks.max(1)));
        ArrayShape::new(raid, data_disks, u32::try_from(groups).unwrap_or(u32::MAX))
    }

    /// Returns the groups' RAID type.
    pub fn raid(self) -> RaidType {
        self.raid
    }

    /// Returns the number of data drives per group.
    pub fn data_disks(self) -> u32 {
        self.data_disks
    }

    /// Returns the number of groups.
    pub fn groups(self) -> u32 {
        self.groups
    }

    /// Returns the set that is identical to a group, or one of the sets over which a group is striped.
    pub fn set(self) -> DriveSet {
        let data = if self.raid.is_mirror() { 1 } else { self.data_disks };
        DriveSet { data, parities: self.raid.parities() }
    }

    /// Returns the number of sets per group: 1 for a parity group, the number of data disks for a mirrored group.
    pub fn sets_per_group(self) -> u32 {
        if self.raid.is_mirror() { self.data_disks } else { 1 }
    }

    /// Returns the number of drives per group.
    pub fn group_drives(self) -> u64 {
        u64::from(self.set().drives()) * u64::from(self.sets_per_group())
    }

    /// Returns the number of drives in the array.
    pub fn drives(self) -> u64 {
        self.group_drives() * u64::from(self.groups)
    }

    /// Returns the number of data drives in the array.
    pub fn usable_disks(self) -> u64 {
        u64::from(self.data_disks) * u64::from(self.groups)
    }

    /// Returns the number of drives that store copies or parity.
    pub fn overhead_disks(self) -> u64 {
        self.drives() - self.usable_disks()
    }

    /// Formats a group's drives: `7+2`, or `7 x (1+1)`.
    pub fn group_text(self) -> String {
        let set = self.set();
        match self.sets_per_group() {
            1 => format!("{}+{}", set.data, set.parities),
            sets => format!("{sets} x ({}+{})", set.data, set.parities),
        }
    }
}

fn count(what: &'static str, count: u32, most: u32) -> Result<(), Error> {
    if (1..=most).contains(&count) {
        return Ok(());
    }
    Err(Error::Count { what, count: count.into(), least: 1, most: most.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drive_counts_include_copies_and_parity() {
        let array = ArrayShape::new(RaidType::RaidDp, 7, 6).unwrap();
        assert_eq!((array.drives(), array.overhead_disks(), array.usable_disks()), (54, 12, 42));
        let mirrors = array.regrouped(RaidType::Raid10, 7).unwrap();
        assert_eq!((mirrors.drives(), mirrors.sets_per_group(), mirrors.groups()), (84, 7, 6));
        assert_eq!(array.regrouped(RaidType::Raid5, 4).unwrap().groups(), 11, "42 / 4 rounds up");
        assert_eq!(mirrors.group_text(), "7 x (1+1)");
    }

    #[test]
    fn impossible_arrays_are_refused() {
        assert!(ArrayShape::new(RaidType::Raid5, 0, 1).is_err());
        assert!(ArrayShape::new(RaidType::Raid5, 1, 0).is_err());
        assert!(ArrayShape::new(RaidType::Raid5, 100, 1).is_err());
        assert!(ArrayShape::new(RaidType::Raid10, 100, 1).is_ok());
        assert!("raid7".parse::<RaidType>().is_err());
    }

    #[test]
    fn small_write_costs_per_raid_type() {
        let costs = RaidType::ALL.map(RaidType::write_cost);
        assert_eq!(costs, [2, 3, 4, 6, 6, 8]);
    }
}
