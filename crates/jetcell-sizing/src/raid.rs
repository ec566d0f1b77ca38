//! Number of disk operations for a host read and for a small host write on each kind of array, with all drives and
//! with one drive lost.
//!
//! Unless `parity_serves = false`, the formulas assume rotated parity, in which every drive serves data. They apply
//! to small random writes of one block. Larger writes cost less: measure their cost and set `write_ratio`.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::SizingError;

/// A kind of array that a sizing calculation can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RaidKind {
    /// Single disks. Redundancy is provided by copies on other servers.
    Jbod,
    /// Mirrored pairs.
    Raid10,
    /// Three-way mirrors.
    Mirror3,
    /// Single parity.
    Raid5,
    /// Double parity with read-modify-write.
    Raid6,
    /// Double parity: row and diagonal.
    RaidDp,
}

/// A RAID group layout to evaluate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupLayout {
    /// Kind of array.
    pub raid: RaidKind,
    /// Number of data drives in a parity group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_disks: Option<u32>,
    /// Measured disk writes per host write. Replaces the write penalty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_ratio: Option<f64>,
    /// Whether parity drives also serve data, as with rotated parity.
    #[serde(default = "yes")]
    pub parity_serves: bool,
}

fn yes() -> bool {
    true
}

/// Disk operations per host operation, and the number of drives that share them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HostOperationCosts {
    /// Disk operations per host read.
    pub read: f64,
    /// Disk operations per small host write.
    pub write: f64,
    /// Number of drives in the group that share the operations.
    pub serving: f64,
}

impl RaidKind {
    /// Returns the number of redundant drives in a group. For mirrors, this is the number of additional copies.
    pub fn redundant_disks(self) -> u32 {
        match self {
            RaidKind::Jbod => 0,
            RaidKind::Raid10 | RaidKind::Raid5 => 1,
            RaidKind::Mirror3 | RaidKind::Raid6 | RaidKind::RaidDp => 2,
        }
    }

    fn is_mirror(self) -> bool {
        matches!(self, RaidKind::Jbod | RaidKind::Raid10 | RaidKind::Mirror3)
    }

    /// Returns the number of disk operations for one small write to an array with all drives present.
    pub fn write_penalty(self) -> f64 {
        match self {
            RaidKind::Jbod => 1.0,
            RaidKind::Raid10 => 2.0,
            RaidKind::Mirror3 => 3.0,
            RaidKind::Raid5 => 4.0,
            RaidKind::Raid6 | RaidKind::RaidDp => 6.0,
        }
    }
}

impl GroupLayout {
    /// Creates an array of this kind with default settings.
    pub fn new(raid: RaidKind) -> GroupLayout {
        GroupLayout { raid, data_disks: None, write_ratio: None, parity_serves: true }
    }

    /// Creates an array of mirrored pairs.
    pub fn raid10() -> GroupLayout {
        GroupLayout::new(RaidKind::Raid10)
    }

    /// Returns the number of data drives in a group. The defaults are 1 for mirrors, 7 for RAID 5, and 14 for double
    /// parity.
    pub fn data_disks(&self) -> u32 {
        match self.raid {
            raid if raid.is_mirror() => 1,
            RaidKind::Raid5 => self.data_disks.unwrap_or(7),
            _ => self.data_disks.unwrap_or(14),
        }
    }

    /// Returns the number of drives in a group.
    pub fn group_disks(&self) -> u32 {
        self.data_disks() + self.raid.redundant_disks()
    }

    /// Returns an error if the group is not valid.
    pub fn check(&self) -> Result<(), SizingError> {
        let range = |key: &str, value, min, max| SizingError::Range {
            key: format!("{}: {key}", self.raid),
            value,
            min,
            max,
        };
        if self.raid.is_mirror() && self.data_disks.is_some_and(|disks| disks != 1) {
            return Err(SizingError::DataDisksOfMirror { raid: self.raid });
        }
        if !(1..=255).contains(&self.data_disks()) || (self.raid == RaidKind::Raid5 && self.data_disks() < 2)
        {
            let min = if self.raid == RaidKind::Raid5 { 2.0 } else { 1.0 };
            return Err(range("data_disks", self.data_disks().into(), min, 255.0));
        }
        match self.write_ratio {
            Some(ratio) if !(0.01..=100.0).contains(&ratio) => Err(range("write_ratio", ratio, 0.01, 100.0)),
            _ => Ok(()),
        }
    }

    /// Returns the costs with all drives present.
    pub fn costs_intact(&self) -> HostOperationCosts {
        let serving =
            if self.raid.is_mirror() || self.parity_serves { self.group_disks() } else { self.data_disks() };
        let write = self.write_ratio.unwrap_or(self.raid.write_penalty());
        HostOperationCosts { read: 1.0, write, serving: f64::from(serving) }
    }

    /// Returns the costs with one drive of the group lost. For single disks, the costs do not change, because copies
    /// on other servers take over.
    pub fn costs_degraded(&self) -> HostOperationCosts {
        let whole = self.costs_intact();
        let n = f64::from(self.group_disks());
        let (read, write) = match self.raid {
            RaidKind::Jbod => return whole,
            RaidKind::Raid10 => (1.0, 1.0),
            RaidKind::Mirror3 => (1.0, 2.0),
            RaidKind::Raid5 => (2.0 * (n - 1.0) / n, (5.0 * n - 8.0) / n),
            RaidKind::Raid6 | RaidKind::RaidDp => ((2.0 * n - 3.0) / n, (7.0 * n - 11.0) / n),
        };
        HostOperationCosts {
            read,
            write: self.write_ratio.unwrap_or(write),
            serving: max_one(whole.serving - 1.0),
        }
    }
}

fn max_one(serving: f64) -> f64 {
    serving.max(1.0)
}

/// Returns the disk operations per host read and per small write if two drives of a double-parity group of `n` are
/// lost.
///
/// "Other data drives" are those that the write does not address. A small write takes six operations if two other
/// data drives are lost, `n` if the target and another data drive are lost, four for another data drive and a parity
/// drive, `n - 2` for the target and a parity drive, and one for both parity drives.
pub fn costs_with_two_lost(n: f64) -> (f64, f64) {
    let pairs = |k: f64| k * (k - 1.0) / 2.0;
    let writes = 6.0 * pairs(n - 3.0) + n * (n - 3.0) + 8.0 * (n - 3.0) + 2.0 * (n - 2.0) + 1.0;
    (3.0 * (n - 2.0) / n, writes / pairs(n))
}

/// Returns the number of disk operations needed to write `w` of the `n` data blocks in a stripe with `m` parity
/// blocks. The array reads either the old blocks or the other blocks, whichever are fewer.
pub fn partial_stripe(n: u32, m: u32, w: u32) -> u32 {
    (2 * (w + m)).min(n + m)
}

impl fmt::Display for RaidKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RaidKind::Jbod => "single disks",
            RaidKind::Raid10 => "RAID 10",
            RaidKind::Mirror3 => "triple mirror",
            RaidKind::Raid5 => "RAID 5",
            RaidKind::Raid6 => "RAID 6",
            RaidKind::RaidDp => "RAID-DP",
        })
    }
}

impl fmt::Display for GroupLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.raid.is_mirror() {
            write!(f, "{}", self.raid)?;
        } else {
            write!(f, "{} {}+{}", self.raid, self.data_disks(), self.raid.redundant_disks())?;
        }
        match self.write_ratio {
            Some(ratio) => write!(f, ", {ratio} writes per write"),
            None => Ok(()),
        }
    }
}
