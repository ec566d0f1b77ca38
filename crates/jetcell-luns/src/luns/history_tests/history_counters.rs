//! Counters for the work done by histories. Tests check that all kinds of work occurred.

/// Counts of the events in randomly generated test histories.
#[derive(Clone, Copy, Default, Debug)]
pub struct HistoryCounters {
    pub cuts: usize,
    pub damaged: usize,
    pub rebuilt: usize,
    pub scrubbed: usize,
    pub healed: usize,
    pub write_through: usize,
    pub open_zones: usize,
    pub logs_damaged: usize,
    pub logs_refused: usize,
    pub logs_intact: usize,
}

impl std::ops::AddAssign for HistoryCounters {
    fn add_assign(&mut self, other: HistoryCounters) {
        self.cuts += other.cuts;
        self.damaged += other.damaged;
        self.rebuilt += other.rebuilt;
        self.scrubbed += other.scrubbed;
        self.healed += other.healed;
        self.write_through += other.write_through;
        self.open_zones += other.open_zones;
        self.logs_damaged += other.logs_damaged;
        self.logs_refused += other.logs_refused;
        self.logs_intact += other.logs_intact;
    }
}
