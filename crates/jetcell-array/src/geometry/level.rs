//! RAID levels: the number of members that they need, and the number of losses that they tolerate.

use std::fmt;
use std::str::FromStr;

use super::{MAX_DATA_COLUMNS, MAX_SLOTS, RedundancyCode};
use crate::kernels::{ReedSolomon, RowDiagonal};

/// RAID level, which determines how an array protects its data.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RaidLevel {
    /// Stripes without protection.
    Raid0,
    /// Every member has a copy of the data.
    Mirror,
    /// Stripes over mirrors of two or three copies.
    Raid10 {
        /// Number of copies of each block.
        copies: usize,
    },
    /// One rotated parity block.
    Raid5,
    /// Two rotated parity blocks, P and Q.
    Raid6,
    /// Three rotated parity blocks.
    TripleParity,
    /// Row-diagonal parity on two fixed members.
    RaidDp {
        /// Prime p, 17 or 257. There are at most p - 1 data members.
        prime: usize,
    },
}

impl RaidLevel {
    /// All levels, with their usual parameters.
    pub const ALL: [RaidLevel; 9] = [
        RaidLevel::Raid0,
        RaidLevel::Mirror,
        RaidLevel::Raid10 { copies: 2 },
        RaidLevel::Raid10 { copies: 3 },
        RaidLevel::Raid5,
        RaidLevel::Raid6,
        RaidLevel::TripleParity,
        RaidLevel::RaidDp { prime: 17 },
        RaidLevel::RaidDp { prime: 257 },
    ];

    /// Returns the redundancy code for a row with this many slots.
    pub(crate) fn code(&self, slots: usize) -> RedundancyCode {
        match self {
            RaidLevel::Raid0 => RedundancyCode::Mirror { copies: 1 },
            RaidLevel::Mirror => RedundancyCode::Mirror { copies: slots },
            RaidLevel::Raid10 { copies } => RedundancyCode::Mirror { copies: *copies },
            RaidLevel::Raid5 => RedundancyCode::ReedSolomon(ReedSolomon::new(1)),
            RaidLevel::Raid6 => RedundancyCode::ReedSolomon(ReedSolomon::new(2)),
            RaidLevel::TripleParity => RedundancyCode::ReedSolomon(ReedSolomon::new(3)),
            RaidLevel::RaidDp { prime } => RedundancyCode::RowDiagonal(RowDiagonal::new(*prime)),
        }
    }

    /// Returns the member counts that the level supports.
    pub fn member_counts(&self) -> impl Iterator<Item = usize> + use<> {
        let level = *self;
        let most_data = match level {
            RaidLevel::RaidDp { prime } => MAX_DATA_COLUMNS.min(prime - 1),
            _ => MAX_DATA_COLUMNS,
        };
        (1..=MAX_SLOTS).filter(move |members| match level {
            RaidLevel::Raid0 => (2..=most_data).contains(members),
            RaidLevel::Mirror => (2..=3).contains(members),
            RaidLevel::Raid10 { copies } => {
                members.is_multiple_of(copies) && (2..=most_data).contains(&(members / copies))
            }
            RaidLevel::Raid5 => (2..=most_data).contains(&members.saturating_sub(1)),
            RaidLevel::Raid6 | RaidLevel::RaidDp { .. } => {
                (2..=most_data).contains(&members.saturating_sub(2))
            }
            RaidLevel::TripleParity => (2..=most_data).contains(&members.saturating_sub(3)),
        })
    }

    /// Returns the number of members that an array with this many slots can lose, regardless of their position.
    pub fn tolerance(&self, slots: usize) -> usize {
        self.code(slots).tolerance()
    }

    /// Returns the stored form of the level: its kind and its parameter.
    pub(crate) fn stored(&self) -> (u16, u16) {
        match self {
            RaidLevel::Raid0 => (0, 0),
            RaidLevel::Mirror => (1, 0),
            RaidLevel::Raid10 { copies } => (10, *copies as u16),
            RaidLevel::Raid5 => (5, 0),
            RaidLevel::Raid6 => (6, 0),
            RaidLevel::TripleParity => (7, 0),
            RaidLevel::RaidDp { prime } => (4, *prime as u16),
        }
    }

    pub(crate) fn from_stored(stored: (u16, u16)) -> Option<RaidLevel> {
        RaidLevel::ALL.into_iter().find(|level| level.stored() == stored)
    }
}

impl fmt::Display for RaidLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RaidLevel::Raid0 => f.write_str("raid0"),
            RaidLevel::Mirror => f.write_str("mirror"),
            RaidLevel::Raid10 { copies: 2 } => f.write_str("raid10"),
            RaidLevel::Raid10 { copies } => write!(f, "raid10-{copies}"),
            RaidLevel::Raid5 => f.write_str("raid5"),
            RaidLevel::Raid6 => f.write_str("raid6"),
            RaidLevel::TripleParity => f.write_str("raid-tp"),
            RaidLevel::RaidDp { prime: 17 } => f.write_str("raid-dp"),
            RaidLevel::RaidDp { prime } => write!(f, "raid-dp-{prime}"),
        }
    }
}

/// Error for a name that is not the name of a RAID level.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{name}\" is not a level; use one of {}", RaidLevel::ALL.map(|level| level.to_string()).join(", "))]
pub struct UnknownLevel {
    /// The name.
    pub name: String,
}

impl FromStr for RaidLevel {
    type Err = UnknownLevel;

    fn from_str(text: &str) -> Result<RaidLevel, UnknownLevel> {
        let level = RaidLevel::ALL.into_iter().find(|level| level.to_string() == text);
        level.ok_or_else(|| UnknownLevel { name: text.to_owned() })
    }
}
