//! What happened in a story.

use std::ops::AddAssign;

/// Which faults there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Faults {
    /// They end, and then the queues must drain: liveness.
    Bounded,
    /// They go on until the end: only safety is asked.
    Unbounded,
}

/// Counts of the events of a seed.
#[derive(Clone, Copy, Default, Debug)]
pub struct Tally {
    /// Chapters: histories from one comparison of all sides to the next.
    pub histories: u64,
    /// Transactions committed.
    pub commits: u64,
    /// Power cuts and kills.
    pub cuts: u64,
    /// Of these, during an activation or a reseed.
    pub in_change: u64,
    /// Logs that were replayed.
    pub replayed: u64,
    /// Activations without loss.
    pub switched: u64,
    /// Failovers with loss.
    pub failed_over: u64,
    /// Commits that these lost.
    pub lost_commits: u64,
    /// Incremental reseeds.
    pub patched: u64,
    /// Full reseeds.
    pub seeded: u64,
    /// Sides whose pages were compared with those of the active side.
    pub compared: u64,
    /// Steps of a copy that failed for a while.
    pub waited: u64,
    /// Bytes of logs that came while they were being written.
    pub streamed: u64,
    /// Failovers with loss that kept the beginning of such a log.
    pub kept_parts: u64,
    /// Damaged pages of the active side, and of copies, that were repaired.
    pub repaired: [u64; 2],
    /// Steps of maintenance on the active side.
    pub maintained: u64,
    /// Connections that were cut.
    pub connections_cut: u64,
}

impl AddAssign for Tally {
    /// Adds the counts of another seed.
    fn add_assign(&mut self, other: Tally) {
        self.histories += other.histories;
        self.commits += other.commits;
        self.cuts += other.cuts;
        self.in_change += other.in_change;
        self.replayed += other.replayed;
        self.switched += other.switched;
        self.failed_over += other.failed_over;
        self.lost_commits += other.lost_commits;
        self.patched += other.patched;
        self.seeded += other.seeded;
        self.compared += other.compared;
        self.waited += other.waited;
        self.streamed += other.streamed;
        self.kept_parts += other.kept_parts;
        self.maintained += other.maintained;
        self.connections_cut += other.connections_cut;
        for (sum, count) in self.repaired.iter_mut().zip(other.repaired) {
            *sum += count;
        }
    }
}
