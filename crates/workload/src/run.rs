//! A whole run, phase by phase: create, attach, warm, measure, shut down, verify, judge.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Instant;

use chrono::{DateTime, Local, SecondsFormat};
use ese_engine::Error;

use crate::arithmetic::achieved_iops;
use crate::creation::Creation;
use crate::drive::{Drive, Measured};
use crate::engine::{Depth, Engine, InstanceIo, Opening, Store};
use crate::fill::fill;
use crate::generator::OperationKind;
use crate::interim::Interim;
use crate::limit::Limit;
use crate::machine::{Machine, peak_resident_bytes};
use crate::measure::{IoTotals, Latencies, LatencyTable};
use crate::plan::{Plan, Refusal};
use crate::profile::{Profile, Source};
use crate::repeat::Repetitions;
use crate::result::{
    Analysis, InstanceRow, Operations, PhaseTime, RunResult, SCHEMA_VERSION, Verdict, Verification,
};
use crate::sampler::{Sample, SampleFile, Snapshot};
use crate::saturation::Saturation;
use crate::scan::ScanSummary;
use crate::steady::SteadyState;
use crate::verdict::{Evidence, Judgement, judge};
use crate::watch::{Observer, Phase, StopSignal};

/// Why there is no result.
#[derive(Debug, Clone)]
pub enum CouldNotRun {
    /// The plan was refused; nothing on disk has changed.
    Refused(Refusal),
    /// It began and could not go on.
    Failed {
        /// In which phase.
        phase: Phase,
        /// Why.
        error: String,
    },
}

impl fmt::Display for CouldNotRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CouldNotRun::Refused(refusal) => refusal.fmt(f),
            CouldNotRun::Failed { phase, error } => write!(f, "{}: {error}", phase.title().to_lowercase()),
        }
    }
}

impl std::error::Error for CouldNotRun {}

impl From<Refusal> for CouldNotRun {
    fn from(refusal: Refusal) -> CouldNotRun {
        CouldNotRun::Refused(refusal)
    }
}

/// A finished run: its result and the samples behind it.
#[derive(Debug, Clone)]
pub struct Finished {
    /// What `result.json` holds.
    pub result: RunResult,
    /// What `samples.csv` holds.
    pub samples: Vec<Sample>,
}

/// Passes everything on and keeps the log and the times.
struct Recorder<'a> {
    observer: &'a mut dyn Observer,
    history: History,
    began: Instant,
    /// What rewrites `result.json`, once there is a place for it, and what it needs.
    interim: Option<Interim>,
    subject: Option<Subject>,
}

/// What has happened.
#[derive(Clone, Default)]
struct History {
    log: Vec<String>,
    phases: Vec<PhaseTime>,
}

/// What the run is about.
#[derive(Clone)]
struct Subject {
    profile: Profile,
    plan: Plan,
    started: DateTime<Local>,
    /// Bytes in all databases before the load.
    initial_bytes: u64,
}

impl Observer for Recorder<'_> {
    fn begin(&mut self, phase: Phase, total: u64) {
        self.close_phase();
        self.began = Instant::now();
        self.history.phases.push(PhaseTime { phase, seconds: 0.0 });
        self.log(phase.title());
        self.observer.begin(phase, total);
    }
    fn advance(&mut self, done: u64, note: &str) {
        self.observer.advance(done, note);
    }
    fn log(&mut self, line: &str) {
        self.history.log.push(format!("{} -- {line}", Local::now().format("%Y-%m-%d %H:%M:%S")));
        self.observer.log(line);
    }
    fn counters(&mut self, now: &Snapshot) {
        self.observer.counters(now);
    }
    fn wants_measured(&self) -> bool {
        self.interim.as_ref().is_some_and(Interim::is_due)
    }
    fn measured(&mut self, so_far: Measured) {
        self.publish(Loaded { measured: so_far, ..Loaded::default() });
    }
}

impl Recorder<'_> {
    fn close_phase(&mut self) {
        if let Some(last) = self.history.phases.last_mut() {
            last.seconds = self.began.elapsed().as_secs_f64();
        }
    }

    /// Stores what is known, without the verdict that is not known yet.
    fn publish(&mut self, loaded: Loaded) {
        self.close_phase();
        let (Some(interim), Some(subject)) = (&mut self.interim, &self.subject) else { return };
        let (subject, history) = (subject.clone(), self.history.clone());
        let loaded = Loaded { initial_bytes: subject.initial_bytes, ..loaded };
        interim.put(Box::new(move || {
            let Subject { profile, plan, started, .. } = &subject;
            not_ended(assemble(profile, plan, started, &history, &loaded, None, None))
        }));
    }

    fn failed(&self, error: impl fmt::Display) -> CouldNotRun {
        let phase = self.history.phases.last().map_or(Phase::Create, |last| last.phase);
        CouldNotRun::Failed { phase, error: error.to_string() }
    }
}

/// Runs a test. A stop request ends it early and cleanly, with an incomplete result.
pub fn run(
    profile: &Profile,
    engine: &dyn Engine,
    observer: &mut dyn Observer,
    stop: &StopSignal,
) -> Result<Finished, CouldNotRun> {
    let started = Local::now();
    let plan = Plan::make(profile, engine, &started.format("%Y-%m-%d_%H-%M-%S").to_string())?;
    let mut watch = Recorder {
        observer,
        history: History::default(),
        began: Instant::now(),
        interim: None,
        subject: None,
    };
    let watch = &mut watch;
    if profile.source == Source::Open {
        examine(engine, &plan, watch, stop)?;
    }
    plan.prepare(profile)?;
    let mut samples = SampleFile::create(&plan.output.join("samples.csv"))
        .map_err(|error| Refusal(format!("{}: cannot be written: {error}", plan.output.display())))?;

    let path = plan.output.join("result.json");
    let mut unfinished =
        not_ended(assemble(profile, &plan, &started, &watch.history, &Loaded::default(), None, None));
    let interim = unfinished.write(&path).and_then(|()| Interim::start(path.clone()));
    let unwritable = |error| Refusal(format!("{}: cannot be written: {error}", plan.output.display()));
    watch.interim = Some(interim.map_err(unwritable)?);
    let initial_bytes = plan.initial_bytes();
    watch.subject = Some(Subject { profile: profile.clone(), plan: plan.clone(), started, initial_bytes });

    let worked = work(profile, engine, &plan, watch, stop, &mut samples);
    watch.close_phase();
    // From here on only one writes the file.
    if let Some(Err(error)) = watch.interim.take().map(Interim::end) {
        watch.log(&format!("result.json could not be rewritten during the run: {error}"));
    }
    let (loaded, verification) = worked.inspect_err(|error| {
        // What is stored must not look like a run that goes on. When this fails too, it says that it may have failed.
        unfinished.reason = format!("could not run: {error}");
        (unfinished.ended, unfinished.phases) = (rfc3339(&Local::now()), watch.history.phases.clone());
        unfinished.log.clone_from(&watch.history.log);
        let _ = unfinished.write(&path);
    })?;

    let cut_short = cut_short(stop, &loaded, watch);
    let result = assemble(profile, &plan, &started, &watch.history, &loaded, verification, cut_short);
    Ok(Finished { result, samples: loaded.measured.samples })
}

/// Everything that changes databases.
fn work(
    profile: &Profile,
    engine: &dyn Engine,
    plan: &Plan,
    watch: &mut Recorder<'_>,
    stop: &StopSignal,
    samples: &mut SampleFile,
) -> Result<(Loaded, Option<Verification>), CouldNotRun> {
    if profile.source != Source::Open {
        create(profile, engine, plan, watch, stop)?;
    }
    let mut loaded = Loaded { initial_bytes: plan.initial_bytes(), ..Loaded::default() };
    if !stop.is_set() {
        loaded = load(profile, engine, plan, watch, stop, samples)?;
    }
    let verification = if loaded.failure.is_none() { verify(engine, plan, watch, stop) } else { None };
    Ok((loaded, verification))
}

/// What a run that is killed leaves: figures so far, none of them judged.
fn not_ended(result: RunResult) -> RunResult {
    RunResult {
        verdict: Verdict::Incomplete,
        reason: "the run has not ended: it still goes on, was killed or failed".into(),
        rules: Vec::new(),
        ..result
    }
}

fn rfc3339(time: &DateTime<Local>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Secs, false)
}

/// Judges and puts everything together.
fn assemble(
    profile: &Profile,
    plan: &Plan,
    started: &DateTime<Local>,
    history: &History,
    loaded: &Loaded,
    verification: Option<Verification>,
    cut_short: Option<&str>,
) -> RunResult {
    let measured = &loaded.measured;
    let (latencies, operation_latencies) = (io_latencies(&measured.io), operation_latencies(measured));
    let instances: Vec<InstanceRow> =
        (0..plan.instances.len()).map(|i| instance_row(plan, measured, i)).collect();
    let iops = achieved_iops(&instances);
    let evidence = Evidence {
        scan: &loaded.scan,
        io_errors: loaded.io_errors.max(u64::from(loaded.failure.as_ref().is_some_and(is_device_failure))),
        failure: loaded.failure.as_ref().map(Error::to_string),
        verification: verification.as_ref(),
        cut_short,
    };
    let mut judgement = judge(profile, &instances, iops, measured, &evidence);
    if let (Some(error), None) = (&loaded.failure, judgement.rules.iter().find(|rule| !rule.passed)) {
        judgement.reason = format!("the load ended with an error: {error}");
    }
    let Judgement { verdict, reason, rules } = judgement;
    let directories = profile.dirs.iter().chain(&profile.log_dirs).map(|dir| dir.as_path());
    RunResult {
        schema_version: SCHEMA_VERSION,
        jetcell_version: env!("CARGO_PKG_VERSION").into(),
        verdict,
        reason,
        rules,
        achieved_transactional_iops: iops,
        started: rfc3339(started),
        ended: rfc3339(&Local::now()),
        measured_seconds: measured.seconds,
        phases: history.phases.clone(),
        initial_database_bytes: loaded.initial_bytes,
        final_database_bytes: plan
            .instances
            .iter()
            .filter_map(|i| Some(i.database.metadata().ok()?.len()))
            .sum(),
        database_files: plan.instances.len(),
        latency: summaries(&latencies),
        operation_latency: summaries(&operation_latencies),
        histograms: latencies
            .into_iter()
            .chain(operation_latencies)
            .filter(|(_, all)| !all.is_empty())
            .collect(),
        operations: operations(measured),
        analysis: analysis(measured, profile.threads),
        cache_used_bytes: measured.cache.used_bytes,
        page_fault_stalls: measured.cache.stalls,
        peak_resident_bytes: peak_resident_bytes(),
        io_errors: evidence.io_errors,
        instances,
        scan: loaded.scan.clone(),
        verification,
        log: history.log.clone(),
        configuration: profile.clone(),
        machine: Machine::examine(directories),
        plan: plan.clone(),
    }
}

/// What attaching, driving and shutting down gave.
#[derive(Clone, Default)]
struct Loaded {
    measured: Measured,
    initial_bytes: u64,
    io_errors: u64,
    scan: Vec<ScanSummary>,
    failure: Option<Error>,
}

/// A test of storage that starts on damaged databases proves nothing, and running on them makes it worse.
fn examine(
    engine: &dyn Engine,
    plan: &Plan,
    watch: &mut Recorder<'_>,
    stop: &StopSignal,
) -> Result<(), Refusal> {
    let verification = read_again(engine, plan, Depth::Pages, Phase::Examine, watch, stop);
    let Some(verification) = verification else {
        return Err(Refusal(
            "stopped on request before the databases were examined; nothing was changed".into(),
        ));
    };
    let Some(damaged) = verification.files.iter().find(|file| file.bad > 0) else { return Ok(()) };
    let shown = damaged.path.display().to_string();
    let first = damaged.findings.first().map_or(shown.as_str(), |line| line.trim_start_matches("error: "));
    Err(Refusal(format!(
        "{first}; damaged pages in all: {}: restore the database, or replace it with --force",
        damaged.bad
    )))
}

fn create(
    profile: &Profile,
    engine: &dyn Engine,
    plan: &Plan,
    watch: &mut Recorder<'_>,
    stop: &StopSignal,
) -> Result<(), CouldNotRun> {
    let store = engine.open(plan, Opening::Create).map_err(|error| watch.failed(error))?;
    let filled = fill(&*store, plan, profile, stop, watch);
    let closed = store.shutdown();
    filled.and(closed).map_err(|error| watch.failed(error))?;
    match stop.is_set() {
        true => Ok(()),
        false => Creation::end(&profile.dirs[0]).map_err(|error| watch.failed(error)),
    }
}

fn load(
    profile: &Profile,
    engine: &dyn Engine,
    plan: &Plan,
    watch: &mut Recorder<'_>,
    stop: &StopSignal,
    samples: &mut SampleFile,
) -> Result<Loaded, CouldNotRun> {
    watch.begin(Phase::Attach, 1);
    let store = engine.open(plan, Opening::Attach).map_err(|error| watch.failed(error))?;
    let initial_bytes = database_bytes(&*store, plan);
    if let Some(subject) = &mut watch.subject {
        subject.initial_bytes = initial_bytes;
    }
    announce(profile, plan, watch);
    if profile.scan {
        store.start_scan(profile.scan_pause.0);
    }
    let driven = Drive { store: &*store, plan, profile, stop }.run(samples, watch);
    let io_errors = store.io().iter().map(|io| io.errors).sum();
    watch.begin(Phase::Shutdown, 1);
    let scan = store.end_scan();
    let closed = store.shutdown();
    let measured = driven.map_err(|error| watch.failed(error))?;
    for (instance, batches) in plan.instances.iter().zip(&measured.tally.batches) {
        watch.log(&format!("{}: {batches} batches", instance.database.display()));
    }
    explain(&analysis(&measured, profile.threads), watch);
    for scanned in &scan {
        let ScanSummary { pages, passes, bad, .. } = scanned;
        let database = scanned.database.display();
        watch.log(&format!("{database}: {pages} pages scanned, {passes} whole passes, {bad} bad"));
    }
    let failure = measured.failure.clone().or(closed.err());
    if let Some(error) = &failure {
        watch.log(&format!("The load ended with an error: {error}"));
    }
    let loaded = Loaded { measured, initial_bytes, io_errors, scan, failure };
    // The verification may take longer than the load.
    watch.publish(loaded.clone());
    Ok(loaded)
}

/// What the figures mean, for the test log.
fn explain(analysis: &Analysis, watch: &mut Recorder<'_>) {
    match &analysis.steady_state {
        Some(state) => watch.log(&format!(
            "Steady state: {} (spread {:.1} %, slope {:+.1} % of the mean IOPS of 5 windows)",
            if state.steady { "reached" } else { "not reached" },
            state.spread * 100.0,
            state.slope * 100.0
        )),
        None => watch.log("Steady state: unknown, there are fewer than 5 samples"),
    }
    if let Some(limit) = &analysis.limit {
        watch.log(&format!("Limited by {}: {}", limit.limiter.title(), limit.reason));
    }
    if let Some(repetitions) = &analysis.repetitions {
        let iops = &repetitions.transactional_iops;
        watch.log(&format!(
            "{} repetitions: {:.1} ± {:.1} transactional I/O per second (95 % confidence)",
            repetitions.each.len(),
            iops.mean,
            iops.half_width
        ));
    }
    if let Some(Saturation { sustained_rate: Some(rate), first_failed_rate, .. }) = &analysis.saturation {
        let failed = first_failed_rate.map_or("none".into(), |rate| rate.to_string());
        watch.log(&format!(
            "Highest sustained rate: {rate} operations per second (lowest that broke: {failed})"
        ));
    }
    if let Some(open) = analysis.open_loop.filter(|open| !open.kept_up()) {
        watch.log(&format!(
            "The target rate was not kept: of {} operations {} were not completed, {} of them had not begun, {:.1} s \
             behind; latencies do not hold them",
            open.due, open.not_completed, open.waiting, open.behind_seconds
        ));
    }
}

fn database_bytes(store: &dyn Store, plan: &Plan) -> u64 {
    (0..plan.instances.len()).map(|database| store.database_bytes(database)).sum()
}

/// The settings, in the words of Jetstress's test log.
fn announce(profile: &Profile, plan: &Plan, watch: &mut Recorder<'_>) {
    let (mix, limits) = (&profile.mix, &profile.thresholds);
    watch.log(&format!("Database cache settings: (maximum: {:.1} MB)", plan.cache_bytes as f64 / 1048576.0));
    watch.log(&format!(
        "Database read latency thresholds: (average: {} msec/read, maximum: {} msec/read)",
        limits.average_database_read_ms, limits.maximum_database_read_ms
    ));
    watch.log(&format!(
        "Log write latency thresholds: (average: {} msec/write, maximum: {} msec/write)",
        limits.average_log_write_ms, limits.maximum_log_write_ms
    ));
    watch.log(&match profile.scan {
        true => format!("Background database maintenance: on (pause: {})", profile.scan_pause),
        false => "Background database maintenance: off".to_string(),
    });
    watch.log(&format!(
        "Operation mix: Sessions {}, Inserts {}%, Deletes {}%, Replaces {}%, Reads {}%, Lazy Commits {}%",
        profile.threads, mix.insert, mix.delete, mix.replace, mix.read, profile.lazy_percent
    ));
}

fn verify(
    engine: &dyn Engine,
    plan: &Plan,
    watch: &mut Recorder<'_>,
    stop: &StopSignal,
) -> Option<Verification> {
    if stop.is_set() {
        return None;
    }
    let started = Instant::now();
    let verification = read_again(engine, plan, Depth::Everything, Phase::Verify, watch, stop)?;
    let verification = Verification { seconds: started.elapsed().as_secs_f64(), ..verification };
    let sum = |count: fn(&crate::result::FileVerification) -> u64| {
        verification.files.iter().map(count).sum::<u64>()
    };
    watch.log(&format!(
        "{} pages and log segments verified: {} bad, {} with a corrected bit",
        sum(|file| file.blocks),
        sum(|file| file.bad),
        sum(|file| file.repaired)
    ));
    Some(verification)
}

fn read_again(
    engine: &dyn Engine,
    plan: &Plan,
    depth: Depth,
    phase: Phase,
    watch: &mut Recorder<'_>,
    stop: &StopSignal,
) -> Option<Verification> {
    let mut announced = false;
    engine.verify(plan, depth, &mut |done, total| {
        if !std::mem::replace(&mut announced, true) {
            watch.begin(phase, total);
        }
        watch.advance(done, "");
        !stop.is_set()
    })
}

fn cut_short(stop: &StopSignal, loaded: &Loaded, watch: &Recorder<'_>) -> Option<&'static str> {
    let creating = watch.history.phases.last().is_some_and(|last| last.phase == Phase::Create);
    if creating {
        Some("stopped on request while databases were created: --resume continues")
    } else if loaded.failure.is_some() {
        Some("the load ended with an error")
    } else if stop.is_set() && !loaded.measured.complete {
        Some("stopped on request before the measured time was over")
    } else if stop.is_set() {
        Some("stopped on request before everything was verified")
    } else if !loaded.measured.complete {
        Some("the measured time was not completed")
    } else {
        None
    }
}

/// Whether the storage is to blame, as opposed to a full volume or a limit.
fn is_device_failure(error: &Error) -> bool {
    matches!(error, Error::Corrupt { .. } | Error::ReadOnly(_) | Error::Io { .. })
}

fn instance_row(plan: &Plan, measured: &Measured, index: usize) -> InstanceRow {
    let instance = &plan.instances[index];
    let name = format!("Instance{}.{}", std::process::id(), instance.number);
    let row = InstanceRow::named(name, instance.database.clone(), instance.log_dir.clone());
    let Some(io) = measured.io.get(index) else { return row };
    let highest = |value: fn(&crate::sampler::InstanceSample) -> f64| {
        measured
            .samples
            .iter()
            .filter_map(|sample| sample.instances.get(index))
            .map(value)
            .fold(0.0, f64::max)
    };
    let rates = |totals: &IoTotals| totals.rates(measured.seconds);
    let scan = rates(&io.scan_read);
    InstanceRow {
        maximum_database_read_ms: highest(|sample| sample.database_read.average_ms),
        maximum_log_write_ms: highest(|sample| sample.log_write.average_ms),
        maintenance_reads_per_second: scan.per_second,
        maintenance_reads_average_bytes: scan.average_bytes,
        ..row.with_rates(
            rates(&io.database_read),
            rates(&io.database_write),
            rates(&io.log_read),
            rates(&io.log_write),
        )
    }
}

/// The distribution of each kind of I/O, all instances.
fn io_latencies(instances: &[InstanceIo]) -> BTreeMap<String, Latencies> {
    type Kind = fn(&InstanceIo) -> &IoTotals;
    let kinds: [(&str, Kind); 6] = [
        ("database_read", |io| &io.database_read),
        ("database_write", |io| &io.database_write),
        ("log_read", |io| &io.log_read),
        ("log_write", |io| &io.log_write),
        ("log_format", |io| &io.log_format),
        ("scan_read", |io| &io.scan_read),
    ];
    let sum = |kind: Kind| {
        let mut all = IoTotals::default();
        instances.iter().for_each(|io| all.add(kind(io)));
        all.latencies
    };
    kinds.into_iter().map(|(name, kind)| (name.to_string(), sum(kind))).collect()
}

/// The distribution of each kind of operation, and of durable commits.
fn operation_latencies(measured: &Measured) -> BTreeMap<String, Latencies> {
    let kinds = OperationKind::ALL.into_iter().zip(&measured.tally.operations);
    let durable = ("durable_commit".to_string(), measured.tally.durable_commits.clone());
    kinds.map(|(kind, all)| (kind.name().to_string(), all.clone())).chain([durable]).collect()
}

fn summaries(histograms: &BTreeMap<String, Latencies>) -> LatencyTable {
    histograms.iter().map(|(name, all)| (name.clone(), all.summary())).collect()
}

fn analysis(measured: &Measured, threads: usize) -> Analysis {
    Analysis {
        steady_state: SteadyState::of(&measured.samples),
        limit: Limit::of(measured, threads),
        repetitions: Repetitions::of(&measured.repetitions),
        saturation: measured.saturation.clone(),
        open_loop: measured.open_loop,
        host: measured.host.clone(),
        host_samples: measured.host_samples.clone(),
    }
}

fn operations(measured: &Measured) -> Operations {
    let tally = &measured.tally;
    let counts = OperationKind::ALL.into_iter().zip(tally.counts);
    Operations {
        counts: counts.map(|(kind, count)| (kind.name().to_string(), count)).collect(),
        per_second: if measured.seconds > 0.0 { tally.total() as f64 / measured.seconds } else { 0.0 },
        batches: tally.batches.clone(),
        conflicts: tally.conflicts,
        misses: tally.misses,
        wrong_records: tally.wrong_records,
        wrong: tally.wrong.clone(),
    }
}
