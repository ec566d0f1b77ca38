//! Judges a run by comparing measured values with limits. The speed rules are those of Jetstress 2013. The
//! correctness rules are Jetcell's own.

use crate::measurement::{
    CONFIRMATIONS, LatencyPercentiles, MIN_RATE, Measurement, OpenLoopBacklog, PageDamageCounts,
    SaturationSearch, ScanSummary, VerificationResult,
};
use crate::profile::Profile;
use crate::result::instance_row::InstanceRow;
use crate::result::{BackupTestResult, RecoveryTestResult, ReplicationSideIo, ReplicationTestResult};
use crate::verdict::{RuleBound, RuleKind, Verdict, VerdictRule};

/// Evidence from outside the measured interval that the verdict considers.
#[derive(Clone, Debug, Default)]
pub struct VerdictEvidence<'a> {
    /// Number of failed transfers in the whole run.
    pub io_errors: u64,
    /// Damage to pages that the engine detected.
    pub damage: PageDamageCounts,
    /// Failed transfer that ended the run early.
    pub failure: Option<String>,
    /// Summaries of the checksum scans, if scans ran.
    pub scan: &'a [ScanSummary],
    /// Result of the verification after the load, if the run reached it.
    pub verification: Option<&'a VerificationResult>,
    /// Result of the backup test, if the run reached the backup.
    pub backup: Option<&'a BackupTestResult>,
    /// Result of the recovery test, if the run reached the replay.
    pub recovery: Option<&'a RecoveryTestResult>,
    /// Result of the replication test, if the run reached its end.
    pub replication: Option<&'a ReplicationTestResult>,
    /// Reason why the run ended early, if it did.
    pub cut_short: Option<&'a str>,
    /// Doubts about the measurement, or `None` if there is no measurement to judge.
    pub doubts: Option<&'a [String]>,
}

impl VerdictEvidence<'_> {
    /// Returns true if the test can pass without any load operations.
    fn needs_no_load(&self) -> bool {
        self.recovery.is_some() || self.backup.is_some_and(|backup| backup.cost.is_none())
    }
}

/// A verdict on a run, with its reasons.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// Verdict of the run.
    pub verdict: Verdict,
    /// Reason for the verdict, as a sentence.
    pub reason: String,
    /// All rules with their measured values.
    pub rules: Vec<VerdictRule>,
}

/// Returns the highest value and the name of the instance that has it.
fn worst(instances: &[InstanceRow], value: impl Fn(&InstanceRow) -> f64) -> (f64, String) {
    let named_value = |row: &InstanceRow| (value(row), row.instance.clone());
    instances.iter().map(named_value).max_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or_default()
}

/// Returns the rules for the latency limits and the target.
fn speed_rules(
    profile: &Profile,
    instances: &[InstanceRow],
    iops: f64,
    measured: &Measurement,
) -> Vec<VerdictRule> {
    let mut speed = Vec::new();
    let limits = &profile.thresholds;
    type RowValue = fn(&InstanceRow) -> f64;
    let latencies: [(RuleKind, f64, RowValue); 4] = [
        (RuleKind::AverageDatabaseRead, limits.average_database_read_ms, |row| {
            row.database_reads_average_latency_ms
        }),
        (RuleKind::MaximumDatabaseRead, limits.maximum_database_read_ms, |row| row.maximum_database_read_ms),
        (RuleKind::AverageLogWrite, limits.average_log_write_ms, |row| row.log_writes_average_latency_ms),
        (RuleKind::MaximumLogWrite, limits.maximum_log_write_ms, |row| row.maximum_log_write_ms),
    ];
    for (kind, limit, value) in latencies {
        let (measured, instance) = worst(instances, value);
        speed.push(VerdictRule::at_most(kind, limit, measured, format!("worst: {instance}")));
    }
    let stalls = measured.cache.stalls as f64;
    let note = "waits for a free cache page; a larger --cache or faster database writes avoid these waits";
    speed.push(VerdictRule::at_most(
        RuleKind::PageFaultStalls,
        limits.page_fault_stalls as f64,
        stalls,
        note.into(),
    ));
    speed.extend(LatencyPercentiles::new(&measured.io, &measured.tally.operations).rules(limits));
    speed.extend(measured.open_loop.iter().flat_map(OpenLoopBacklog::rules));
    if let Some(target) = profile.target_iops {
        let limit = target * (1.0 - profile.margin);
        let note = format!("target {target} minus a margin of {} %", profile.margin * 100.0);
        speed.push(VerdictRule::at_least(RuleKind::TransactionalIo, limit, iops, note));
    }
    speed
}

/// Judges a run. Speed rules require a measurement. Correctness rules always apply.
pub fn judge(
    profile: &Profile,
    instances: &[InstanceRow],
    iops: f64,
    measured: &Measurement,
    evidence: &VerdictEvidence<'_>,
) -> Judgement {
    let mut speed = if measured.seconds > 0.0 && profile.test.judges_speed() {
        speed_rules(profile, instances, iops, measured)
    } else {
        Vec::new()
    };
    let doubts = evidence.doubts.unwrap_or_default();
    let mut enough =
        VerdictRule::at_most(RuleKind::MeasuredEnough, 0.0, doubts.len() as f64, doubts.join("; "));
    enough.judged = evidence.doubts.is_some();
    if let Some(saturation) = measured.saturation.as_ref().filter(|saturation| saturation.ended) {
        speed.push(sustained_rate_rule(saturation));
    }

    let wrong = &measured.tally;
    let mut correct = vec![
        VerdictRule::at_most(
            RuleKind::IoErrors,
            0.0,
            evidence.io_errors as f64,
            evidence.failure.clone().unwrap_or_default(),
        ),
        VerdictRule::at_most(RuleKind::WrongRecords, 0.0, wrong.wrong_records as f64, {
            wrong.wrong.first().cloned().unwrap_or_default()
        }),
    ];
    correct.extend(evidence.backup.map(backup_rule));
    correct.extend(evidence.recovery.map(replay_rule));
    correct.extend(evidence.replication.map(replication_rule));
    speed
        .extend(evidence.replication.filter(|replication| replication.has_copies(true)).map(passive_io_rule));
    if !evidence.scan.is_empty() {
        let bad: u64 = evidence.scan.iter().map(|scan| scan.bad).sum();
        let first = evidence.scan.iter().find(|scan| scan.bad > 0);
        let note = first.map(|scan| format!("{}: {}", scan.database.display(), scan.findings.join("; ")));
        correct.push(VerdictRule::at_most(
            RuleKind::BadPagesInScan,
            0.0,
            bad as f64,
            note.unwrap_or_default(),
        ));
    }
    if let Some(verification) = evidence.verification {
        let bad: u64 = verification.files.iter().map(|file| file.bad).sum();
        let first = verification.files.iter().find(|file| file.bad > 0);
        let note = first
            .map(|file| format!("{}: {}", file.path.display(), file.findings.join("; ")))
            .unwrap_or_default();
        correct.push(VerdictRule::at_most(RuleKind::BadPagesAfterTest, 0.0, bad as f64, note));
    }
    correct.extend(damage_rules(evidence));

    let broken = |rules: &[VerdictRule]| rules.iter().find(|rule| !rule.passed).map(explain);
    let (verdict, reason) = if let Some(rule) = broken(&correct) {
        (Verdict::Fail, rule)
    } else if let Some(why) = evidence.cut_short {
        (Verdict::Incomplete, why.to_string())
    } else if let Some(rule) = broken(&speed) {
        (Verdict::Fail, rule)
    } else if wrong.total() == 0 && !evidence.needs_no_load() {
        (Verdict::Incomplete, "no operation completed in the measured time".into())
    } else if profile.strict && !enough.passed {
        (Verdict::Fail, format!("not measured enough (--strict): {}", enough.note))
    } else if !enough.passed {
        let count = if doubts.len() == 1 {
            "there is a doubt".into()
        } else {
            format!("there are {} doubts", doubts.len())
        };
        (Verdict::Pass, format!("all limits hold, but {count} about the measurement"))
    } else {
        (Verdict::Pass, "all rules hold".into())
    };
    speed.extend(correct);
    speed.push(enough);
    Judgement { verdict, reason, rules: speed }
}

/// Returns the rules for damaged pages. A device that returns wrong data fails the test, even if a checksum corrected
/// the data.
fn damage_rules(evidence: &VerdictEvidence<'_>) -> [VerdictRule; 3] {
    let PageDamageCounts { corrected, wrong_checksums, lost_writes } = &evidence.damage;
    let in_backup = evidence.backup.map_or(0, BackupTestResult::corrected);
    let files = evidence.verification.map(|verification| verification.files.as_slice()).unwrap_or_default();
    let after_test = files.iter().map(|file| file.repaired).fold(0, u64::saturating_add);
    let lost_after_test = files.iter().map(|file| file.lost_writes).fold(0, u64::saturating_add);
    let lost_note = match (lost_writes.count, lost_after_test) {
        (0, 1..) => "found by the verification after the test".into(),
        _ => lost_writes.first.clone(),
    };
    let lost = lost_writes.count.saturating_add(lost_after_test);
    let all = corrected.count.saturating_add(in_backup).saturating_add(after_test);
    let note = match (corrected.count, in_backup, after_test) {
        (0, 0, 0) => String::new(),
        (0, 0, _) => "found by the verification after the test".into(),
        (0, ..) => "found by the backup".into(),
        _ => corrected.first.clone(),
    };
    [
        VerdictRule::at_most(RuleKind::CorrectedBits, 0.0, all as f64, note),
        VerdictRule::at_most(
            RuleKind::WrongChecksums,
            0.0,
            wrong_checksums.count as f64,
            wrong_checksums.first.clone(),
        ),
        VerdictRule::at_most(RuleKind::LostWrites, 0.0, lost as f64, lost_note),
    ]
}

/// Returns the rule for a search. A search that found no sustained rate fails, regardless of the measurements at its
/// steps.
fn sustained_rate_rule(saturation: &SaturationSearch) -> VerdictRule {
    let measured = saturation.sustained_rate.unwrap_or(0.0);
    let note = match saturation.curve().first().and_then(|step| step.broken.as_ref()) {
        Some(rule) => format!("at the lowest rate: {} {:.3}", rule.name, rule.measured),
        None => format!("{} times in a row", CONFIRMATIONS),
    };
    VerdictRule::at_least(RuleKind::SustainedRate, MIN_RATE, measured, note)
}

/// Returns the rule for a backup. A backup with a bad page cannot replace its database.
fn backup_rule(backup: &BackupTestResult) -> VerdictRule {
    let first = backup.databases.iter().find(|database| database.counters.bad > 0);
    let note = first.map(|database| {
        format!("{}: {}", database.database.display(), database.counters.findings.join("; "))
    });
    VerdictRule::at_most(RuleKind::BadPagesInBackup, 0.0, backup.bad() as f64, note.unwrap_or_default())
}

/// Returns the rule for a replay. A replay with a missing log fails, regardless of its speed.
fn replay_rule(recovery: &RecoveryTestResult) -> VerdictRule {
    let fewest = recovery.fewest_logs();
    let note = fewest.map(|database| format!("fewest: {}", database.instance)).unwrap_or_default();
    let measured = fewest.map_or(0, |database| database.logs);
    let mut rule =
        VerdictRule::at_least(RuleKind::LogsReplayed, recovery.wanted_logs as f64, measured as f64, note);
    rule.judged = recovery.complete;
    rule.passed |= !recovery.complete;
    rule
}

/// Returns the rule for copies. A copy that stopped replicating is a failure.
fn replication_rule(replication: &ReplicationTestResult) -> VerdictRule {
    let failed_copies = || replication.copies.iter().filter_map(|copy| Some((copy, copy.failure.as_ref()?)));
    let note = failed_copies().next().map(|(copy, why)| format!("{}: {why}", copy.directory.display()));
    VerdictRule::at_most(
        RuleKind::CopiesFailed,
        0.0,
        failed_copies().count() as f64,
        note.unwrap_or_default(),
    )
}

/// Maximum I/O of a passive copy with a persistent instance, relative to its active side. Published values range from
/// 0.5 to 1, and a later source gives one half.
const MAX_PASSIVE_IO: f64 = 0.5;

fn passive_io_rule(replication: &ReplicationTestResult) -> VerdictRule {
    let part = replication.steady.as_ref();
    let ratio = part.and_then(|part| replication.ratio(part, true, ReplicationSideIo::transfers));
    let note = "in steady state, with the same cache".to_string();
    let mut rule = VerdictRule::at_most(RuleKind::PassiveIo, MAX_PASSIVE_IO, ratio.unwrap_or(0.0), note);
    if ratio.is_none() || !replication.has_written_pages() {
        (rule.judged, rule.passed) = (false, true);
        rule.note = "too little log was written to judge this ratio".into();
    }
    rule
}

fn explain(rule: &VerdictRule) -> String {
    let (bound, verb) = match rule.bound {
        RuleBound::AtMost => ("at most", "allowed"),
        RuleBound::AtLeast => ("at least", "required"),
    };
    let note = if rule.note.is_empty() { String::new() } else { format!(" ({})", rule.note) };
    let VerdictRule { name, measured, limit, .. } = rule;
    format!("{name}: {} where {bound} {} is {verb}{note}", round(*measured), round(*limit))
}

/// Rounds to three decimals, as in the tables. Numbers are then printed without trailing zeros.
fn round(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurement::FileVerification;
    use crate::profile::Options;
    use crate::verdict::RuleState;

    fn profile() -> Profile {
        let options = Options { dirs: vec!["d".into()], target_iops: Some(270.0), ..Options::default() };
        options.resolve().unwrap()
    }

    fn row(number: u32, read_ms: f64, log_ms: f64) -> InstanceRow {
        InstanceRow {
            database_reads_average_latency_ms: read_ms,
            log_writes_average_latency_ms: log_ms,
            maximum_database_read_ms: read_ms * 2.0,
            maximum_log_write_ms: log_ms * 2.0,
            ..InstanceRow::new(format!("Instance1.{number}"), "d".into(), "l".into())
        }
    }

    fn measured() -> Measurement {
        let mut measured = Measurement { seconds: 60.0, complete: true, ..Measurement::default() };
        measured.tally.counts[0] = 1;
        measured
    }

    #[test]
    fn esrp_figures_give_the_published_verdicts() {
        // JS13 and JS14 of the ESRP paper: 285.979 and 259.878 IOPS for a target of 270.
        let rows = [row(1, 17.662, 1.293), row(2, 15.614, 1.338)];
        let verdict = |profile: &Profile, iops| {
            judge(profile, &rows, iops, &measured(), &VerdictEvidence::default()).verdict
        };
        assert_eq!(verdict(&profile(), 285.979), Verdict::Pass);
        assert_eq!(verdict(&profile(), 259.878), Verdict::Pass);
        assert_eq!(verdict(&Profile { margin: 0.03, ..profile() }, 259.878), Verdict::Fail);
    }

    #[test]
    fn a_value_at_the_limit_passes_and_worst_instance_decides() {
        let judge_latencies = |read, log| {
            judge(
                &profile(),
                &[row(1, 1.0, 1.0), row(2, read, log)],
                300.0,
                &measured(),
                &VerdictEvidence::default(),
            )
        };
        assert_eq!(judge_latencies(20.0, 10.0).verdict, Verdict::Pass);
        let failed = judge_latencies(20.001, 1.0);
        assert_eq!(failed.verdict, Verdict::Fail);
        assert_eq!(
            failed.reason,
            "Average database read latency (msec): 20.001 where at most 20 is allowed (worst: Instance1.2)"
        );
        assert_eq!(judge_latencies(1.0, 10.001).verdict, Verdict::Fail);
        assert_eq!(judge_latencies(1.0, 60.0).rules.iter().filter(|rule| !rule.passed).count(), 2);
    }

    #[test]
    fn stalls_fail_unless_allowed() {
        let mut stalled = measured();
        stalled.cache.stalls = 1;
        let judged = |profile: &Profile| {
            judge(profile, &[row(1, 1.0, 1.0)], 300.0, &stalled, &VerdictEvidence::default()).verdict
        };
        assert_eq!(judged(&profile()), Verdict::Fail);
        let mut lenient = profile();
        lenient.thresholds.page_fault_stalls = 1;
        assert_eq!(judged(&lenient), Verdict::Pass);
    }

    #[test]
    fn an_interrupted_run_is_incomplete_but_damage_still_fails_it() {
        let cut = VerdictEvidence { cut_short: Some("stopped by Ctrl-C"), ..VerdictEvidence::default() };
        let slow = judge(&profile(), &[row(1, 99.0, 1.0)], 1.0, &measured(), &cut);
        assert_eq!((slow.verdict, slow.reason.as_str()), (Verdict::Incomplete, "stopped by Ctrl-C"));
        let mut wrong = measured();
        wrong.tally.wrong_records = 1;
        assert_eq!(judge(&profile(), &[row(1, 1.0, 1.0)], 300.0, &wrong, &cut).verdict, Verdict::Fail);
        let nothing = judge(&profile(), &[], 0.0, &Measurement::default(), &cut);
        assert_eq!((nothing.verdict, nothing.rules.len()), (Verdict::Incomplete, 6));
    }

    #[test]
    fn a_bad_page_fails_the_run() {
        let file = FileVerification {
            bad: 1,
            findings: vec!["page 7".into()],
            path: "x.edb".into(),
            ..Default::default()
        };
        let verification = VerificationResult { files: vec![file], seconds: 1.0 };
        let evidence = VerdictEvidence { verification: Some(&verification), ..VerdictEvidence::default() };
        let judged = judge(&profile(), &[row(1, 1.0, 1.0)], 300.0, &measured(), &evidence);
        assert_eq!(judged.verdict, Verdict::Fail);
        assert!(judged.reason.contains("x.edb: page 7"), "{}", judged.reason);
    }

    #[test]
    fn a_bad_page_found_by_the_scan_fails_the_run_and_is_named() {
        let scan = [
            ScanSummary::default(),
            ScanSummary {
                database: "x.edb".into(),
                bad: 1,
                findings: vec!["page 7: wrong checksum".into()],
                ..ScanSummary::default()
            },
        ];
        let judged = |scan: &[ScanSummary]| {
            let evidence = VerdictEvidence { scan, cut_short: Some("stopped"), ..VerdictEvidence::default() };
            judge(&profile(), &[row(1, 1.0, 1.0)], 300.0, &measured(), &evidence)
        };
        assert_eq!(judged(&scan[..1]).verdict, Verdict::Incomplete);
        let failed = judged(&scan);
        assert_eq!(failed.verdict, Verdict::Fail);
        assert!(failed.reason.contains("x.edb: page 7: wrong checksum"), "{}", failed.reason);
    }

    #[test]
    fn corrected_bits_wrong_checksums_and_lost_writes_fail_a_test_under_their_own_names() {
        use crate::measurement::{BackupCounters, DamageCount};
        use crate::result::DatabaseBackup;
        let judged = |evidence: VerdictEvidence<'_>| {
            let judged = judge(&profile(), &[row(1, 1.0, 1.0)], 300.0, &measured(), &evidence);
            assert_eq!(judged.rules.iter().filter(|rule| !rule.passed).count(), 1, "{:?}", judged.rules);
            assert_eq!(judged.verdict, Verdict::Fail);
            judged.reason
        };
        let some = |count| DamageCount { count, first: "a.edb: page 7: what it is".into() };
        let damage = |damage| VerdictEvidence { damage, ..VerdictEvidence::default() };
        let none = PageDamageCounts::default;
        assert_eq!(
            judged(damage(PageDamageCounts { corrected: some(318), ..none() })),
            "Pages with corrected bits: 318 where at most 0 is allowed (a.edb: page 7: what it is)"
        );
        assert_eq!(
            judged(damage(PageDamageCounts { wrong_checksums: some(1), ..none() })),
            "Pages and logs with a wrong checksum: 1 where at most 0 is allowed (a.edb: page 7: what it is)"
        );
        assert_eq!(
            judged(damage(PageDamageCounts { lost_writes: some(2), ..none() })),
            "Lost writes: 2 where at most 0 is allowed (a.edb: page 7: what it is)"
        );
        let counters = BackupCounters { corrected: 4, ..BackupCounters::default() };
        let databases = vec![DatabaseBackup { counters, ..DatabaseBackup::default() }];
        let backup = BackupTestResult { databases, complete: true, ..BackupTestResult::default() };
        assert_eq!(
            judged(VerdictEvidence { backup: Some(&backup), ..VerdictEvidence::default() }),
            "Pages with corrected bits: 4 where at most 0 is allowed (found by the backup)"
        );
        let file = FileVerification { repaired: 2, ..FileVerification::default() };
        let verification = VerificationResult { files: vec![file], seconds: 1.0 };
        let reason =
            judged(VerdictEvidence { verification: Some(&verification), ..VerdictEvidence::default() });
        assert!(reason.ends_with("(found by the verification after the test)"), "{reason}");
    }

    #[test]
    fn doubts_are_reported_and_fail_only_strict_runs() {
        let doubts = ["the measured time was 2 s".to_string()];
        let judged = |profile: &Profile, doubts: Option<&[String]>| {
            let evidence = VerdictEvidence { doubts, ..VerdictEvidence::default() };
            judge(profile, &[row(1, 1.0, 1.0)], 300.0, &measured(), &evidence)
        };
        let strict = Profile { strict: true, ..profile() };
        let state = |judged: &Judgement| judged.rules.last().unwrap().state();
        let passed = judged(&profile(), Some(&doubts));
        assert_eq!((passed.verdict, state(&passed)), (Verdict::Pass, RuleState::Broken));
        assert_eq!(passed.reason, "all limits hold, but there is a doubt about the measurement");
        let failed = judged(&strict, Some(&doubts));
        assert_eq!(failed.verdict, Verdict::Fail);
        assert_eq!(failed.reason, "not measured enough (--strict): the measured time was 2 s");
        for profile in [profile(), strict] {
            let held = judged(&profile, Some(&[]));
            assert_eq!(
                (held.verdict, held.reason.as_str(), state(&held)),
                (Verdict::Pass, "all rules hold", RuleState::Held)
            );
            assert_eq!(state(&judged(&profile, None)), RuleState::NotJudged);
        }
    }

    #[test]
    fn a_run_without_operations_does_not_pass() {
        let idle = Measurement { seconds: 60.0, complete: true, ..Measurement::default() };
        let free = Profile { target_iops: None, ..profile() };
        assert_eq!(
            judge(&free, &[row(1, 0.0, 0.0)], 0.0, &idle, &VerdictEvidence::default()).verdict,
            Verdict::Incomplete
        );
    }
}
