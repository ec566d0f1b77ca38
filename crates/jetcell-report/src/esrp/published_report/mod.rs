//! A server's published Jetstress reports as JSON, in the format `jetstress-fixture/1`: the reports' tables under
//! short names. This crate's test data includes two such files.

mod tables;

use chrono::NaiveDateTime;
use jetcell_workload::measurement::IoRates;
use jetcell_workload::result::InstanceRow;
use jetcell_workload::{TestKind, Verdict};
use serde::Deserialize;

use crate::esrp::configuration::{PublishedClaims, SummaryClaim};
use crate::esrp::figure::StatedNumber;

use crate::esrp::tested_server::{
    AverageMethod, BackupRow, ChecksumVerification, PrintedTotals, ReplayRow, ServerTest, TestPeriod,
};

/// Identifier of the supported format.
pub(super) const SCHEMA: &str = "jetstress-fixture/1";

/// Contents of a published report file.
#[derive(Deserialize)]
pub(super) struct PublishedReport {
    server: String,
    #[serde(default)]
    description_facts: ReportDescription,
    tests: PublishedTests,
    #[serde(default)]
    summary_claimed: Option<SummaryClaim>,
    #[serde(default)]
    submission_claims: SubmissionClaims,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ReportDescription {
    threads_text: String,
}

#[derive(Deserialize)]
struct PublishedTests {
    performance: Option<PublishedTest>,
    stress: Option<PublishedTest>,
    database_backup: Option<PublishedTest>,
    soft_recovery: Option<PublishedTest>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SubmissionClaims {
    mb_read_per_sec_per_database: Option<StatedNumber>,
    mb_read_per_sec_per_server: Option<StatedNumber>,
    avg_seconds_per_log: Option<StatedNumber>,
}

/// A report on one test. Each kind of test has only some of the tables.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct PublishedTest {
    pub(super) test_summary: Option<PublishedTestSummary>,
    pub(super) sizing: Option<PublishedSizing>,
    pub(super) system_parameters: Option<PublishedParameters>,
    pub(super) database_configuration: Vec<PublishedDatabasePaths>,
    pub(super) transactional_io: Vec<PublishedIo>,
    pub(super) background_maintenance_io: Vec<PublishedMaintenanceIo>,
    pub(super) log_replication_io: Vec<PublishedReplicationIo>,
    pub(super) total_io: Vec<PublishedIo>,
    pub(super) host_system: Vec<PublishedCounter>,
    pub(super) statistics: Vec<PublishedStatistic>,
    avg_mb_per_sec: Option<f64>,
    sum_mb_per_sec: Option<f64>,
    avg_elapsed_seconds: Option<f64>,
    sum_elapsed_seconds: Option<f64>,
    test_log_facts: PublishedLogFacts,
}

#[derive(Deserialize)]
pub(super) struct PublishedTestSummary {
    pub(super) overall_test_result: String,
    pub(super) machine_name: String,
    pub(super) test_start: NaiveTime,
    pub(super) test_end: NaiveTime,
    pub(super) collection_start: NaiveTime,
    pub(super) collection_end: NaiveTime,
    pub(super) jetstress_version: String,
    pub(super) ese_version: String,
    pub(super) operating_system: String,
    pub(super) performance_log: String,
}

#[derive(Deserialize)]
pub(super) struct PublishedSizing {
    pub(super) achieved_transactional_iops: f64,
    pub(super) target_transactional_iops: f64,
    pub(super) initial_database_size_bytes: u64,
    pub(super) final_database_size_bytes: u64,
    pub(super) database_files: usize,
}

#[derive(Deserialize)]
pub(super) struct PublishedParameters {
    pub(super) thread_count: u64,
    pub(super) min_cache_mb: f64,
    pub(super) max_cache_mb: f64,
    pub(super) insert_pct: u64,
    pub(super) delete_pct: u64,
    pub(super) replace_pct: u64,
    pub(super) read_pct: u64,
    pub(super) lazy_commit_pct: u64,
    pub(super) run_background_database_maintenance: Option<bool>,
    pub(super) copies_per_database: Option<u64>,
}

#[derive(Deserialize)]
pub(super) struct PublishedDatabasePaths {
    pub(super) instance: String,
    pub(super) log_path: String,
    pub(super) database: String,
}

#[derive(Deserialize)]
pub(super) struct PublishedIo {
    instance: String,
    db_reads_avg_latency_ms: f64,
    db_writes_avg_latency_ms: f64,
    db_reads_per_sec: f64,
    db_writes_per_sec: f64,
    db_reads_avg_bytes: f64,
    db_writes_avg_bytes: f64,
    log_reads_avg_latency_ms: f64,
    log_writes_avg_latency_ms: f64,
    log_reads_per_sec: f64,
    log_writes_per_sec: f64,
    log_reads_avg_bytes: f64,
    log_writes_avg_bytes: f64,
}

#[derive(Deserialize)]
pub(super) struct PublishedMaintenanceIo {
    pub(super) instance: String,
    pub(super) maintenance_reads_per_sec: f64,
    pub(super) maintenance_reads_avg_bytes: f64,
}

#[derive(Deserialize)]
pub(super) struct PublishedReplicationIo {
    pub(super) instance: String,
    pub(super) log_reads_per_sec: f64,
    pub(super) log_reads_avg_bytes: f64,
}

#[derive(Deserialize)]
pub(super) struct PublishedCounter {
    pub(super) counter: String,
    pub(super) average: f64,
    pub(super) minimum: f64,
    pub(super) maximum: f64,
}

/// A row of backup or recovery statistics.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct PublishedStatistic {
    pub(super) instance: String,
    pub(super) database_size_mb: f64,
    pub(super) elapsed: String,
    pub(super) elapsed_seconds: f64,
    pub(super) mb_per_sec: f64,
    pub(super) log_files_replayed: u64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PublishedLogFacts {
    prereq_attained: Option<NaiveTime>,
    logging_started: Option<NaiveTime>,
    logging_ended: Option<NaiveTime>,
}

/// A local time without a time zone.
#[derive(Clone, Copy, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct NaiveTime(pub(super) NaiveDateTime);

/// Error for text that is not a time.
#[derive(Debug, thiserror::Error)]
#[error("'{text}' is not a valid time; expected a value such as 2014-03-03T13:44:08")]
pub(super) struct NotATime {
    text: String,
}

impl TryFrom<String> for NaiveTime {
    type Error = NotATime;
    fn try_from(text: String) -> Result<NaiveTime, NotATime> {
        let time = NaiveDateTime::parse_from_str(&text, "%Y-%m-%dT%H:%M:%S");
        time.map(NaiveTime).map_err(|_| NotATime { text })
    }
}

impl PublishedIo {
    pub(super) fn row(&self) -> InstanceRow {
        let rates = |per_second, average_bytes, average_ms| IoRates { per_second, average_bytes, average_ms };
        InstanceRow::new(self.instance.clone(), "".into(), "".into()).with_rates(
            rates(self.db_reads_per_sec, self.db_reads_avg_bytes, self.db_reads_avg_latency_ms),
            rates(self.db_writes_per_sec, self.db_writes_avg_bytes, self.db_writes_avg_latency_ms),
            rates(self.log_reads_per_sec, self.log_reads_avg_bytes, self.log_reads_avg_latency_ms),
            rates(self.log_writes_per_sec, self.log_writes_avg_bytes, self.log_writes_avg_latency_ms),
        )
    }
}

impl PublishedReport {
    /// Returns the tests in the file and the claims made by the paper that published them.
    pub(super) fn into_parts(self, source: &str) -> (Vec<ServerTest>, PublishedClaims) {
        let PublishedReport { server, description_facts, tests, summary_claimed, submission_claims } = self;
        let kinds = [
            (TestKind::Performance, tests.performance),
            (TestKind::Stress, tests.stress),
            (TestKind::Backup, tests.database_backup),
            (TestKind::Recovery, tests.soft_recovery),
        ];
        let tests = kinds.into_iter().filter_map(|(kind, test)| {
            let description = match kind {
                TestKind::Performance | TestKind::Stress => description_facts.threads_text.clone(),
                TestKind::Backup | TestKind::Recovery | TestKind::Replication => String::new(),
            };
            let of = ServerTest::new(server.clone(), kind, source.into(), AverageMethod::SampleMeans);
            Some(test?.into_server_test(ServerTest { description, ..of }))
        });
        let claims = PublishedClaims {
            mb_read_per_sec_per_database: submission_claims.mb_read_per_sec_per_database,
            mb_read_per_sec_per_server: submission_claims.mb_read_per_sec_per_server,
            avg_seconds_per_log: submission_claims.avg_seconds_per_log,
            servers: summary_claimed.map(|claim| (server.clone(), claim)).into_iter().collect(),
            ..PublishedClaims::default()
        };
        (tests.collect(), claims)
    }
}

impl PublishedTest {
    fn into_server_test(self, of: ServerTest) -> ServerTest {
        let maintained = |row: InstanceRow| {
            let apart = self.background_maintenance_io.iter().find(|apart| apart.instance == row.instance);
            InstanceRow {
                maintenance_reads_per_second: apart.map_or(0.0, |apart| apart.maintenance_reads_per_sec),
                maintenance_reads_average_bytes: apart.map_or(0.0, |apart| apart.maintenance_reads_avg_bytes),
                ..row
            }
        };
        let (summary, sizing) = (self.test_summary.as_ref(), self.sizing.as_ref());
        let parameters = self.system_parameters.as_ref();
        let backup = of.kind == TestKind::Backup;
        let statistics = |wanted: bool| self.statistics.iter().filter(move |_| wanted);
        let totals = |average, sum| PrintedTotals { average, sum };
        ServerTest {
            verdict: summary.map(PublishedTestSummary::verdict),
            window: self.window(),
            measured_seconds: self.test_log_facts.measured_seconds(),
            engine_version: summary.map(|summary| summary.ese_version.clone()).unwrap_or_default(),
            target_iops: sizing.map(|sizing| sizing.target_transactional_iops),
            achieved_iops: sizing.map(|sizing| sizing.achieved_transactional_iops),
            final_bytes: sizing.map(|sizing| sizing.final_database_size_bytes),
            databases: sizing.map_or(self.database_configuration.len(), |sizing| sizing.database_files),
            copies: parameters.and_then(|parameters| parameters.copies_per_database),
            threads: parameters.map(|parameters| parameters.thread_count),
            transactional: self.transactional_io.iter().map(PublishedIo::row).map(maintained).collect(),
            total: self.total_io.iter().map(PublishedIo::row).map(maintained).collect(),
            backup: statistics(backup).map(PublishedStatistic::backup).collect(),
            backup_totals: totals(self.avg_mb_per_sec, self.sum_mb_per_sec),
            replay: statistics(!backup).map(PublishedStatistic::replay).collect(),
            replay_totals: totals(self.avg_elapsed_seconds, self.sum_elapsed_seconds),
            checksums: ChecksumVerification::NotRun,
            tables: tables::all_tables(&self, of.kind),
            ..of
        }
    }

    /// Returns the period in which a load's data was collected, or the logged time of a backup or recovery.
    fn window(&self) -> Option<TestPeriod> {
        let facts = &self.test_log_facts;
        let (start, end) = match &self.test_summary {
            Some(summary) => (summary.collection_start, summary.collection_end),
            None => (facts.logging_started?, facts.logging_ended?),
        };
        Some(TestPeriod { start: start.0, end: end.0 })
    }
}

impl PublishedTestSummary {
    fn verdict(&self) -> Verdict {
        match self.overall_test_result.as_str() {
            "Pass" => Verdict::Pass,
            "Fail" => Verdict::Fail,
            _ => Verdict::Incomplete,
        }
    }
}

impl PublishedLogFacts {
    fn measured_seconds(&self) -> Option<f64> {
        let start = self.prereq_attained.or(self.logging_started)?.0;
        Some(TestPeriod { start, end: self.logging_ended?.0 }.seconds())
    }
}

impl PublishedStatistic {
    fn backup(&self) -> BackupRow {
        let (instance, mib, seconds) = (self.instance.clone(), self.database_size_mb, self.elapsed_seconds);
        BackupRow { instance, mib, seconds, mib_per_second: self.mb_per_sec }
    }

    fn replay(&self) -> ReplayRow {
        let (instance, logs, seconds) =
            (self.instance.clone(), self.log_files_replayed, self.elapsed_seconds);
        ReplayRow { instance, logs, seconds }
    }
}
