//! Published results for one test on one server: the parts of a run that a document needs, whichever program measured
//! it.

use chrono::NaiveDateTime;
use jetcell_workload::result::InstanceRow;
use jetcell_workload::{TestKind, Verdict};

use crate::chart::Chart;
use crate::table::ReportTable;

/// A time span. All times in a document are in the same time zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TestPeriod {
    pub(crate) start: NaiveDateTime,
    pub(crate) end: NaiveDateTime,
}

impl TestPeriod {
    /// Returns the length in seconds.
    pub(crate) fn seconds(self) -> f64 {
        (self.end - self.start).as_seconds_f64()
    }

    /// Returns the number of seconds by which the two windows overlap. Negative if there is a gap between them.
    pub(crate) fn common_seconds(self, other: TestPeriod) -> f64 {
        (self.end.min(other.end) - self.start.max(other.start)).as_seconds_f64()
    }
}

/// Result of verifying pages and logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChecksumVerification {
    /// The report has no verification phase.
    NotRun,
    /// All files were read and verified.
    Verified {
        /// Number of databases and logs.
        files: usize,
        /// Number of damaged pages and log segments.
        bad: u64,
    },
}

/// How the averages in a report's tables were computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AverageMethod {
    /// Sums divided by counts.
    Weighted,
    /// Means over samples, as in Jetstress. A sample without I/O counts as zero.
    SampleMeans,
}

/// Backup size, duration and rate for one database.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BackupRow {
    pub(crate) instance: String,
    pub(crate) mib: f64,
    pub(crate) seconds: f64,
    /// Rate as printed in the report. Jetstress computes it from the unrounded duration.
    pub(crate) mib_per_second: f64,
}

/// Replayed log count and replay time for one database.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ReplayRow {
    pub(crate) instance: String,
    pub(crate) logs: u64,
    pub(crate) seconds: f64,
}

/// Sums and means printed below a report's rows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct PrintedTotals {
    pub(crate) average: Option<f64>,
    pub(crate) sum: Option<f64>,
}

/// Published results for one test on one server.
#[derive(Clone, Debug)]
pub struct ServerTest {
    pub(crate) server: String,
    pub(crate) kind: TestKind,
    /// Source of the results.
    pub(crate) source: String,
    /// Verdict. `None` for reports that do not have one, such as Jetstress's backup and recovery reports.
    pub(crate) verdict: Option<Verdict>,
    pub(crate) reason: String,
    pub(crate) description: String,
    pub(crate) window: Option<TestPeriod>,
    /// Measured time in seconds. The window may be one sampling interval shorter.
    pub(crate) measured_seconds: Option<f64>,
    /// Number of times the test was interrupted and continued.
    pub(crate) interruptions: usize,
    pub(crate) engine_version: String,
    /// CPUs and memory, if the results contain them.
    pub(crate) machine: Option<String>,
    pub(crate) target_iops: Option<f64>,
    pub(crate) achieved_iops: Option<f64>,
    pub(crate) final_bytes: Option<u64>,
    /// Number of header bytes included in `final_bytes`. The pages counted by a backup do not include headers.
    pub(crate) header_bytes: u64,
    pub(crate) databases: usize,
    pub(crate) copies: Option<u64>,
    pub(crate) threads: Option<u64>,
    pub(crate) transactional: Vec<InstanceRow>,
    /// Rows that include background maintenance and log replication.
    pub(crate) total: Vec<InstanceRow>,
    pub(crate) averages: AverageMethod,
    pub(crate) backup: Vec<BackupRow>,
    pub(crate) backup_totals: PrintedTotals,
    pub(crate) replay: Vec<ReplayRow>,
    pub(crate) replay_totals: PrintedTotals,
    pub(crate) checksums: ChecksumVerification,
    pub(crate) io_errors: Option<u64>,
    /// The full report, for the appendix.
    pub(crate) tables: Vec<ReportTable>,
    pub(crate) charts: Vec<Chart>,
}

impl ServerTest {
    /// Creates a test without any results.
    pub(crate) fn new(server: String, kind: TestKind, source: String, averages: AverageMethod) -> ServerTest {
        ServerTest {
            server,
            kind,
            source,
            averages,
            verdict: None,
            reason: String::new(),
            description: String::new(),
            window: None,
            measured_seconds: None,
            interruptions: 0,
            engine_version: String::new(),
            machine: None,
            target_iops: None,
            achieved_iops: None,
            final_bytes: None,
            header_bytes: 0,
            databases: 0,
            copies: None,
            threads: None,
            transactional: Vec::new(),
            total: Vec::new(),
            backup: Vec::new(),
            backup_totals: PrintedTotals::default(),
            replay: Vec::new(),
            replay_totals: PrintedTotals::default(),
            checksums: ChecksumVerification::NotRun,
            io_errors: None,
            tables: Vec::new(),
            charts: Vec::new(),
        }
    }

    /// Returns the test's name for use in messages.
    pub(crate) fn title(&self) -> String {
        format!("{} test of {}", self.kind, self.server)
    }
}
