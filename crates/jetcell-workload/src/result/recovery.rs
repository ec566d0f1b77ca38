//! The replay of logs by the recovery test.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::profile::RecoveryMode;
use crate::result::instance_row::InstanceRow;

/// Replay of all databases, as a result stores it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Recovery {
    /// State of the databases before the replay.
    pub mode: RecoveryMode,
    /// Logs of each database that were asked for.
    pub wanted_logs: u64,
    /// Time until the last database was recovered, in seconds.
    pub seconds: f64,
    /// Whether every database was recovered.
    pub complete: bool,
    /// One for each database.
    pub databases: Vec<ReplayedDatabase>,
    /// The progress over time.
    pub samples: Vec<ReplaySample>,
}

/// Replay of one database.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReplayedDatabase {
    /// Name of the database, without its extension.
    pub instance: String,
    /// Database file.
    pub database: PathBuf,
    /// Logs replayed. The last one may be partly filled.
    pub logs: u64,
    /// Time of the replay, in seconds.
    pub seconds: f64,
    /// Log records replayed.
    pub records: u64,
    /// Changes of pages that redo made.
    pub changes: u64,
    /// Database reads.
    pub database_reads: u64,
    /// Database writes.
    pub database_writes: u64,
    /// Reads of logs.
    pub log_reads: u64,
    /// Rates and latencies of the replay.
    pub io: Option<InstanceRow>,
}

/// Progress of the replay at one time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReplaySample {
    /// Seconds since the replay began.
    pub at_seconds: f64,
    /// Logs replayed so far, of each database.
    pub logs: Vec<u64>,
    /// Database reads so far, of all databases.
    pub database_reads: u64,
    /// Database writes so far, of all databases.
    pub database_writes: u64,
}

impl ReplayedDatabase {
    /// `amount` for each log.
    pub fn per_log(&self, amount: f64) -> f64 {
        if self.logs == 0 { 0.0 } else { amount / self.logs as f64 }
    }

    /// Seconds for each log.
    pub fn seconds_per_log(&self) -> f64 {
        self.per_log(self.seconds)
    }
}

impl Recovery {
    /// Mean of the databases, as a published result has it: their seconds for each log.
    pub fn seconds_per_log(&self) -> f64 {
        self.mean(ReplayedDatabase::seconds_per_log)
    }

    /// Mean of a figure of the databases.
    pub fn mean(&self, value: impl Fn(&ReplayedDatabase) -> f64) -> f64 {
        self.databases.iter().map(value).sum::<f64>() / self.databases.len().max(1) as f64
    }

    /// Log records replayed per second, all databases together.
    pub fn records_per_second(&self) -> f64 {
        let records: u64 = self.databases.iter().map(|database| database.records).sum();
        if self.seconds > 0.0 { records as f64 / self.seconds } else { 0.0 }
    }

    /// The fewest logs that were replayed of a database, and that database.
    pub fn fewest_logs(&self) -> Option<&ReplayedDatabase> {
        self.databases.iter().min_by_key(|database| database.logs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_per_log_are_those_of_the_published_test() {
        // Logs and seconds of JS13 in the ESRP paper, which says 2.910 seconds per log.
        let database = |logs, seconds| ReplayedDatabase { logs, seconds, ..ReplayedDatabase::default() };
        let recovery = Recovery {
            seconds: 10.0,
            databases: vec![database(504, 1470.0), database(505, 1465.0), ReplayedDatabase::default()],
            ..Recovery::default()
        };
        assert!((recovery.databases[0].seconds_per_log() - 2.916_666).abs() < 1e-5);
        assert_eq!(recovery.databases[2].seconds_per_log(), 0.0);
        assert_eq!(recovery.fewest_logs().unwrap().logs, 0);
        assert_eq!(Recovery::default().seconds_per_log(), 0.0);
    }
}
