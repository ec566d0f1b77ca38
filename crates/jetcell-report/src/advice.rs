//! Advice for broken rules: one sentence per cause, derived from the evidence in the result.

use jetcell_input::number::{plain, with_three_decimals};
use jetcell_workload::measurement::{InstanceSample, LimitingFactor, Sample};
use jetcell_workload::result::RunResult;
use jetcell_workload::{RuleKind, Verdict, VerdictRule};

/// Average CPU utilization in percent above which the CPUs are the likely cause of slow I/O.
const BUSY_CPU_PERCENT: f64 = 80.0;
/// Average queue length above which a device is the likely cause. A busy percentage above [`BUSY_DISK_PERCENT`] has the
/// same meaning.
const BUSY_QUEUE_LENGTH: f64 = 2.0;
const BUSY_DISK_PERCENT: f64 = 80.0;
/// Multiple of the average above which a slow interval is treated as an isolated incident.
const INCIDENT_FACTOR: f64 = 3.0;

/// Returns one sentence per cause, naming all broken rules that share the cause.
pub(crate) fn advice(result: &RunResult, samples: &[Sample]) -> Vec<String> {
    let mut said: Vec<(Vec<&str>, String)> = Vec::new();
    let mut doubted = None;
    for rule in result.rules.iter().filter(|rule| !rule.passed) {
        if rule.kind() == RuleKind::MeasuredEnough {
            doubted = Some(&rule.name);
            continue;
        }
        let what = AdviceEvidence { result, samples }.advice_for(rule);
        match said.iter_mut().find(|(_, same)| *same == what) {
            Some((names, _)) => names.push(&rule.name),
            None => said.push((vec![&rule.name], what)),
        }
    }
    let mut lines: Vec<String> =
        said.iter().map(|(names, what)| format!("{}: {what}.", names.join("; "))).collect();
    let name = doubted.map_or("Measured enough", String::as_str);
    lines.extend(result.doubts.iter().map(|doubt| format!("{name}: {doubt}.")));
    if result.verdict == Verdict::Incomplete && result.measured_seconds > 0.0 {
        lines.push("The run did not complete: the figures cover only the time up to its last sample.".into());
    }
    lines
}

struct AdviceEvidence<'a> {
    result: &'a RunResult,
    samples: &'a [Sample],
}

impl AdviceEvidence<'_> {
    fn advice_for(&self, rule: &VerdictRule) -> String {
        match rule.kind() {
            RuleKind::AverageDatabaseRead => {
                self.slow("database reads", false, |i| i.database_read.average_ms, self.read_ms())
            }
            RuleKind::MaximumDatabaseRead => {
                self.slow("database reads", true, |i| i.database_read.average_ms, self.read_ms())
            }
            RuleKind::AverageLogWrite => {
                self.slow("log writes", false, |i| i.log_write.average_ms, self.log_ms())
            }
            RuleKind::MaximumLogWrite => {
                self.slow("log writes", true, |i| i.log_write.average_ms, self.log_ms())
            }
            RuleKind::DatabaseReadP95 | RuleKind::DatabaseReadP99 => self.cause("some database reads"),
            RuleKind::LogWriteP95 | RuleKind::LogWriteP99 => self.cause("some log writes"),
            RuleKind::PageFaultStalls => format!(
                "sessions waited for a free cache page because pages are modified faster than they are \
                 flushed (a database write took {} ms on average); try a larger --cache or fewer --threads \
                 to see whether device writes are the cause",
                with_three_decimals(self.mean(|row| row.database_writes_average_latency_ms))
            ),
            RuleKind::OperationP95
            | RuleKind::OperationP99
            | RuleKind::TransactionalIo
            | RuleKind::OperationsBehind
            | RuleKind::OperationsNotCompleted => self.target_missed_text(),
            RuleKind::BadPagesInBackup => {
                "the pages are damaged on the device, and the backup is not usable: keep the files, examine \
                 them with `jetcell check`, and check the kernel log for device errors"
                    .into()
            }
            RuleKind::LogsReplayed => {
                "the replay stopped before the last log: see the error in the test log, and run `jetcell check` \
                 to find what is wrong with the logs"
                    .into()
            }
            RuleKind::IoErrors => {
                "transfers failed; the kernel log (dmesg) names the device and the sector, and performance \
                 figures are not meaningful until the fault is repaired"
                    .into()
            }
            RuleKind::CorrectedBits => {
                "the device, its connection or the memory of the machine returned wrong data, which checksums \
                 corrected; a page with more wrong bits cannot be corrected: replace the part that causes this"
                    .into()
            }
            RuleKind::LostWrites => {
                "writes were acknowledged and did not reach the device, and the kernel log does not show this: \
                 check write caches and firmware, and restore the database from a backup"
                    .into()
            }
            RuleKind::WrongChecksums
            | RuleKind::WrongRecords
            | RuleKind::BadPagesInScan
            | RuleKind::BadPagesAfterTest => {
                "the data read differs from the data written: keep the files, examine the pages with `jetcell \
                 check`, check the kernel log for device errors, and test the memory of the machine"
                    .into()
            }
            RuleKind::OperationsPerSecond
            | RuleKind::SustainedRate
            | RuleKind::PassiveIo
            | RuleKind::CopiesFailed
            | RuleKind::MeasuredEnough
            | RuleKind::HostsLost
            | RuleKind::HostsWithoutResult
            | RuleKind::StartSkew
            | RuleKind::ClockMovement
            | RuleKind::CommonTime
            | RuleKind::HostVerdicts
            | RuleKind::Other => "see the tables below".into(),
        }
    }

    fn mean(&self, value: fn(&jetcell_workload::result::InstanceRow) -> f64) -> f64 {
        self.result.instances.iter().map(value).sum::<f64>() / self.result.instances.len().max(1) as f64
    }

    fn read_ms(&self) -> f64 {
        self.mean(|row| row.database_reads_average_latency_ms)
    }

    fn log_ms(&self) -> f64 {
        self.mean(|row| row.log_writes_average_latency_ms)
    }

    /// Explains why transfers of one kind were slow.
    fn slow(&self, what: &str, of_one: bool, value: fn(&InstanceSample) -> f64, average: f64) -> String {
        let slowest = self.samples.iter().flat_map(|sample| {
            sample.instances.iter().map(move |instance| (value(instance), sample.at_seconds))
        });
        let slowest = slowest.max_by(|a, b| a.0.total_cmp(&b.0));
        if let (true, Some((ms, at))) = (of_one, slowest)
            && ms > average * INCIDENT_FACTOR
        {
            return format!(
                "individual intervals were slow ({} ms in the interval that ended at {at:.0} s, {} ms on \
                 average): find the cause, such as other users of the device, a flush of its write cache, \
                 garbage collection, or scheduled jobs",
                plain(ms),
                plain(average)
            );
        }
        self.cause(what)
    }

    /// Determines why transfers were slow: the CPUs, a device, or a layer between them.
    fn cause(&self, what: &str) -> String {
        let host = &self.result.analysis.host;
        if host.seconds <= 0.0 {
            return format!(
                "{what} were slow, and the machine was not sampled: run iostat -x 1 to see the device queue"
            );
        }
        let disk = host.disks.iter().max_by(|a, b| a.queue.total_cmp(&b.queue));
        let (cpu, own) = (plain(host.cpu_percent.round()), plain(host.process_cpu_percent.round()));
        let device = disk.map(|disk| {
            let (queue, busy) = (plain((disk.queue * 10.0).round() / 10.0), plain(disk.busy_percent.round()));
            format!(
                "{} had {queue} requests in progress on average and was busy {busy} % of the time",
                disk.device
            )
        });
        let loaded = disk
            .is_some_and(|disk| disk.queue >= BUSY_QUEUE_LENGTH || disk.busy_percent >= BUSY_DISK_PERCENT);
        match device {
            _ if host.cpu_percent >= BUSY_CPU_PERCENT => format!(
                "{what} were slow while the processors were {cpu} % busy, {own} % with this test: free the processors \
                 of other work, or use fewer --threads, and test again"
            ),
            Some(device) if loaded => format!(
                "{what} were slow while the processors were only {cpu} % busy, and {device}: the device is \
                 the limit; use fewer --threads or a lower --rate to find the load at which latency stays \
                 within its limit"
            ),
            Some(device) => format!(
                "{what} were slow although the processors were only {cpu} % busy and {device}: neither is \
                 saturated, so examine the layers between them: file system, encryption, virtualisation, \
                 cgroup limits, the path to remote storage"
            ),
            None => format!(
                "{what} were slow while the processors were {cpu} % busy; the directories are not on a \
                 local device, so examine the storage and the path to it"
            ),
        }
    }

    /// Explains why the run did not reach its target.
    fn target_missed_text(&self) -> String {
        let Some(limit) = &self.result.analysis.limit else {
            return "the limiting factor is unknown".into();
        };
        let what_to_do = match limit.limiter {
            LimitingFactor::TargetRate => "the load did not request a higher rate: raise --rate",
            LimitingFactor::Cpu => {
                "the run measured the machine, not the storage: free its processors, or use a larger machine"
            }
            LimitingFactor::OtherPrograms => {
                "stop the other programs that use the processors, and test again"
            }
            LimitingFactor::LogFlush => {
                "examine log write latency: use a faster log device, or a separate one with --log-dir"
            }
            LimitingFactor::Cache => "examine database write latency, or use a larger --cache",
            LimitingFactor::Device => {
                "examine database read latency; more --threads send more requests in parallel"
            }
            LimitingFactor::Threads => "too few requests were in flight: use more --threads",
        };
        format!("limited by {}: {}; {what_to_do}", limit.limiter.title(), limit.reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{result, samples};
    use jetcell_workload::measurement::{DiskUsage, HostUsage};

    fn with_host(cpu_percent: f64, queue: f64) -> RunResult {
        let mut result = result();
        let disk = DiskUsage { device: "vda".into(), queue, busy_percent: 10.0, ..DiskUsage::default() };
        result.analysis.host =
            HostUsage { seconds: 60.0, cpu_percent, disks: vec![disk], ..HostUsage::default() };
        result
    }

    #[test]
    fn slow_reads_are_attributed_to_the_busy_component() {
        let said = |cpu, queue| advice(&with_host(cpu, queue), &samples(3)).join("\n");
        assert!(said(95.0, 30.0).contains("95 % busy") && said(95.0, 30.0).contains("free the processors"));
        assert!(
            said(5.0, 30.0).contains("vda had 30 requests in progress")
                && said(5.0, 30.0).contains("device is the limit")
        );
        assert!(said(5.0, 0.1).contains("layers between them"));
        assert_eq!(said(5.0, 0.1).lines().count(), 1);
        assert!(advice(&result(), &[])[0].contains("iostat"));
    }

    #[test]
    fn one_slow_interval_is_distinguished_from_a_slow_run() {
        let mut result = with_host(5.0, 30.0);
        result.rules[0] = VerdictRule::at_most(RuleKind::MaximumDatabaseRead, 20.0, 25.0, String::new());
        let mut samples = samples(9);
        assert!(advice(&result, &samples)[0].contains("device is the limit"));
        samples[6].instances[0].database_read.average_ms = 300.0;
        let said = &advice(&result, &samples)[0];
        assert!(said.contains("300 ms in the interval that ended at 7 s, 1.25 ms on average"), "{said}");
    }

    #[test]
    fn advice_and_interval_do_not_depend_on_the_title_of_a_rule() {
        let mut result = with_host(5.0, 30.0);
        result.analysis.repetitions = Some(crate::example::repetitions());
        result.rules = vec![
            VerdictRule::at_most(RuleKind::AverageDatabaseRead, 20.0, 25.0, String::new()),
            VerdictRule::at_most(RuleKind::LogWriteP99, 20.0, 25.0, String::new()),
        ];
        let before = crate::tables::rules(&result);
        result.rules.iter_mut().for_each(|rule| rule.name = "of a later version".into());
        let said = advice(&result, &samples(3));
        assert!(said.len() == 2 && said.iter().all(|line| line.contains("device is the limit")), "{said:?}");
        for (cells, before) in crate::tables::rules(&result).rows.iter().zip(&before.rows) {
            assert_eq!(cells[1..], before[1..]);
            assert!(cells[1].remark().starts_with('±'), "{cells:?}");
        }
    }

    #[test]
    fn every_verdict_rule_has_a_sentence() {
        use jetcell_workload::measurement::{
            DamageCount, FileVerification, Measurement, PageDamageCounts, VerificationResult,
        };
        use jetcell_workload::result::{InstanceRow, VerdictEvidence as Given, judge};
        let file = FileVerification { bad: 1, ..FileVerification::default() };
        let verification = VerificationResult { files: vec![file], seconds: 1.0 };
        let doubts = ["it was short".to_string()];
        let found = DamageCount { count: 1, first: String::new() };
        let damage =
            PageDamageCounts { corrected: found.clone(), wrong_checksums: found.clone(), lost_writes: found };
        let given = Given {
            io_errors: 1,
            damage,
            verification: Some(&verification),
            doubts: Some(&doubts),
            ..Given::default()
        };
        let mut measured = Measurement { seconds: 60.0, complete: true, ..Measurement::default() };
        measured.cache.stalls = 5;
        measured.tally.wrong_records = 1;
        let row = InstanceRow {
            database_reads_average_latency_ms: 500.0,
            maximum_database_read_ms: 600.0,
            log_writes_average_latency_ms: 500.0,
            maximum_log_write_ms: 600.0,
            ..InstanceRow::new("i".into(), "d".into(), "l".into())
        };
        let mut profile = result().configuration;
        profile.thresholds.p99_database_read_ms = Some(1e-9);
        profile.thresholds.p95_log_write_ms = Some(1e-9);
        profile.thresholds.p99_operation_ms = Some(1e-9);
        let mut io = jetcell_workload::measurement::InstanceIo::default();
        io.database_read.record(4096, 1000);
        io.log_write.record(4096, 1000);
        measured.io = vec![io];
        measured.tally.operations[0].record(1000);
        let mut broken = RunResult { doubts: doubts.to_vec(), ..result() };
        broken.rules = judge(&profile, &[row], 1.0, &measured, &given).rules;
        let said = advice(&broken, &[]);
        assert!(
            broken.rules.iter().all(|rule| said.iter().any(|line| line.contains(&rule.name))),
            "{said:#?}"
        );
        assert!(broken.rules.len() >= 9 && broken.rules.iter().all(|rule| !rule.passed));
        assert!(
            said.iter().all(|line| !line.contains("see the tables") && !line.contains('\n')),
            "{said:#?}"
        );
        broken.rules.iter_mut().for_each(|rule| rule.passed = true);
        broken.doubts.clear();
        assert_eq!(advice(&broken, &[]), Vec::<String>::new());
    }
}
