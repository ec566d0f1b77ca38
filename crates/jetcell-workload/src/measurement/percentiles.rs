//! Latency percentiles and their limits.

use crate::measurement::counters::InstanceIo;
use crate::measurement::io::IoTotals;
use crate::measurement::latency::{LatencyHistogram, LatencySummary};
use crate::profile::Thresholds;
use crate::verdict::{RuleKind, VerdictRule};

/// Latency percentiles in microseconds, over all instances and all operation kinds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LatencyPercentiles {
    pub(crate) database_reads: LatencySummary,
    pub(crate) log_writes: LatencySummary,
    pub(crate) operations: LatencySummary,
}

impl LatencyPercentiles {
    /// Computes the percentiles from the I/O and the latencies of each operation kind in the measured interval.
    pub(crate) fn new(io: &[InstanceIo], operations: &[LatencyHistogram]) -> LatencyPercentiles {
        let all = |kind: fn(&InstanceIo) -> &IoTotals| sum(io.iter().map(|io| &kind(io).latencies));
        LatencyPercentiles {
            database_reads: all(|io| &io.database_read),
            log_writes: all(|io| &io.log_write),
            operations: sum(operations),
        }
    }

    /// Returns a rule for each limit.
    pub(crate) fn rules(&self, limits: &Thresholds) -> Vec<VerdictRule> {
        let LatencyPercentiles { database_reads, log_writes, operations } = self;
        let (reads, writes) = ((database_reads, "database reads"), (log_writes, "log writes"));
        let operations = (operations, "operations");
        type Percentile = fn(&LatencySummary) -> u64;
        let (p95, p99): (Percentile, Percentile) = (|latency| latency.p95, |latency| latency.p99);
        let all = [
            (RuleKind::DatabaseReadP95, limits.p95_database_read_ms, reads, p95),
            (RuleKind::DatabaseReadP99, limits.p99_database_read_ms, reads, p99),
            (RuleKind::LogWriteP95, limits.p95_log_write_ms, writes, p95),
            (RuleKind::LogWriteP99, limits.p99_log_write_ms, writes, p99),
            (RuleKind::OperationP95, limits.p95_operation_ms, operations, p95),
            (RuleKind::OperationP99, limits.p99_operation_ms, operations, p99),
        ];
        let rules = all.into_iter().filter_map(|(kind, limit, (latency, what), percentile)| {
            let ms = percentile(latency) as f64 / 1000.0;
            Some(VerdictRule::at_most(kind, limit?, ms, format!("of {} {what}", latency.count)))
        });
        rules.collect()
    }
}

fn sum<'l>(latencies: impl IntoIterator<Item = &'l LatencyHistogram>) -> LatencySummary {
    let mut all = LatencyHistogram::default();
    latencies.into_iter().for_each(|one| all.add(one));
    all.summary()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_is_one_rule() {
        let mut io = InstanceIo::default();
        (1..=100).for_each(|ms| io.database_read.record(4096, ms * 1000));
        io.log_write.record(4096, 7000);
        let mut operations = [LatencyHistogram::default(), LatencyHistogram::default()];
        operations[1].record(30_000);
        let percentiles = LatencyPercentiles::new(&[io.clone(), io], &operations);
        assert_eq!(percentiles.rules(&Thresholds::default()), []);
        let limits = Thresholds {
            p95_database_read_ms: Some(96.0),
            p99_database_read_ms: Some(96.0),
            p99_log_write_ms: Some(7.1),
            p95_operation_ms: Some(29.0),
            ..Thresholds::default()
        };
        let rules = percentiles.rules(&limits);
        let found: Vec<(&str, bool)> = rules.iter().map(|rule| (rule.name.as_str(), rule.passed)).collect();
        assert_eq!(
            found,
            [
                ("95th percentile of database reads (msec)", true),
                ("99th percentile of database reads (msec)", false),
                ("99th percentile of log writes (msec)", true),
                ("95th percentile of operations (msec)", false),
            ]
        );
        assert_eq!(rules[0].note, "of 200 database reads");
    }
}
