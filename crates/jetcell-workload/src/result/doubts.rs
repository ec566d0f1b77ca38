//! Doubts: reasons why a run's figures may not reflect the capability of the storage, even though all rules are met.

use jetcell_input::number::{grouped, human_bytes};

use crate::measurement::{ConfidenceInterval, LimitingFactor, LogCopySummary, Measurement, Trend};
use crate::profile::Profile;
use crate::result::{BackupTestResult, ReplicationTestResult, RunAnalysis};

/// Minimum duration of a measurement in seconds. A shorter one may fall between two checkpoints, or measure only a
/// device cache.
const MIN_SECONDS: f64 = 30.0;
/// Maximum half width of a confidence interval, as a fraction of the mean.
const MAX_HALF_WIDTH: f64 = 0.05;
/// Processor time used by other programs, as a percentage of all processors, above which they may delay the load.
const OTHERS_CPU_PERCENT: f64 = 20.0;
/// Minimum duration of a backup in seconds. A shorter backup may read only from a device cache.
const MIN_BACKUP_SECONDS: f64 = 10.0;
/// Minimum number of replayed logs. The first logs are replayed with an empty cache.
const MIN_LOGS: u32 = 100;
/// Minimum number of database reads for meaningful percentiles.
const MIN_READS: u64 = 1000;

/// The data from which doubts about a run's figures are derived.
pub(crate) struct DoubtInputs<'a> {
    pub(crate) profile: &'a Profile,
    pub(crate) measured: &'a Measurement,
    pub(crate) analysis: &'a RunAnalysis,
    pub(crate) copies: &'a [LogCopySummary],
    pub(crate) trends: &'a [Trend],
    pub(crate) backup: Option<&'a BackupTestResult>,
    pub(crate) replication: Option<&'a ReplicationTestResult>,
    pub(crate) database_bytes: u64,
    pub(crate) cache_bytes: u64,
}

/// Returns all doubts, each as a sentence with the relevant figures. Returns `None` if nothing was measured.
pub(crate) fn doubts(inputs: &DoubtInputs<'_>) -> Option<Vec<String>> {
    let DoubtInputs { profile, measured, analysis, .. } = inputs;
    if let Some(backup) = inputs.backup.filter(|backup| backup.complete) {
        return Some(backup_doubts(inputs, backup));
    }
    if measured.seconds <= 0.0 {
        return None;
    }
    let mut doubts = Vec::new();
    let mut doubt = |is: bool, what: &dyn Fn() -> String| doubts.extend(is.then(what));
    let missed: u64 = inputs.copies.iter().map(|copies| copies.missed).sum();
    doubt(missed > 0, &|| {
        format!(
            "{missed} logs were removed before the simulated copies read them: use faster storage for logs"
        )
    });
    for trend in inputs.trends.iter().filter(|trend| trend.drifts) {
        doubt(true, &|| drift(trend));
    }
    if let Some(replication) = inputs.replication {
        doubts.extend(short_measurement_doubt(measured));
        doubts.extend(replication_doubt(replication));
        doubts.extend(cache_doubt(inputs));
        doubts.extend(other_programs_doubt(inputs));
        return Some(doubts);
    }
    if !profile.test.judges_speed() {
        doubts.extend(replay_doubts(inputs));
        return Some(doubts);
    }
    doubts.extend(short_measurement_doubt(measured));
    let mut doubt = |is: bool, what: &dyn Fn() -> String| doubts.extend(is.then(what));
    match &analysis.steady_state {
        None => {
            doubt(true, &|| {
                "too few samples to determine whether the load was steady: measure longer".into()
            });
        }
        Some(state) => doubt(!state.steady, &|| {
            format!(
                "the load was not steady: I/O per second varied by {:.0} % and drifted by {:+.0} % (the \
                 limits are 20 % and 10 %): measure longer",
                state.spread * 100.0,
                state.slope * 100.0
            )
        }),
    }
    if let Some(repetitions) = &analysis.repetitions {
        let wide = |interval: &ConfidenceInterval| {
            interval.mean > 0.0 && interval.half_width > MAX_HALF_WIDTH * interval.mean
        };
        let iops = &repetitions.transactional_iops;
        doubt(wide(iops), &|| {
            format!(
                "the confidence interval of the I/O per second is wide: {} ± {}: raise --repeat or --duration",
                grouped(iops.mean),
                grouped(iops.half_width)
            )
        });
    }
    doubts.extend(cache_doubt(inputs));
    let mut doubt = |is: bool, what: &dyn Fn() -> String| doubts.extend(is.then(what));
    let reads: u64 = measured.io.iter().map(|io| io.database_read.operations).sum();
    let wants_reads = profile.mix.insert < 100;
    doubt(wants_reads && reads < MIN_READS, &|| {
        format!("only {reads} database reads were measured: raise --duration, --size or --threads")
    });
    doubts.extend(other_programs_doubt(inputs));
    let mut doubt = |is: bool, what: &dyn Fn() -> String| doubts.extend(is.then(what));
    doubt(analysis.limit.as_ref().is_some_and(|limit| limit.limiter == LimitingFactor::Cpu), &|| {
        "the processors were the limit: the figures describe the machine, not the storage".into()
    });
    Some(doubts)
}

/// Describes a drift in a sentence.
fn drift(trend: &Trend) -> String {
    let Trend { figure, change, per_hour, low_per_hour, high_per_hour, .. } = trend;
    format!(
        "drift: {figure} changed by {:+.0} % over the run ({per_hour:+.4} per hour; {low_per_hour:+.4} to \
         {high_per_hour:+.4} with 95 % confidence)",
        change * 100.0
    )
}

fn short_measurement_doubt(measured: &Measurement) -> Option<String> {
    (measured.seconds < MIN_SECONDS).then(|| {
        format!(
            "the measured time was {:.0} s: in less than {MIN_SECONDS:.0} s, the device's caches may hide \
             its speed",
            measured.seconds
        )
    })
}

/// Returns the doubt about the copies in a replication test, if any.
fn replication_doubt(replication: &ReplicationTestResult) -> Option<String> {
    let depth = human_bytes(replication.checkpoint_depth);
    (!replication.has_written_pages()).then(|| {
        format!(
            "less than {depth} of log was written in steady state: copies write pages after a delay of this \
             size, so their writes were not measured: raise --duration"
        )
    })
}

/// Returns the doubts about a backup.
fn backup_doubts(grounds: &DoubtInputs<'_>, backup: &BackupTestResult) -> Vec<String> {
    let short = (backup.seconds < MIN_BACKUP_SECONDS).then(|| {
        format!(
            "the backup took {:.1} s: in less than {MIN_BACKUP_SECONDS:.0} s, the device's caches may hide \
             its speed: raise --size",
            backup.seconds
        )
    });
    short.into_iter().chain(other_programs_doubt(grounds)).collect()
}

/// Returns the doubts about a replay.
fn replay_doubts(grounds: &DoubtInputs<'_>) -> Vec<String> {
    let logs = grounds.profile.logs;
    let few = (logs < MIN_LOGS)
        .then(|| format!("only {logs} logs per database were replayed: raise --logs to at least {MIN_LOGS}"));
    few.into_iter().chain(cache_doubt(grounds)).chain(other_programs_doubt(grounds)).collect()
}

fn cache_doubt(grounds: &DoubtInputs<'_>) -> Option<String> {
    (grounds.database_bytes <= grounds.cache_bytes).then(|| {
        format!(
            "the databases ({}) fit in the cache ({}), so few reads reach the storage: raise --size",
            human_bytes(grounds.database_bytes),
            human_bytes(grounds.cache_bytes)
        )
    })
}

fn other_programs_doubt(grounds: &DoubtInputs<'_>) -> Option<String> {
    let host = &grounds.measured.host;
    let others = host.cpu_percent - host.process_cpu_percent;
    (others >= OTHERS_CPU_PERCENT)
        .then(|| format!("other programs used {others:.0} % of the processors: stop them and test again"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurement::{InstanceIo, LimitAnalysis, Repetitions, SteadyState};
    use crate::profile::Options;
    use crate::result::ReplicationPart;

    fn good() -> (Measurement, RunAnalysis) {
        let mut io = InstanceIo::default();
        (0..1000).for_each(|_| io.database_read.record(32768, 1000));
        let measured = Measurement { seconds: 60.0, io: vec![io], ..Measurement::default() };
        let steady = SteadyState { steady: true, ..SteadyState::default() };
        (measured, RunAnalysis { steady_state: Some(steady), ..RunAnalysis::default() })
    }

    fn doubts_for(measured: &Measurement, analysis: &RunAnalysis, database_bytes: u64) -> Vec<String> {
        let profile = Options { dirs: vec!["d".into()], ..Options::default() }.resolve().unwrap();
        let cache_bytes = 64 << 20;
        let grounds = DoubtInputs {
            profile: &profile,
            measured,
            analysis,
            copies: &[],
            trends: &[],
            backup: None,
            replication: None,
            database_bytes,
            cache_bytes,
        };
        doubts(&grounds).unwrap()
    }

    #[test]
    fn a_good_measurement_has_no_doubts_and_an_empty_one_cannot_be_judged() {
        let (measured, analysis) = good();
        assert_eq!(doubts_for(&measured, &analysis, 1 << 30), Vec::<String>::new());
        let profile = Options { dirs: vec!["d".into()], ..Options::default() }.resolve().unwrap();
        let grounds = DoubtInputs {
            profile: &profile,
            measured: &Measurement::default(),
            analysis: &analysis,
            copies: &[],
            trends: &[],
            backup: None,
            replication: None,
            database_bytes: 1,
            cache_bytes: 2,
        };
        assert_eq!(doubts(&grounds), None);
    }

    #[test]
    fn a_replication_test_has_doubts_about_duration_and_machine() {
        let (measured, analysis) = good();
        let profile = Options { dirs: vec!["d".into()], ..Options::default() }.resolve().unwrap();
        let steady = ReplicationPart { generations: 200, ..ReplicationPart::default() };
        let replication = ReplicationTestResult {
            steady: Some(steady),
            checkpoint_depth: 100 << 20,
            log_bytes: 1 << 20,
            ..ReplicationTestResult::default()
        };
        let find_doubts = |measured: &Measurement, replication: &ReplicationTestResult| {
            let grounds = DoubtInputs {
                profile: &profile,
                measured,
                analysis: &analysis,
                copies: &[],
                trends: &[],
                backup: None,
                replication: Some(replication),
                database_bytes: 1 << 30,
                cache_bytes: 64 << 20,
            };
            doubts(&grounds).unwrap()
        };
        assert_eq!(find_doubts(&measured, &replication), Vec::<String>::new());
        let mut weak = Measurement { seconds: 29.0, ..measured };
        (weak.host.cpu_percent, weak.host.process_cpu_percent) = (60.0, 25.0);
        let found = find_doubts(&weak, &ReplicationTestResult { steady: None, ..replication });
        let words =
            ["measured time was 29 s", "of log was written in steady state", "other programs used 35 %"];
        assert_eq!(found.len(), words.len(), "{found:?}");
        assert!(found.iter().zip(words).all(|(doubt, words)| doubt.contains(words)), "{found:?}");
    }

    #[test]
    fn each_weakness_is_one_doubt_with_figures() {
        let (measured, analysis) = good();
        let only = |measured: &Measurement, analysis: &RunAnalysis, bytes, words: &str| {
            let found = doubts_for(measured, analysis, bytes);
            assert_eq!(found.len(), 1, "{words}: {found:?}");
            assert!(found[0].contains(words), "{found:?}");
        };
        only(
            &Measurement { seconds: 29.0, ..measured.clone() },
            &analysis,
            1 << 30,
            "measured time was 29 s",
        );
        only(&measured, &analysis, 64 << 20, "the databases (64.00 MiB) fit in the cache");
        only(
            &Measurement { io: Vec::new(), ..measured.clone() },
            &analysis,
            1 << 30,
            "only 0 database reads",
        );
        let mut busy = measured.clone();
        (busy.host.cpu_percent, busy.host.process_cpu_percent) = (60.0, 25.0);
        only(&busy, &analysis, 1 << 30, "other programs used 35 %");
        only(&measured, &RunAnalysis { steady_state: None, ..analysis.clone() }, 1 << 30, "too few samples");
        let mut drifting = analysis.clone();
        drifting.steady_state = Some(SteadyState { spread: 0.3, slope: -0.25, ..SteadyState::default() });
        only(&measured, &drifting, 1 << 30, "varied by 30 % and drifted by -25 %");
        let mut wide = analysis.clone();
        let transactional_iops = ConfidenceInterval { mean: 12_345.0, half_width: 1_234.0 };
        wide.repetitions = Some(Repetitions { transactional_iops, ..Repetitions::default() });
        only(&measured, &wide, 1 << 30, "12,345 ± 1,234");
        let mut machine = analysis.clone();
        machine.limit = Some(LimitAnalysis {
            limiter: LimitingFactor::Cpu,
            reason: String::new(),
            cpu_percent: 99.0,
            commit_share: 0.0,
            database_read_share: 0.0,
            page_fault_stalls: 0,
        });
        only(&measured, &machine, 1 << 30, "the figures describe the machine");
    }
}
