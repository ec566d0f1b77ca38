//! Counters for the work done by histories. Tests check that all kinds of work occurred.

/// Counters for the work done by histories.
#[derive(Clone, Copy, Default, Debug)]
pub struct Done {
    pub cuts: usize,
    pub damaged: usize,
    pub rebuilt: usize,
    pub scrubbed: usize,
    pub healed: usize,
    pub early: usize,
    pub filling: usize,
    pub logs_damaged: usize,
    pub logs_refused: usize,
    pub logs_intact: usize,
}

impl std::ops::AddAssign for Done {
    fn add_assign(&mut self, other: Done) {
        self.cuts += other.cuts;
        self.damaged += other.damaged;
        self.rebuilt += other.rebuilt;
        self.scrubbed += other.scrubbed;
        self.healed += other.healed;
        self.early += other.early;
        self.filling += other.filling;
        self.logs_damaged += other.logs_damaged;
        self.logs_refused += other.logs_refused;
        self.logs_intact += other.logs_intact;
    }
}
