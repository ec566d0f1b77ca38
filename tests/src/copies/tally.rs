//! Counts of the events in a story.

use std::ops::AddAssign;

/// Duration of the faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultDuration {
    /// The faults end, and then the queues must drain. This tests liveness.
    Bounded,
    /// The faults continue until the end. This tests safety only.
    Unbounded,
}

/// Counts of the events of a seed.
#[derive(Clone, Copy, Default, Debug)]
pub struct CopyTally {
    /// Number of chapters. A chapter is the history from one comparison of all sides to the next comparison.
    pub histories: u64,
    /// Number of committed transactions.
    pub commits: u64,
    /// Number of power cuts and kills.
    pub cuts: u64,
    /// Number of these power cuts and kills that occurred during an activation or a reseed.
    pub in_change: u64,
    /// Number of replayed logs.
    pub replayed: u64,
    /// Number of activations without loss.
    pub switched: u64,
    /// Number of failovers with loss.
    pub failed_over: u64,
    /// Number of commits that these failovers lost.
    pub lost_commits: u64,
    /// Number of incremental reseeds.
    pub patched: u64,
    /// Number of full reseeds.
    pub seeded: u64,
    /// Number of sides whose pages were compared with those of the active side.
    pub compared: u64,
    /// Number of steps of a copy that failed temporarily.
    pub waited: u64,
    /// Bytes of log data that arrived while the log was being written.
    pub streamed: u64,
    /// Number of failovers with loss that kept the beginning of such a log.
    pub kept_parts: u64,
    /// Number of repaired pages: on the active side, and on copies.
    pub repaired: [u64; 2],
    /// Number of maintenance steps on the active side.
    pub maintained: u64,
    /// Number of connections that were cut.
    pub connections_cut: u64,
}

impl AddAssign for CopyTally {
    /// Adds the counts of another seed.
    fn add_assign(&mut self, other: CopyTally) {
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
