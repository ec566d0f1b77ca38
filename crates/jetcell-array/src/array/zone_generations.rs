//! Generations of zones that were written whole: such a zone can be written again without its old records.

use std::collections::BTreeMap;

use crate::integrity::generation_after;

/// Zones that are remembered.
const MOST_ZONES: usize = 1 << 18;

/// The generation of zones all of whose rows have the same one, in all their cells.
#[derive(Default)]
pub(super) struct ZoneGenerations {
    known: BTreeMap<u64, u64>,
}

impl ZoneGenerations {
    /// The zones that are remembered.
    #[cfg(test)]
    pub fn zones(&self) -> impl Iterator<Item = u64> {
        self.known.keys().copied()
    }

    /// The generation of the next write of a whole zone. `None`: it follows from the records.
    pub fn next(&self, zone: u64) -> Option<u64> {
        self.known.get(&zone).map(|generation| generation_after(*generation))
    }

    /// A zone was written whole.
    pub fn insert(&mut self, zone: u64, generation: u64) {
        if self.known.len() >= MOST_ZONES {
            self.known.pop_first();
        }
        self.known.insert(zone, generation);
    }

    /// The records of a zone are changed one by one, or read again.
    pub fn remove(&mut self, zone: u64) {
        self.known.remove(&zone);
    }

    /// Records are on other devices.
    pub fn clear(&mut self) {
        self.known.clear();
    }
}
