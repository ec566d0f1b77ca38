//! Generations of zones that were written whole. Such a zone can be written again without reading its old records.

use std::collections::BTreeMap;

use crate::integrity::generation_after;

/// Maximum number of zones that are remembered.
const MAX_ZONES: usize = 1 << 18;

/// The generation of each zone whose cells all share a single generation.
#[derive(Default)]
pub(in crate::array) struct ZoneGenerations {
    generations: BTreeMap<u64, u64>,
}

impl ZoneGenerations {
    /// Returns the zones that are remembered.
    #[cfg(any(test, feature = "testing"))]
    pub fn zones(&self) -> impl Iterator<Item = u64> {
        self.generations.keys().copied()
    }

    /// Returns the generation of the next write of a whole zone, or `None` if it must be derived from the records.
    pub fn next(&self, zone: u64) -> Option<u64> {
        self.generations.get(&zone).map(|generation| generation_after(*generation))
    }

    /// Remembers the generation of a zone that was written whole.
    pub fn insert(&mut self, zone: u64, generation: u64) {
        if self.generations.len() >= MAX_ZONES {
            self.generations.pop_first();
        }
        self.generations.insert(zone, generation);
    }

    /// Forgets a zone, because some of its records are being changed or read again.
    pub fn remove(&mut self, zone: u64) {
        self.generations.remove(&zone);
    }

    /// Forgets all zones, because records moved to other devices.
    pub fn clear(&mut self) {
        self.generations.clear();
    }
}
