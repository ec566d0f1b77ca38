//! Tests of complete runs on the model engine: phases, files and verdicts.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jetcell_host::Cancellation;

use crate::load::{TableLocation, fill_operation, verify};
use crate::measurement::{CounterSnapshot, LatencySummary};
use crate::model_engine::ModelEngine;
use crate::observer::{Observer, RunPhase};
use crate::profile::{DatabaseSource, Mix, Options, Profile, TestKind};
use crate::result::RunResult;
use crate::run::{FinishedRun, run};
use crate::units::{ByteSize, TimeSpan};
use crate::verdict::Verdict;

/// Observer that records the phases and can stop the run during one of them.
#[derive(Default)]
struct PhaseRecorder {
    phases: Vec<RunPhase>,
    counters: Vec<CounterSnapshot>,
    /// Total size of the current phase.
    total: u64,
    /// Remaining size of the phase at each progress report.
    left: Vec<(RunPhase, u64)>,
    stop_in: Option<(RunPhase, Cancellation)>,
    /// Directory of `result.json`. The file is read during the run, and its content in each phase is recorded.
    results_in: Option<PathBuf>,
    seen: Vec<(RunPhase, RunResult)>,
}

impl Observer for PhaseRecorder {
    fn begin_phase(&mut self, phase: RunPhase, total: u64) {
        self.phases.push(phase);
        self.total = total;
        if let Some((wanted, signal)) = &self.stop_in
            && *wanted == phase
        {
            signal.cancel();
        }
        if let (Some(output), RunPhase::Shutdown | RunPhase::Verify) = (&self.results_in, phase) {
            let read = || {
                let text = std::fs::read_to_string(output.join("result.json")).unwrap();
                serde_json::from_str::<RunResult>(&text).unwrap()
            };
            let complete = |seen: &RunResult| match phase {
                RunPhase::Shutdown => seen.measured_seconds > 0.0,
                _ => seen.phases.iter().any(|time| time.phase == RunPhase::Shutdown),
            };
            let began = Instant::now();
            let mut seen = read();
            while !complete(&seen) {
                assert!(began.elapsed() < Duration::from_secs(10), "{phase:?}: {seen:?}");
                std::thread::sleep(Duration::from_millis(5));
                seen = read();
            }
            self.seen.push((phase, seen));
        }
    }
    fn advance(&mut self, done: u64, _: &str) {
        self.left.extend(self.phases.last().map(|phase| (*phase, self.total.saturating_sub(done))));
    }
    fn log(&mut self, _: &str) {}
    fn report_counters(&mut self, now: &CounterSnapshot) {
        self.counters.push(now.clone());
    }
}

fn profile(dir: &Path, databases: usize) -> Profile {
    let options = Options {
        dirs: vec![dir.to_path_buf()],
        databases: Some(databases),
        size: Some(ByteSize::mib(32).into()),
        cache: Some(ByteSize::mib(8)),
        duration: Some(TimeSpan(Duration::from_millis(500))),
        sample_interval: Some(TimeSpan(Duration::from_millis(100))),
        output: Some(dir.join("out")),
        threads: Some(3),
        ..Options::default()
    };
    options.resolve().unwrap()
}

/// Creates a temporary directory next to the test binary. The system's temporary directory may be a tmpfs, and a
/// killed test must not leave files in the source tree.
pub(crate) fn scratch() -> tempfile::TempDir {
    let build = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    tempfile::tempdir_in(build).unwrap()
}

fn complete(profile: &Profile, engine: &ModelEngine) -> (FinishedRun, Vec<RunPhase>) {
    let mut watcher = PhaseRecorder::default();
    let finished = run(profile, engine, &mut watcher, &Cancellation::default()).unwrap();
    (finished, watcher.phases)
}

#[test]
fn a_run_executes_all_phases_and_passes() {
    let dir = scratch();
    let engine = ModelEngine::default();
    let (finished, phases) = complete(&profile(dir.path(), 2), &engine);
    use RunPhase::*;
    assert_eq!(phases, [Create, Attach, Warm, Measure, Shutdown, Verify]);
    let result = &finished.result;
    assert_eq!(result.verdict, Verdict::Pass, "{}", result.reason);
    let named: Vec<&str> = result.instances.iter().map(|row| row.instance.as_str()).collect();
    assert_eq!(named, ["Jetstress001001", "Jetstress002001"]);
    assert!(result.instances.iter().all(|row| row.database.ends_with(format!("{}.edb", row.instance))));
    assert!((4..=5).contains(&finished.samples.len()), "{}", finished.samples.len());
    assert!(result.operations.batches.iter().all(|batches| *batches > 0));
    assert!(result.latency["database_read"].count > 0);

    // Achieved IOPS is the sum of transactional reads and writes over all instances.
    let sum: f64 =
        result.instances.iter().map(|i| i.database_reads_per_second + i.database_writes_per_second).sum();
    assert_eq!(result.achieved_transactional_iops, sum);
    assert_eq!(result.instances[0].database_reads_average_bytes, 32768.0);
    assert_eq!(result.instances[0].database_reads_average_latency_ms, 1.0);

    let csv = std::fs::read_to_string(dir.path().join("out/samples.csv")).unwrap();
    assert_eq!(csv.lines().count(), 1 + 2 * finished.samples.len());
    let path = dir.path().join("result.json");
    result.write(&path).unwrap();
    let read: RunResult = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(read.verdict, result.verdict);
    let json: serde_json::Value =
        serde_json::from_str(&jetcell_input::json_pretty(&result).unwrap()).unwrap();
    for key in
        "schema_version verdict rules achieved_transactional_iops instances latency configuration machine"
            .split(' ')
    {
        assert!(!json[key].is_null(), "{key}");
    }
    assert!(json["instances"][0]["I/O Database Reads/sec"].is_number());
    assert_eq!(json["rules"][0]["passed"], true);
}

#[test]
fn a_recovery_test_replays_the_logs_that_the_load_generated() {
    let dir = scratch();
    let options = Options { logs: Some(3), ..profile(dir.path(), 2).to_options() };
    let profile = options.resolve_for(TestKind::Recovery).unwrap();
    let (finished, phases) = complete(&profile, &ModelEngine::default());
    use RunPhase::*;
    assert_eq!(phases, [Create, Keep, Attach, Warm, Generate, Shutdown, Replay, Verify]);
    let result = &finished.result;
    assert_eq!((result.verdict, result.test), (Verdict::Pass, TestKind::Recovery), "{}", result.reason);
    let recovery = result.recovery.as_ref().unwrap();
    assert!(
        recovery.complete && recovery.databases.iter().all(|database| database.logs >= 3),
        "{recovery:?}"
    );
    assert!(recovery.seconds_per_log() > 0.0 && recovery.records_per_second() > 0.0);
    assert_eq!(recovery.samples.last().unwrap().logs.len(), 2);
    assert!(result.rules.iter().all(|rule| !rule.name.contains("latency")), "{:?}", result.rules);
    let read: RunResult = serde_json::from_str(&jetcell_input::json_pretty(&result).unwrap()).unwrap();
    assert_eq!(read.recovery.unwrap().fewest_logs().unwrap().logs, recovery.fewest_logs().unwrap().logs);

    // If the test is stopped during the replay, the number of logs is not judged.
    let signal = Cancellation::default();
    let mut watcher = PhaseRecorder { stop_in: Some((Replay, signal.clone())), ..PhaseRecorder::default() };
    let profile =
        Profile { output: Some(dir.path().join("stopped")), source: DatabaseSource::Replace, ..profile };
    let stopped = run(&profile, &ModelEngine::default(), &mut watcher, &signal).unwrap().result;
    assert_eq!(stopped.verdict, Verdict::Incomplete);
    assert_eq!(stopped.reason, "stopped on request before all logs were replayed");
}

#[test]
fn a_backup_test_reads_everything_once_or_twice_under_load() {
    let dir = scratch();
    let options = profile(dir.path(), 2).to_options();
    let alone = options.clone().resolve_for(TestKind::Backup).unwrap();
    let (finished, phases) = complete(&alone, &ModelEngine::default());
    use RunPhase::*;
    assert_eq!(phases, [Create, Attach, Backup, Shutdown]);
    let result = &finished.result;
    assert_eq!(result.verdict, Verdict::Pass, "{}", result.reason);
    let backup = result.backup.as_ref().unwrap();
    assert!(
        backup.complete && backup.databases.iter().all(|database| database.counters.pages == 100),
        "{backup:?}"
    );
    assert!(backup.rate() > 0.0 && backup.cost.is_none());

    let output = Some(dir.path().join("beside"));
    let options = Options { under_load: Some(true), force: Some(true), output, ..options };
    let beside = options.resolve_for(TestKind::Backup).unwrap();
    let (finished, phases) = complete(&beside, &ModelEngine::default());
    assert_eq!(phases, [Create, Attach, Backup, Warm, Measure, Backup, Shutdown, Verify]);
    let result = &finished.result;
    assert_eq!(result.verdict, Verdict::Pass, "{}", result.reason);
    let cost = result.backup.as_ref().unwrap().cost.as_ref().unwrap();
    assert!(cost.load_alone.transactional_iops > 0.0 && cost.load_together.transactional_iops > 0.0);
    assert!((0.4..0.8).contains(&cost.load_alone.seconds), "{cost:?}");
    let at: Vec<f64> = finished.samples.iter().map(|sample| sample.at_seconds).collect();
    assert!(at.windows(2).all(|pair| pair[0] < pair[1]), "{at:?}");
}

#[test]
fn interim_results_are_stored_during_the_run() {
    let dir = scratch();
    let profile = profile(dir.path(), 2);
    let mut watcher = PhaseRecorder { results_in: Some(dir.path().join("out")), ..PhaseRecorder::default() };
    let finished = run(&profile, &ModelEngine::default(), &mut watcher, &Cancellation::default()).unwrap();
    let [(RunPhase::Shutdown, early), (RunPhase::Verify, late)] = &watcher.seen[..] else {
        panic!("{:?}", watcher.seen)
    };
    for seen in [early, late] {
        assert_eq!((seen.verdict, seen.rules.len()), (Verdict::Incomplete, 0));
        assert!(seen.reason.starts_with("the run has not ended"), "{}", seen.reason);
        assert!(seen.achieved_transactional_iops > 0.0 && seen.operations.batches.iter().any(|one| *one > 0));
        assert!(seen.initial_database_bytes > 0 && !seen.log.is_empty());
        let percentiles = &seen.latency["database_read"];
        assert!(percentiles.count > 0);
        let same = |kind: &str, figures: LatencySummary| {
            let of = seen.histograms[kind].summary();
            assert!((of.mean / figures.mean - 1.0).abs() < 1e-9, "{of:?} {figures:?}");
            assert_eq!(of, LatencySummary { mean: of.mean, ..figures }, "{kind}");
        };
        same("database_read", *percentiles);
        same("insert", seen.operation_latency["insert"]);
    }
    // The first interim result follows the first sample. The second covers the whole measurement.
    assert!(early.measured_seconds < 0.4, "{}", early.measured_seconds);
    let result = &finished.result;
    assert_eq!(late.measured_seconds, result.measured_seconds);
    assert_eq!((&late.histograms, &late.scan), (&result.histograms, &result.scan));
    // The run no longer writes the file, so it must not overwrite the caller's content.
    let path = dir.path().join("out/result.json");
    result.write(&path).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), jetcell_input::json_pretty(&result).unwrap());
}

#[test]
fn every_record_verifies_after_a_run() {
    let dir = scratch();
    let engine = ModelEngine::default();
    let profile = profile(dir.path(), 1);
    let (finished, _) = complete(&profile, &engine);
    let mut records = 0;
    for table in 0..profile.records.tables {
        for row in engine.rows(&finished.result.plan.instances[0].database, table as usize) {
            verify(TableLocation { database: 0, table }, &row).unwrap();
            records += 1;
        }
    }
    assert!(records > 10_000, "{records}");
}

#[test]
fn damaged_records_fail_the_run() {
    let dir = scratch();
    let engine = ModelEngine::default();
    let first = profile(dir.path(), 1);
    let (finished, _) = complete(&first, &engine);
    let database = &finished.result.plan.instances[0].database;
    engine.damage(database);
    std::fs::write(database, vec![0; 65536]).unwrap();
    let again = Profile { source: DatabaseSource::Open, output: Some(dir.path().join("out2")), ..first };
    let (finished, phases) = complete(&again, &engine);
    assert_eq!(phases[..2], [RunPhase::Examine, RunPhase::Attach]);
    assert_eq!(finished.result.verdict, Verdict::Fail);
    assert!(finished.result.reason.contains("wrong content"), "{}", finished.result.reason);
    assert!(!finished.result.operations.wrong.is_empty());
}

#[test]
fn a_bad_page_fails_the_run() {
    let dir = scratch();
    let engine = ModelEngine { bad_page: true, ..ModelEngine::default() };
    // The duration is long enough for the error to occur before the end even on a slow machine.
    let patient = Profile { duration: TimeSpan(Duration::from_secs(20)), ..profile(dir.path(), 1) };
    let (finished, _) = complete(&patient, &engine);
    assert_eq!(finished.result.verdict, Verdict::Fail);
}

#[test]
fn a_bad_page_in_the_scan_fails_the_run() {
    let dir = scratch();
    let engine = ModelEngine { scan_finds: true, ..ModelEngine::default() };
    let (finished, _) = complete(&profile(dir.path(), 2), &engine);
    let result = &finished.result;
    assert_eq!((result.verdict, result.scan.len()), (Verdict::Fail, 2));
    assert!(result.reason.starts_with("Bad pages seen by the checksum scan: 2 "), "{}", result.reason);

    let dir = scratch();
    let without = Profile { scan: false, ..profile(dir.path(), 1) };
    let (finished, _) = complete(&without, &engine);
    assert_eq!((finished.result.verdict, finished.result.scan.len()), (Verdict::Pass, 0));
}

#[test]
fn existing_databases_with_a_bad_page_are_refused_and_not_changed() {
    let dir = scratch();
    let first = profile(dir.path(), 1);
    let (finished, _) = complete(&first, &ModelEngine::default());
    let database = &finished.result.plan.instances[0].database;
    std::fs::write(database, vec![0; 65536]).unwrap();
    let output = dir.path().join("out2");
    let again = Profile { source: DatabaseSource::Open, output: Some(output.clone()), ..first };
    let engine = ModelEngine { bad_page: true, ..ModelEngine::default() };
    let error = run(&again, &engine, &mut PhaseRecorder::default(), &Cancellation::default()).unwrap_err();
    let text = jetcell_input::with_advice(&error, error.advice());
    assert!(text.contains("page 7: bad checksum") && text.contains("--force"), "{text}");
    assert!(!text.contains('\n') && !output.exists());
}

#[test]
fn a_failed_disk_fails_the_run_but_produces_a_report() {
    let dir = scratch();
    let engine = ModelEngine { fail_after: Some(16_000), ..ModelEngine::default() };
    // The duration is long enough for the error to occur before the end even on a slow machine.
    let patient = Profile { duration: TimeSpan(Duration::from_secs(20)), ..profile(dir.path(), 1) };
    let (finished, _) = complete(&patient, &engine);
    assert_eq!(finished.result.verdict, Verdict::Fail);
    assert!(finished.result.reason.contains("write failed"), "{}", finished.result.reason);
    assert!(finished.result.verification.is_none());
}

#[test]
fn a_disk_that_fails_during_the_creation_ends_the_run_with_an_error() {
    let dir = scratch();
    let engine = ModelEngine { fail_after: Some(100), ..ModelEngine::default() };
    let error =
        run(&profile(dir.path(), 1), &engine, &mut PhaseRecorder::default(), &Cancellation::default())
            .unwrap_err();
    assert!(error.to_string().starts_with("creating databases: model: write failed"), "{error}");
    // The stored result contains the reason, and the creation can be resumed.
    let text = std::fs::read_to_string(dir.path().join("out/result.json")).unwrap();
    let left: RunResult = serde_json::from_str(&text).unwrap();
    assert_eq!(left.verdict, Verdict::Incomplete);
    assert!(
        left.reason.starts_with("could not run: creating databases: model: write failed"),
        "{}",
        left.reason
    );
    assert!(left.rules.is_empty() && !left.log.is_empty());
    assert!(dir.path().join(crate::plan::CREATION_FILE).exists());
}

#[test]
fn resumed_and_uninterrupted_creations_have_the_same_records() {
    let dir = scratch();
    let engine = ModelEngine::default();
    // The mix contains only reads, because a load that changes records would do so in an order that depends on
    // timing.
    let mix = Mix { insert: 0, delete: 0, replace: 0, read: 100 };
    let first = Profile { mix, ..profile(dir.path(), 2) };
    let stop = Cancellation::default();
    let mut watcher =
        PhaseRecorder { stop_in: Some((RunPhase::Create, stop.clone())), ..PhaseRecorder::default() };
    let stopped = run(&first, &engine, &mut watcher, &stop).unwrap().result;
    assert!(stopped.reason.ends_with("continue with --resume"), "{}", stopped.reason);
    for source in [DatabaseSource::New, DatabaseSource::Open] {
        let error = run(
            &Profile { source, ..first.clone() },
            &engine,
            &mut PhaseRecorder::default(),
            &Cancellation::default(),
        );
        assert!(error.unwrap_err().advice().unwrap().contains("continue it with --resume"), "{source:?}");
    }
    let stop = Cancellation::default();
    let mut watcher =
        PhaseRecorder { stop_in: Some((RunPhase::Attach, stop.clone())), ..PhaseRecorder::default() };
    run(&Profile { source: DatabaseSource::Resume, ..first.clone() }, &engine, &mut watcher, &stop).unwrap();
    assert_eq!(watcher.phases[..2], [RunPhase::Create, RunPhase::Attach]);
    assert!(!dir.path().join(crate::plan::CREATION_FILE).exists());
    let mut records = 0;
    for (number, instance) in stopped.plan.instances.iter().enumerate() {
        for table in 0..first.records.tables {
            let place = TableLocation { database: number as u32, table };
            for (row, id) in engine.rows(&instance.database, table as usize).iter().zip(1..) {
                let expected =
                    crate::load::row(&first.records, place, id, &fill_operation(&first, place, id));
                assert_eq!((row.id, row), (id, &expected));
                records += 1;
            }
        }
    }
    assert!(records >= 2 * ((32 << 20) / 2300), "{records}");
}

#[test]
fn a_stop_request_in_any_phase_gives_a_result() {
    for phase in [RunPhase::Create, RunPhase::Warm, RunPhase::Measure, RunPhase::Verify] {
        let dir = scratch();
        let stop = Cancellation::default();
        let mut watcher = PhaseRecorder { stop_in: Some((phase, stop.clone())), ..PhaseRecorder::default() };
        let finished = run(&profile(dir.path(), 1), &ModelEngine::default(), &mut watcher, &stop).unwrap();
        assert_eq!(finished.result.verdict, Verdict::Incomplete, "{phase:?}: {}", finished.result.reason);
        assert!(finished.result.reason.starts_with("stopped on request"), "{}", finished.result.reason);
    }
}

#[test]
fn the_observer_gets_counters_while_databases_are_open() {
    let dir = scratch();
    let mut watcher = PhaseRecorder::default();
    run(&profile(dir.path(), 2), &ModelEngine::default(), &mut watcher, &Cancellation::default()).unwrap();
    // There is at least one report in each of the create, warm and measure phases.
    assert!(watcher.counters.len() >= 3, "{}", watcher.counters.len());
    assert!(watcher.counters.iter().all(|now| now.io.len() == 2));
    let reads = |now: &CounterSnapshot| now.io.iter().map(|io| io.database_read.operations).sum::<u64>();
    assert!(watcher.counters.iter().any(|now| reads(now) > 0));
}

/// Verifies that each task has as many turns as the load without maintenance, and that no other figure mixes turns
/// with and without maintenance.
#[test]
fn turns_with_and_without_maintenance_are_compared() {
    let dir = scratch();
    let duration = TimeSpan(Duration::from_millis(200));
    let turns = Profile { repeat: 3, duration, ..profile(dir.path(), 1) };
    let profile =
        Profile { scan: true, zero: true, defrag: false, layout: true, maintenance_impact: true, ..turns };
    let (finished, _) = complete(&profile, &ModelEngine::default());
    let result = &finished.result;
    let measured: Vec<(String, usize)> =
        result.analysis.maintenance_impact.iter().map(|task| (task.tasks.to_string(), task.turns)).collect();
    let expected = ["none", "scan", "scan,zero", "layout"].map(|tasks| (tasks.to_string(), 3));
    assert_eq!(measured, expected);
    assert_eq!(result.analysis.repetitions, None);
    assert!(result.measured_seconds >= 12.0 * 0.2, "{}", result.measured_seconds);
    assert!(result.analysis.maintenance_impact.iter().all(|task| task.transactional_iops.mean > 0.0));
    assert_eq!(result.scan.len(), 1);
}

#[test]
fn repetitions_add_up_to_the_measured_time() {
    let dir = scratch();
    let profile = Profile { repeat: 3, ..profile(dir.path(), 2) };
    let (finished, phases) = complete(&profile, &ModelEngine::default());
    assert_eq!(phases.iter().filter(|phase| **phase == RunPhase::Warm).count(), 1);
    let result = &finished.result;
    let repetitions = result.analysis.repetitions.as_ref().unwrap();
    assert_eq!(repetitions.each.len(), 3);
    let sum =
        |value: fn(&crate::measurement::Repetition) -> f64| repetitions.each.iter().map(value).sum::<f64>();
    assert!((sum(|one| one.seconds) - result.measured_seconds).abs() < 1e-6);
    assert!(result.measured_seconds >= 1.5);
    let iops = sum(|one| one.transactional_iops * one.seconds) / result.measured_seconds;
    assert!((iops / result.achieved_transactional_iops - 1.0).abs() < 1e-6, "{iops}");
    assert!(repetitions.each.iter().all(|one| one.operations_per_second > 0.0 && one.seconds > 0.4));
    let reads: u64 = repetitions.each.iter().map(|one| one.database_reads.count).sum();
    assert_eq!(reads, result.latency["database_read"].count);
    assert!(repetitions.latencies("database_read").is_some());
}

/// Verifies that a run stops once its load is steady. A fixed rate keeps the I/O per second constant. Without it,
/// activity of other programs would determine when the load is steady.
#[test]
fn a_run_can_end_when_the_load_is_steady() {
    let dir = scratch();
    let profile = Profile {
        stop_when_steady: true,
        rate: Some(3000.0),
        duration: TimeSpan(Duration::from_secs(120)),
        ..profile(dir.path(), 1)
    };
    let (finished, phases) = complete(&profile, &ModelEngine::default());
    let result = &finished.result;
    assert!(result.measured_seconds < 119.0, "{}", result.measured_seconds);
    assert_ne!(result.verdict, Verdict::Incomplete, "{}", result.reason);
    assert!(result.analysis.steady_state.as_ref().unwrap().is_precise());
    assert_eq!(phases.last(), Some(&RunPhase::Verify));
}

#[test]
fn a_search_measures_the_found_rate() {
    let dir = scratch();
    let profile = Profile { find_max: true, ..profile(dir.path(), 2) };
    let mut watcher = PhaseRecorder::default();
    let finished = run(&profile, &ModelEngine::default(), &mut watcher, &Cancellation::default()).unwrap();
    assert_eq!(watcher.phases[3..5], [RunPhase::Search, RunPhase::Measure]);
    // The remaining time is reported from the start and decreases to a small value.
    let left: Vec<u64> =
        watcher.left.iter().filter(|(phase, _)| *phase == RunPhase::Search).map(|(_, left)| *left).collect();
    assert!(left[0] > 3_000 && left.iter().min() < Some(&300), "{left:?}");
    let result = &finished.result;
    let saturation = result.analysis.saturation.as_ref().unwrap();
    let sustained = saturation.sustained_rate.unwrap();
    assert_eq!(result.verdict, Verdict::Pass, "{}", result.reason);
    assert!(saturation.first_failed_rate.is_none_or(|failed| failed > sustained), "{saturation:?}");
    let last = saturation.steps.last().unwrap();
    assert!(last.confirming && last.broken.is_none() && last.rate == sustained);
    assert_eq!(result.analysis.repetitions.as_ref().unwrap().each.len(), 3);
    assert_eq!(result.analysis.open_loop.unwrap().target_rate, sustained);
    let done = result.operations.per_second / sustained;
    assert!((done - 1.0).abs() < 0.1, "{done}");
    assert!(result.configuration.find_max && result.configuration.rate.is_none());
    let json: RunResult = serde_json::from_str(&jetcell_input::json_pretty(&result).unwrap()).unwrap();
    let read = json.analysis.saturation.unwrap();
    assert_eq!((read.sustained_rate, read.steps.len()), (Some(sustained), saturation.steps.len()));
}

#[test]
fn a_search_that_finds_no_rate_fails_the_run() {
    let dir = scratch();
    let mut profile = Profile { find_max: true, ..profile(dir.path(), 1) };
    // The model's reads take 1 ms.
    profile.thresholds.average_database_read_ms = 0.5;
    let (finished, _) = complete(&profile, &ModelEngine::default());
    let result = &finished.result;
    assert_eq!(result.verdict, Verdict::Fail);
    assert!(result.reason.starts_with("Highest sustained rate"), "{}", result.reason);
    assert!(result.reason.contains("database read latency"), "{}", result.reason);
    let saturation = result.analysis.saturation.as_ref().unwrap();
    assert!(saturation.ended && saturation.sustained_rate.is_none());
    assert!(saturation.steps.iter().all(|step| step.broken.is_some()));
    assert_eq!(result.measured_seconds, 0.0);
}

#[test]
fn a_stopped_search_reports_the_steps() {
    let dir = scratch();
    let stop = Cancellation::default();
    let mut watcher =
        PhaseRecorder { stop_in: Some((RunPhase::Measure, stop.clone())), ..PhaseRecorder::default() };
    let profile = Profile { find_max: true, ..profile(dir.path(), 1) };
    let result = run(&profile, &ModelEngine::default(), &mut watcher, &stop).unwrap().result;
    assert_eq!(result.verdict, Verdict::Incomplete);
    let saturation = result.analysis.saturation.unwrap();
    assert!(!saturation.ended && saturation.sustained_rate.is_none() && !saturation.steps.is_empty());
}

#[test]
fn the_advice_about_an_interrupted_stress_test_names_its_file() {
    let duration = TimeSpan(Duration::from_secs(60));
    let error = crate::StartError::InterruptedStressTest { dir: "d".into(), seconds: 1.0, duration };
    assert!(error.advice().unwrap().contains(crate::endurance::STATE_FILE_NAME));
}
