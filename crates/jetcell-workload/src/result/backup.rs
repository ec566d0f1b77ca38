//! The reads of the backup test.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::measurement::BackupCounters;
use crate::result::instance_row::InstanceRow;

/// Backup of all databases, as a result stores it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Backup {
    /// Directory to which the backup was written; `None` if the pages were only read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<PathBuf>,
    /// Time until the last database was read, in seconds.
    pub seconds: f64,
    /// Whether every database was read to its end.
    pub complete: bool,
    /// One for each database.
    pub databases: Vec<DatabaseBackup>,
    /// The progress over time.
    pub samples: Vec<BackupSample>,
    /// With a load beside the backup: what each cost the other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<BackupCost>,
}

/// Backup of one database.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DatabaseBackup {
    /// Name of the database, without its extension.
    pub instance: String,
    /// Database file.
    pub database: PathBuf,
    /// Time of the backup, in seconds.
    pub seconds: f64,
    /// What was read.
    #[serde(flatten)]
    pub counters: BackupCounters,
    /// Reads of the backup; the rows of writes and logs are zero.
    pub io: Option<InstanceRow>,
}

/// Progress of the backup at one time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BackupSample {
    /// Seconds since the backup began.
    pub at_seconds: f64,
    /// Bytes so far, of each database.
    pub bytes: Vec<u64>,
}

/// What backup and load cost each other.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BackupCost {
    /// The backup without a load: bytes per second of all databases together.
    pub backup_alone: f64,
    /// The backup beside the load.
    pub backup_together: f64,
    /// The load without a backup.
    pub load_alone: LoadFigures,
    /// The load beside the backup.
    pub load_together: LoadFigures,
}

/// The figures of the load that a backup may change; latencies are means of all instances.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadFigures {
    /// Length of the measurement in seconds.
    pub seconds: f64,
    /// Database reads and writes per second.
    pub transactional_iops: f64,
    /// Completed operations per second.
    pub operations_per_second: f64,
    /// Database reads.
    pub database_read_ms: f64,
    /// Database writes.
    pub database_write_ms: f64,
    /// Log writes.
    pub log_write_ms: f64,
}

impl DatabaseBackup {
    /// Bytes per second.
    pub fn rate(&self) -> f64 {
        if self.seconds > 0.0 { self.counters.bytes as f64 / self.seconds } else { 0.0 }
    }
}

impl Backup {
    /// Bytes per second of the server: the sum over the databases, as in Jetstress.
    pub fn rate(&self) -> f64 {
        self.databases.iter().map(DatabaseBackup::rate).sum()
    }

    /// Bytes per second of a database, on average.
    pub fn rate_per_database(&self) -> f64 {
        self.rate() / self.databases.len().max(1) as f64
    }

    /// Bad pages of all databases.
    pub fn bad(&self) -> u64 {
        self.databases.iter().map(|database| database.counters.bad).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_of_the_published_test() {
        // JS13 of the ESRP paper: 87.29, 80.36, 80.07 and 80.93 MB/s, which are 328.65 for the server.
        let database = |mib: f64| {
            let bytes = (mib * 100.0 * 1_048_576.0) as u64;
            let counters = BackupCounters { bytes, ..BackupCounters::default() };
            DatabaseBackup { seconds: 100.0, counters, ..DatabaseBackup::default() }
        };
        let backup =
            Backup { databases: [87.29, 80.36, 80.07, 80.93].map(database).into(), ..Backup::default() };
        let mib = |rate: f64| (rate / 1_048_576.0 * 10_000.0).round() / 10_000.0;
        assert_eq!((mib(backup.rate()), mib(backup.rate_per_database())), (328.65, 82.1625));
        assert_eq!(Backup::default().rate_per_database(), 0.0);
    }
}
