//! Figures for one server, and for all servers combined.
//!
//! Rates are summed. Latencies are unweighted means over the instances, as in published documents, and are shown next
//! to the mean over all transfers.

use jetcell_workload::TestKind;
use jetcell_workload::result::{EsrpSummary, InstanceRow};

use crate::esrp::tested_server::ServerTest;

/// Returns the tests of one kind, at most one per server, in server order.
pub(crate) fn tests_of_kind(servers: &[ServerTests], kind: TestKind) -> Vec<&ServerTest> {
    servers.iter().filter_map(|server| server.test(kind)).collect()
}

/// A server and the tests that ran on it.
#[derive(Clone, Debug)]
pub(crate) struct ServerTests {
    pub(crate) name: String,
    /// Tests, at most one of each kind.
    pub(crate) tests: Vec<ServerTest>,
}

impl ServerTests {
    pub(crate) fn test(&self, kind: TestKind) -> Option<&ServerTest> {
        self.tests.iter().find(|test| test.kind == kind)
    }
}

/// Performance results for one or more servers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PerformanceTotals {
    pub(crate) summary: EsrpSummary,
    /// Mean latencies over all transfers: database reads, database writes, log writes.
    pub(crate) weighted_ms: [f64; 3],
    pub(crate) achieved_iops: Option<f64>,
    pub(crate) target_iops: Option<f64>,
}

impl PerformanceTotals {
    /// Computes the results for one or more servers, or `None` if there are no rows.
    pub(crate) fn from_tests(tests: &[&ServerTest]) -> Option<PerformanceTotals> {
        let rows: Vec<InstanceRow> = tests.iter().flat_map(|test| test.total.clone()).collect();
        if rows.is_empty() {
            return None;
        }
        let weighted = |rate: fn(&InstanceRow) -> f64, ms: fn(&InstanceRow) -> f64| {
            let transfers: f64 = rows.iter().map(rate).sum();
            let waited: f64 = rows.iter().map(|row| rate(row) * ms(row)).sum();
            if transfers > 0.0 { waited / transfers } else { 0.0 }
        };
        Some(PerformanceTotals {
            summary: EsrpSummary::from_rows(&rows),
            weighted_ms: [
                weighted(|row| row.database_reads_per_second, |row| row.database_reads_average_latency_ms),
                weighted(|row| row.database_writes_per_second, |row| row.database_writes_average_latency_ms),
                weighted(|row| row.log_writes_per_second, |row| row.log_writes_average_latency_ms),
            ],
            achieved_iops: tests.iter().map(|test| test.achieved_iops).sum(),
            target_iops: tests.iter().map(|test| test.target_iops).sum(),
        })
    }
}

/// Backup rates in MiB per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct BackupRate {
    /// Mean rate per database.
    pub(crate) per_database: f64,
    /// Mean rate per server.
    pub(crate) per_server: f64,
    /// Total rate over all servers.
    pub(crate) total: f64,
}

impl BackupRate {
    /// Computes the rates for one or more servers, or `None` if there are no rows.
    pub(crate) fn from_tests(tests: &[&ServerTest]) -> Option<BackupRate> {
        let tests: Vec<_> = tests.iter().filter(|test| !test.backup.is_empty()).collect();
        let rows: Vec<f64> =
            tests.iter().flat_map(|test| &test.backup).map(|row| row.mib_per_second).collect();
        let total: f64 = rows.iter().sum();
        (!rows.is_empty()).then(|| BackupRate {
            per_database: total / rows.len() as f64,
            per_server: total / tests.len() as f64,
            total,
        })
    }
}

/// Number of replayed logs and total replay time, summed over all databases.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ReplayRate {
    pub(crate) logs: u64,
    pub(crate) seconds: f64,
}

impl ReplayRate {
    /// Computes the rate for one or more servers, or `None` if no log was replayed.
    pub(crate) fn from_tests(tests: &[&ServerTest]) -> Option<ReplayRate> {
        let rows = || tests.iter().flat_map(|test| &test.replay);
        let logs = rows().fold(0, |sum: u64, row| sum.saturating_add(row.logs));
        (logs > 0).then(|| ReplayRate { logs, seconds: rows().map(|row| row.seconds).sum() })
    }

    /// Returns the number of seconds per log and database.
    pub(crate) fn seconds_per_log(self) -> f64 {
        self.seconds / self.logs as f64
    }
}
