//! A zone whose rebuild stopped between two of its rows.

use crate::geometry::ZONE_ROWS;

/// A slot that lacks a zone, and the device that gets it.
pub(crate) type Target = (usize, usize);

/// A zone of which the first rows are rebuilt. The replacements have these rows, also for writes of callers; after a restart, the zone
/// begins again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct BegunZone {
    pub zone: u64,
    /// The first row that is not rebuilt.
    pub next_row: u64,
    pub targets: Vec<Target>,
}

impl BegunZone {
    /// Whether the device of a slot has a row that belongs to the rebuilt part.
    pub fn has_row(&self, slot: usize, device: usize, row: u64) -> bool {
        row / ZONE_ROWS == self.zone && row < self.next_row && self.targets.contains(&(slot, device))
    }
}
