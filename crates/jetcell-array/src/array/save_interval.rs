//! How often the progress of maintenance is saved in the superblocks.

/// Default number of zones between two saves.
const ZONES_PER_SAVE: u64 = 64;

/// The number of zones between two saves of the progress, and the number that were processed since the last save.
pub(crate) struct SaveInterval {
    zones: u64,
    since_save: u64,
}

impl Default for SaveInterval {
    fn default() -> SaveInterval {
        SaveInterval { zones: ZONES_PER_SAVE, since_save: 0 }
    }
}

impl SaveInterval {
    /// Sets the number of zones between two saves.
    pub fn set_zones(&mut self, zones: u64) {
        self.zones = zones.max(1);
    }

    /// Counts rebuilt zones. Returns true if their progress must be saved.
    pub fn is_due_after(&mut self, rebuilt: u64) -> bool {
        self.since_save += rebuilt;
        self.since_save >= self.zones
    }

    /// Starts the next interval after a save.
    pub fn restart(&mut self) {
        self.since_save = 0;
    }

    /// Returns true if a pass over ascending zones must be saved between these two of them.
    pub fn is_between(&self, first: u64, end: u64) -> bool {
        first / self.zones != end / self.zones
    }
}
