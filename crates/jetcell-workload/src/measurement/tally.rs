//! Work done by the load threads.

use serde::{Deserialize, Serialize};

use crate::measurement::latency::LatencyHistogram;

/// Maximum number of descriptions of wrong records that are kept. All wrong records are counted, even if not
/// described.
const MAX_WRONG_RECORDS: usize = 20;

/// Work done by the load threads.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LoadTally {
    /// Operation latencies including the commit, measured from when the operations were due. Indexed by kind: insert,
    /// delete, replace, read.
    pub operations: [LatencyHistogram; 4],
    /// Number of completed operations, indexed by kind.
    pub counts: [u64; 4],
    /// Latencies of durable commits.
    pub durable_commits: LatencyHistogram,
    /// Number of batches per database.
    pub batches: Vec<u64>,
    /// Number of operations that failed because other threads had locked the record in every table.
    pub conflicts: u64,
    /// Number of operations that found no record in any table.
    pub misses: u64,
    /// Number of records whose content differs from what was written.
    pub wrong_records: u64,
    /// Descriptions of the first records found to have wrong content.
    pub wrong: Vec<String>,
}

impl LoadTally {
    /// Returns the total number of operations of all kinds.
    pub fn total(&self) -> u64 {
        self.counts.iter().fold(0, |sum: u64, count| sum.saturating_add(*count))
    }

    /// Counts a record with wrong content.
    pub(crate) fn add_wrong(&mut self, what: String) {
        self.wrong_records += 1;
        if self.wrong.len() < MAX_WRONG_RECORDS {
            self.wrong.push(what);
        }
    }

    /// Adds the work of another thread.
    pub(crate) fn add(&mut self, other: &LoadTally) {
        for (mine, others) in self.operations.iter_mut().zip(&other.operations) {
            mine.add(others);
        }
        for (mine, others) in self.counts.iter_mut().zip(&other.counts) {
            *mine = mine.saturating_add(*others);
        }
        self.durable_commits.add(&other.durable_commits);
        self.batches.resize(self.batches.len().max(other.batches.len()), 0);
        for (mine, others) in self.batches.iter_mut().zip(&other.batches) {
            *mine = mine.saturating_add(*others);
        }
        self.conflicts = self.conflicts.saturating_add(other.conflicts);
        self.misses = self.misses.saturating_add(other.misses);
        self.add_wrong_of(other);
    }

    /// Adds only the wrong records of `other`.
    pub(crate) fn add_wrong_of(&mut self, other: &LoadTally) {
        self.wrong_records = self.wrong_records.saturating_add(other.wrong_records);
        let room = MAX_WRONG_RECORDS.saturating_sub(self.wrong.len());
        self.wrong.extend(other.wrong.iter().take(room).cloned());
    }

    /// Returns the work done since the state `earlier`.
    pub(crate) fn since(&self, earlier: &LoadTally) -> LoadTally {
        let batches = self.batches.iter().zip(earlier.batches.iter().chain(std::iter::repeat(&0)));
        LoadTally {
            operations: std::array::from_fn(|kind| self.operations[kind].since(&earlier.operations[kind])),
            counts: std::array::from_fn(|kind| self.counts[kind].saturating_sub(earlier.counts[kind])),
            durable_commits: self.durable_commits.since(&earlier.durable_commits),
            batches: batches.map(|(now, before)| now.saturating_sub(*before)).collect(),
            conflicts: self.conflicts.saturating_sub(earlier.conflicts),
            misses: self.misses.saturating_sub(earlier.misses),
            wrong_records: self.wrong_records.saturating_sub(earlier.wrong_records),
            wrong: self.wrong.get(earlier.wrong.len()..).unwrap_or_default().to_vec(),
        }
    }
}
