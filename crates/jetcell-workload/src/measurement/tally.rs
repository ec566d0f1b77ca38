//! The work of the threads of the load.

use serde::{Deserialize, Serialize};

use crate::measurement::latency::Latencies;

/// Descriptions of wrong records that are kept. All wrong records are counted.
const WRONG_RECORDS_KEPT: usize = 20;

/// The work of the threads.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Tally {
    /// Latencies of the operations with their commit, from when they were due; indexed by kind: insert, delete, replace,
    /// read.
    pub operations: [Latencies; 4],
    /// Completed operations; indexed by kind.
    pub counts: [u64; 4],
    /// Latencies of durable commits.
    pub durable_commits: Latencies,
    /// Batches per database.
    pub batches: Vec<u64>,
    /// Operations that failed because another thread held the record, in every table.
    pub conflicts: u64,
    /// Operations that found no record in any table.
    pub misses: u64,
    /// Records whose content is not what was written.
    pub wrong_records: u64,
    /// Descriptions of the first wrong records.
    pub wrong: Vec<String>,
}

impl Tally {
    /// Operations of all kinds.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Counts a record with wrong content.
    pub(crate) fn add_wrong(&mut self, what: String) {
        self.wrong_records += 1;
        if self.wrong.len() < WRONG_RECORDS_KEPT {
            self.wrong.push(what);
        }
    }

    /// Adds the work of another thread.
    pub(crate) fn add(&mut self, other: &Tally) {
        for (mine, others) in self.operations.iter_mut().zip(&other.operations) {
            mine.add(others);
        }
        for (mine, others) in self.counts.iter_mut().zip(&other.counts) {
            *mine += others;
        }
        self.durable_commits.add(&other.durable_commits);
        self.batches.resize(self.batches.len().max(other.batches.len()), 0);
        for (mine, others) in self.batches.iter_mut().zip(&other.batches) {
            *mine += others;
        }
        self.conflicts += other.conflicts;
        self.misses += other.misses;
        self.wrong_records += other.wrong_records;
        self.wrong.extend(other.wrong.iter().take(WRONG_RECORDS_KEPT - self.wrong.len()).cloned());
    }
}
