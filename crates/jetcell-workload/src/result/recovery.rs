//! Results of the recovery test.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::profile::RecoveryMode;
use crate::result::instance_row::InstanceRow;

/// The stored result of replaying all databases.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RecoveryTestResult {
    /// State of the databases before the replay.
    pub mode: RecoveryMode,
    /// Number of logs that were requested for each database.
    pub wanted_logs: u64,
    /// Seconds until the last database was recovered.
    pub seconds: f64,
    /// Whether every database was recovered.
    pub complete: bool,
    /// Replays of the individual databases.
    pub databases: Vec<ReplayedDatabase>,
    /// Progress over time.
    pub samples: Vec<ReplaySample>,
}

/// Result of replaying one database.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReplayedDatabase {
    /// Name of the database, without its extension.
    pub instance: String,
    /// Path of the database file.
    #[serde(serialize_with = "jetcell_input::serialize_path")]
    pub database: PathBuf,
    /// Number of logs replayed. The last log may be only partially filled.
    pub logs: u64,
    /// Duration of the replay, in seconds.
    pub seconds: f64,
    /// Number of log records replayed.
    pub records: u64,
    /// Number of page changes that redo applied.
    pub changes: u64,
    /// Number of database reads.
    pub database_reads: u64,
    /// Number of database writes.
    pub database_writes: u64,
    /// Number of log reads.
    pub log_reads: u64,
    /// Rates and latencies of the replay.
    pub io: Option<InstanceRow>,
}

/// Replay progress at one point in time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReplaySample {
    /// Seconds since the start of the replay.
    pub at_seconds: f64,
    /// Number of logs replayed so far for each database.
    pub logs: Vec<u64>,
    /// Number of database reads so far, for all databases.
    pub database_reads: u64,
    /// Number of database writes so far, for all databases.
    pub database_writes: u64,
}

impl ReplayedDatabase {
    /// Returns `amount` divided by the number of logs.
    pub fn per_log(&self, amount: f64) -> f64 {
        if self.logs == 0 { 0.0 } else { amount / self.logs as f64 }
    }

    /// Returns the replay time per log, in seconds.
    pub fn seconds_per_log(&self) -> f64 {
        self.per_log(self.seconds)
    }
}

impl RecoveryTestResult {
    /// Returns the replay time per log in seconds, averaged over the databases. Published results use this
    /// definition.
    pub fn seconds_per_log(&self) -> f64 {
        self.mean(ReplayedDatabase::seconds_per_log)
    }

    /// Returns the mean of a figure over the databases.
    pub fn mean(&self, value: impl Fn(&ReplayedDatabase) -> f64) -> f64 {
        self.databases.iter().map(value).sum::<f64>() / self.databases.len().max(1) as f64
    }

    /// Returns the number of log records replayed per second, over all databases.
    pub fn records_per_second(&self) -> f64 {
        let records: u64 = self.databases.iter().map(|database| database.records).sum();
        if self.seconds > 0.0 { records as f64 / self.seconds } else { 0.0 }
    }

    /// Returns the database with the fewest replayed logs.
    pub fn fewest_logs(&self) -> Option<&ReplayedDatabase> {
        self.databases.iter().min_by_key(|database| database.logs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_per_log_match_the_published_test() {
        // Logs and seconds of JS13 in the ESRP paper, which reports 2.910 seconds per log.
        let database = |logs, seconds| ReplayedDatabase { logs, seconds, ..ReplayedDatabase::default() };
        let recovery = RecoveryTestResult {
            seconds: 10.0,
            databases: vec![database(504, 1470.0), database(505, 1465.0), ReplayedDatabase::default()],
            ..RecoveryTestResult::default()
        };
        assert!((recovery.databases[0].seconds_per_log() - 2.916_666).abs() < 1e-5);
        assert_eq!(recovery.databases[2].seconds_per_log(), 0.0);
        assert_eq!(recovery.fewest_logs().unwrap().logs, 0);
        assert_eq!(RecoveryTestResult::default().seconds_per_log(), 0.0);
    }
}
