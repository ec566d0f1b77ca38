//! A zone whose rebuild stopped between two of its rows.

use crate::geometry::ZONE_ROWS;

/// A slot that lacks the blocks of a zone, and the device on which they are rebuilt.
pub(crate) type RebuildTarget = (usize, usize);

/// A zone whose first rows have been rebuilt. For these rows, the replacements have valid content, and callers'
/// writes keep it valid. After a restart, the zone is rebuilt again from its first row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PartialZoneRebuild {
    pub zone: u64,
    /// First row that is not rebuilt yet.
    pub next_row: u64,
    pub targets: Vec<RebuildTarget>,
}

impl PartialZoneRebuild {
    /// Returns true if `device` has the rebuilt content of `row` for this slot.
    pub fn has_rebuilt_row(&self, slot: usize, device: usize, row: u64) -> bool {
        row / ZONE_ROWS == self.zone && row < self.next_row && self.targets.contains(&(slot, device))
    }
}
