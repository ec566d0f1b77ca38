//! Figures of one instance, as shown in Jetstress's tables.

use std::path::PathBuf;

use jetcell_input::Unit;
use serde::{Deserialize, Serialize};

use crate::measurement::IoRates;

/// Name, unit and value of a row or column of a Jetstress table.
pub type JetstressFigure = (&'static str, Unit, f64);

/// Results of one instance, with the rows and names of Jetstress's table "Transactional I/O Performance".
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InstanceRow {
    /// Name of the database, without its extension.
    #[serde(rename = "MSExchange Database ==> Instances")]
    pub instance: String,
    /// Path of the database file.
    #[serde(serialize_with = "jetcell_input::serialize_path")]
    pub database: PathBuf,
    /// Path of the log directory.
    #[serde(serialize_with = "jetcell_input::serialize_path")]
    pub log_path: PathBuf,
    #[allow(missing_docs)]
    #[serde(rename = "I/O Database Reads Average Latency (msec)")]
    pub database_reads_average_latency_ms: f64,
    #[allow(missing_docs)]
    #[serde(rename = "I/O Database Writes Average Latency (msec)")]
    pub database_writes_average_latency_ms: f64,
    #[allow(missing_docs)]
    #[serde(rename = "I/O Database Reads/sec")]
    pub database_reads_per_second: f64,
    #[allow(missing_docs)]
    #[serde(rename = "I/O Database Writes/sec")]
    pub database_writes_per_second: f64,
    #[allow(missing_docs)]
    #[serde(rename = "I/O Database Reads Average Bytes")]
    pub database_reads_average_bytes: f64,
    #[allow(missing_docs)]
    #[serde(rename = "I/O Database Writes Average Bytes")]
    pub database_writes_average_bytes: f64,
    #[allow(missing_docs)]
    #[serde(rename = "I/O Log Reads Average Latency (msec)")]
    pub log_reads_average_latency_ms: f64,
    #[allow(missing_docs)]
    #[serde(rename = "I/O Log Writes Average Latency (msec)")]
    pub log_writes_average_latency_ms: f64,
    #[allow(missing_docs)]
    #[serde(rename = "I/O Log Reads/sec")]
    pub log_reads_per_second: f64,
    #[allow(missing_docs)]
    #[serde(rename = "I/O Log Writes/sec")]
    pub log_writes_per_second: f64,
    #[allow(missing_docs)]
    #[serde(rename = "I/O Log Reads Average Bytes")]
    pub log_reads_average_bytes: f64,
    #[allow(missing_docs)]
    #[serde(rename = "I/O Log Writes Average Bytes")]
    pub log_writes_average_bytes: f64,
    /// Highest average database read latency in any sample, in milliseconds.
    pub maximum_database_read_ms: f64,
    /// Highest average log write latency in any sample, in milliseconds.
    pub maximum_log_write_ms: f64,
    /// Reads per second by the background checksum scan. They are not included in the database reads above.
    #[serde(rename = "Database Maintenance IO Reads/sec", default)]
    pub maintenance_reads_per_second: f64,
    #[allow(missing_docs)]
    #[serde(rename = "Database Maintenance IO Reads Average Bytes", default)]
    pub maintenance_reads_average_bytes: f64,
    /// Simulated log reads per second for additional copies. They are not included in the log reads above.
    #[serde(rename = "Log Replication I/O Log Reads/sec", default)]
    pub replication_reads_per_second: f64,
    #[allow(missing_docs)]
    #[serde(rename = "Log Replication I/O Log Reads Average Bytes", default)]
    pub replication_reads_average_bytes: f64,
}

impl InstanceRow {
    /// Returns the twelve Jetstress rows with their names, in the order used by Jetstress.
    pub fn jetstress_rows(&self) -> [JetstressFigure; 12] {
        [
            (
                "I/O Database Reads Average Latency (msec)",
                Unit::Milliseconds,
                self.database_reads_average_latency_ms,
            ),
            (
                "I/O Database Writes Average Latency (msec)",
                Unit::Milliseconds,
                self.database_writes_average_latency_ms,
            ),
            ("I/O Database Reads/sec", Unit::PerSecond, self.database_reads_per_second),
            ("I/O Database Writes/sec", Unit::PerSecond, self.database_writes_per_second),
            ("I/O Database Reads Average Bytes", Unit::Bytes, self.database_reads_average_bytes),
            ("I/O Database Writes Average Bytes", Unit::Bytes, self.database_writes_average_bytes),
            ("I/O Log Reads Average Latency (msec)", Unit::Milliseconds, self.log_reads_average_latency_ms),
            ("I/O Log Writes Average Latency (msec)", Unit::Milliseconds, self.log_writes_average_latency_ms),
            ("I/O Log Reads/sec", Unit::PerSecond, self.log_reads_per_second),
            ("I/O Log Writes/sec", Unit::PerSecond, self.log_writes_per_second),
            ("I/O Log Reads Average Bytes", Unit::Bytes, self.log_reads_average_bytes),
            ("I/O Log Writes Average Bytes", Unit::Bytes, self.log_writes_average_bytes),
        ]
    }

    /// Returns the rows of Jetstress's table "Background Database Maintenance I/O Performance".
    pub fn maintenance_rows(&self) -> [JetstressFigure; 2] {
        [
            ("Database Maintenance IO Reads/sec", Unit::PerSecond, self.maintenance_reads_per_second),
            (
                "Database Maintenance IO Reads Average Bytes",
                Unit::Bytes,
                self.maintenance_reads_average_bytes,
            ),
        ]
    }

    /// Returns the rows of Jetstress's table "Log Replication I/O Performance".
    pub fn replication_rows(&self) -> [JetstressFigure; 2] {
        [
            ("I/O Log Reads/sec", Unit::PerSecond, self.replication_reads_per_second),
            ("I/O Log Reads Average Bytes", Unit::Bytes, self.replication_reads_average_bytes),
        ]
    }

    /// Returns the row with its rates, sizes and latencies set to these values.
    #[must_use]
    pub fn with_rates(
        mut self,
        reads: IoRates,
        writes: IoRates,
        log_reads: IoRates,
        log_writes: IoRates,
    ) -> InstanceRow {
        self.database_reads_average_latency_ms = reads.average_ms;
        self.database_reads_per_second = reads.per_second;
        self.database_reads_average_bytes = reads.average_bytes;
        self.database_writes_average_latency_ms = writes.average_ms;
        self.database_writes_per_second = writes.per_second;
        self.database_writes_average_bytes = writes.average_bytes;
        self.log_reads_average_latency_ms = log_reads.average_ms;
        self.log_reads_per_second = log_reads.per_second;
        self.log_reads_average_bytes = log_reads.average_bytes;
        self.log_writes_average_latency_ms = log_writes.average_ms;
        self.log_writes_per_second = log_writes.per_second;
        self.log_writes_average_bytes = log_writes.average_bytes;
        self
    }

    /// Creates a row without figures.
    pub fn new(instance: String, database: PathBuf, log_path: PathBuf) -> InstanceRow {
        InstanceRow {
            instance,
            database,
            log_path,
            database_reads_average_latency_ms: 0.0,
            database_writes_average_latency_ms: 0.0,
            database_reads_per_second: 0.0,
            database_writes_per_second: 0.0,
            database_reads_average_bytes: 0.0,
            database_writes_average_bytes: 0.0,
            log_reads_average_latency_ms: 0.0,
            log_writes_average_latency_ms: 0.0,
            log_reads_per_second: 0.0,
            log_writes_per_second: 0.0,
            log_reads_average_bytes: 0.0,
            log_writes_average_bytes: 0.0,
            maximum_database_read_ms: 0.0,
            maximum_log_write_ms: 0.0,
            maintenance_reads_per_second: 0.0,
            maintenance_reads_average_bytes: 0.0,
            replication_reads_per_second: 0.0,
            replication_reads_average_bytes: 0.0,
        }
    }
}
