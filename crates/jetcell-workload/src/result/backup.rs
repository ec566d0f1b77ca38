//! Results of the backup test.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::measurement::BackupCounters;
use crate::result::instance_row::InstanceRow;

/// The stored result of backing up all databases.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BackupTestResult {
    /// Directory to which the backup was written, or `None` if the pages were only read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(serialize_with = "jetcell_input::serialize_optional_path")]
    pub to: Option<PathBuf>,
    /// Seconds until the last database had been read completely.
    pub seconds: f64,
    /// Whether every database was read completely.
    pub complete: bool,
    /// Backups of the individual databases.
    pub databases: Vec<DatabaseBackup>,
    /// Progress over time.
    pub samples: Vec<BackupSample>,
    /// How much the backup and the load slowed each other down, if a load ran during the backup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<BackupCost>,
}

/// Result of backing up one database.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DatabaseBackup {
    /// Name of the database, without its extension.
    pub instance: String,
    /// Path of the database file.
    #[serde(serialize_with = "jetcell_input::serialize_path")]
    pub database: PathBuf,
    /// Duration of the backup, in seconds.
    pub seconds: f64,
    /// Counters of the backup.
    #[serde(flatten)]
    pub counters: BackupCounters,
    /// I/O of the backup. Only the database reads are nonzero.
    pub io: Option<InstanceRow>,
}

/// Backup progress at one point in time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BackupSample {
    /// Seconds since the start of the backup.
    pub at_seconds: f64,
    /// Number of bytes read so far from each database.
    pub bytes: Vec<u64>,
}

/// How much a backup and a concurrent load slow each other down.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BackupCost {
    /// Bytes per second of the backup without a load, over all databases.
    pub backup_alone: f64,
    /// Bytes per second of the backup during the load, over all databases.
    pub backup_together: f64,
    /// Figures of the load without a backup.
    pub load_alone: LoadFigures,
    /// Figures of the load during the backup.
    pub load_together: LoadFigures,
}

/// Load measurements that a backup may affect. Latencies are means over all instances.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadFigures {
    /// Length of the measurement in seconds.
    pub seconds: f64,
    /// Database reads and writes per second.
    pub transactional_iops: f64,
    /// Completed operations per second.
    pub operations_per_second: f64,
    /// Mean latency of database reads in milliseconds.
    pub database_read_ms: f64,
    /// Mean latency of database writes in milliseconds.
    pub database_write_ms: f64,
    /// Mean latency of log writes in milliseconds.
    pub log_write_ms: f64,
}

impl DatabaseBackup {
    /// Returns the bytes read per second.
    pub fn rate(&self) -> f64 {
        if self.seconds > 0.0 { self.counters.bytes as f64 / self.seconds } else { 0.0 }
    }
}

impl BackupTestResult {
    /// Returns the server's backup rate in bytes per second: the sum over the databases, as in Jetstress.
    pub fn rate(&self) -> f64 {
        self.databases.iter().map(DatabaseBackup::rate).sum()
    }

    /// Returns the mean number of bytes per second for each database.
    pub fn rate_per_database(&self) -> f64 {
        self.rate() / self.databases.len().max(1) as f64
    }

    /// Returns the number of pages with corrected bits in all databases.
    pub fn corrected(&self) -> u64 {
        self.databases.iter().map(|database| database.counters.corrected).sum()
    }

    /// Returns the number of bad pages in all databases.
    pub fn bad(&self) -> u64 {
        self.databases.iter().map(|database| database.counters.bad).sum()
    }
}

#[cfg(test)]
mod tests {
    use jetcell_input::number::MIB;

    use super::*;

    #[test]
    fn backup_rates_match_the_published_test() {
        // JS13 of the ESRP paper: 87.29, 80.36, 80.07 and 80.93 MB/s, which add up to 328.65 for the server.
        let database = |mib: f64| {
            let bytes = (mib * 100.0 * MIB) as u64;
            let counters = BackupCounters { bytes, ..BackupCounters::default() };
            DatabaseBackup { seconds: 100.0, counters, ..DatabaseBackup::default() }
        };
        let backup = BackupTestResult {
            databases: [87.29, 80.36, 80.07, 80.93].map(database).into(),
            ..BackupTestResult::default()
        };
        let mib = |rate: f64| (rate / MIB * 10_000.0).round() / 10_000.0;
        assert_eq!((mib(backup.rate()), mib(backup.rate_per_database())), (328.65, 82.1625));
        assert_eq!(BackupTestResult::default().rate_per_database(), 0.0);
    }
}
