//! A complete run, phase by phase: create, attach, warm, measure, shut down, verify, judge. Other tests have
//! additional phases in between.

mod alone;
mod assembly;
mod background_writer;
mod backup;
mod event_log;
mod in_parallel;
mod recorder;
mod recovery;
mod replication;
mod test_log;

use std::borrow::Cow;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::Local;
use jetcell_host::Cancellation;
use jetcell_input::with_advice;
use thiserror::Error;

use crate::drive::{MeasurementDriver, MeasurementGoal};
use crate::endurance::EnduranceState;
use crate::engine::{DatabaseOpenMode, DatabaseStore, ReplayStart, StorageEngine, VerificationDepth};
use crate::event_file::{EventFile, rfc3339};
use crate::fragmentation::{Fragmentation, FragmentationChange, database_fragmentation};
use crate::layout::{ResetAction, RunPlan};
use crate::load::fill;
use crate::measurement::{
    CountingSink, DefragSummary, FileVerification, Sample, SampleFile, ScanSummary, VerificationResult,
    read_samples,
};
use crate::observer::{Observer, RunPhase};
use crate::plan::end_creation;
use crate::prepared::{self, FileCopyOutcome};
use crate::preserved_state_error::PreservedStateError;
use crate::profile::{DatabaseSource, Profile, TestKind};
use crate::result::RunResult;
use crate::run::assembly::{LoadPhaseResult, ResultInputs, analysis, assemble, interim_result};
use crate::run::event_log::RunEvent;
use crate::run::recorder::RunRecorder;
use crate::start_error::StartError;
use crate::units::TimeSpan;

/// Error that leaves a run without a result.
#[derive(Debug, Error)]
pub enum RunError {
    /// The plan was refused. Nothing on disk has changed.
    #[error(transparent)]
    Refused(#[from] StartError),
    /// The run started but could not continue.
    #[error("{}: {error}", phase.title().to_lowercase())]
    Failed {
        /// The phase that failed.
        phase: RunPhase,
        /// The reason.
        #[source]
        error: PhaseError,
    },
}

/// Reason why a phase of a run failed.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the variants are named after the errors that they contain")]
pub enum PhaseError {
    #[error("{0}")]
    Engine(#[from] crate::error::Error),
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    PreservedState(#[from] PreservedStateError),
    /// The state of the databases was not preserved for later runs.
    #[error("failed to preserve the state of the databases: {0}")]
    NotPreserved(#[source] PreservedStateError),
}

impl RunError {
    /// Returns what the user can do about the error.
    pub fn advice(&self) -> Option<Cow<'static, str>> {
        match self {
            RunError::Refused(refusal) => refusal.advice(),
            RunError::Failed {
                error: PhaseError::PreservedState(error) | PhaseError::NotPreserved(error),
                ..
            } => error.advice().map(Cow::Borrowed),
            RunError::Failed { error: PhaseError::Engine(error), .. } => error.advice(),
            RunError::Failed { error: PhaseError::Io(_), .. } => None,
        }
    }
}

/// A finished run: its result and the samples of the measurement.
#[derive(Debug, Clone)]
pub struct FinishedRun {
    /// Content of `result.json`.
    pub result: RunResult,
    /// Content of `samples.csv`.
    pub samples: Vec<Sample>,
}

/// Runs a test. A stop request ends the test early and cleanly, with an incomplete result.
pub fn run(
    profile: &Profile,
    engine: &dyn StorageEngine,
    observer: &mut dyn Observer,
    stop: &Cancellation,
) -> Result<FinishedRun, RunError> {
    let started = Local::now();
    let endurance = EnduranceState::find_interrupted(profile)?;
    let continued = endurance.is_some();
    let profile = &match &endurance {
        Some(test) => {
            Profile { source: DatabaseSource::Open, output: Some(test.output.clone()), ..profile.clone() }
        }
        None => profile.clone(),
    };
    let stamp = started.format("%Y-%m-%d_%H-%M-%S").to_string();
    let plan = RunPlan::make(profile, engine, &stamp, continued)?;
    let watch = &mut RunRecorder::new(observer);
    let test = TestRun { profile, engine, plan: &plan, stop };
    match plan.reset {
        // The databases were already examined or created before their state was preserved, so they are not examined
        // again.
        Some(ResetAction::PutBack) => test.restore_state(watch)?,
        _ if profile.source == DatabaseSource::Open && !profile_is_read_only(profile) => {
            test.examine(watch)?;
        }
        _ => {}
    }
    plan.prepare(profile, engine)?;
    let unwritable = StartError::io("write", &plan.output);
    let mut samples = begin_files(&plan, endurance, profile, engine, watch).map_err(&unwritable)?;

    let path = plan.output.join("result.json");
    let inputs = ResultInputs::new(profile, &plan, engine, started);
    let nothing = LoadPhaseResult::default();
    let mut unfinished = interim_result(assemble(&inputs, &watch.history, &nothing, None, None));
    unfinished.write(&path).and_then(|()| watch.start_writers(path.clone())).map_err(&unwritable)?;
    watch.subject = Some(inputs.clone());

    let worked = test.run_phases(watch, &mut samples);
    watch.close_phase();
    // From here on, the current thread is the only writer of the file.
    watch.end_writers();
    let (mut loaded, verification) = worked.inspect_err(|error| {
        // The stored result must not look like that of a running test. Even if this write fails too, the reason
        // stored earlier says that the run may have failed.
        unfinished.reason = format!("could not run: {}", with_advice(error, error.advice()));
        (unfinished.ended, unfinished.phases) = (rfc3339(&Local::now()), watch.history.phases.clone());
        unfinished.log.clone_from(&watch.history.log);
        let _ = unfinished.write(&path);
    })?;

    loaded.measured.damage = watch.reported_damage();
    let cut_short = early_end_reason(stop, &loaded, watch);
    let result = assemble(&inputs, &watch.history, &loaded, verification, cut_short);
    watch.run_ended(&result);
    if profile.test == TestKind::Stress && (loaded.measured.complete || loaded.failure.is_some()) {
        // The state files are needed until the result has been stored.
        let ended = result.write(&path).and_then(|()| EnduranceState::remove_files(&profile.dirs[0]));
        ended.map_err(|error| watch.run_error(error))?;
    }
    Ok(FinishedRun { result, samples: loaded.measured.samples })
}

/// Opens the files of the run. A resumed stress test keeps its existing samples and events.
fn begin_files(
    plan: &RunPlan,
    endurance: Option<EnduranceState>,
    profile: &Profile,
    engine: &dyn StorageEngine,
    watch: &mut RunRecorder<'_>,
) -> std::io::Result<SampleFile> {
    let path = plan.output.join("samples.csv");
    let continued = endurance.is_some();
    let events = EventFile::open(&plan.output, continued)?;
    engine.report_events(Arc::new(CountingSink { tally: watch.damage.clone(), sink: events.clone() }));
    watch.events = Some(events);
    watch.event(&RunEvent::RunStarted { test: profile.test });
    let Some(test) = endurance else {
        if profile.test == TestKind::Stress {
            watch.endurance = Some(EnduranceState::new(profile, &plan.output));
            return SampleFile::create(&path).map(SampleFile::with_sync);
        }
        return SampleFile::create(&path);
    };
    // A machine crash may have damaged the samples. The totals are in the stored state.
    let before = read_samples(&path).unwrap_or_else(|error| {
        watch.log(&format!("The samples before the interruption are lost: {error}"));
        Vec::new()
    });
    let test = test.with_samples(before);
    watch.event(&RunEvent::RunContinued { part: test.parts.len() + 1, measured_seconds: test.seconds });
    let samples = SampleFile::continue_with(&path, test.samples())?.with_sync();
    watch.endurance = Some(test);
    Ok(samples)
}

/// A test with its profile, engine and plan.
#[derive(Clone, Copy)]
struct TestRun<'a> {
    profile: &'a Profile,
    engine: &'a dyn StorageEngine,
    plan: &'a RunPlan,
    stop: &'a Cancellation,
}

impl TestRun<'_> {
    /// Runs the phases that change databases.
    fn run_phases(
        &self,
        watch: &mut RunRecorder<'_>,
        samples: &mut SampleFile,
    ) -> Result<(LoadPhaseResult, Option<VerificationResult>), RunError> {
        if self.profile.source != DatabaseSource::Open {
            self.create(watch)?;
        }
        if self.stop.is_cancelled() {
            return Ok((
                LoadPhaseResult { initial_bytes: self.plan.initial_bytes(), ..LoadPhaseResult::default() },
                None,
            ));
        }
        if self.plan.reset == Some(ResetAction::Keep) {
            self.preserve_state(watch)?;
        }
        if self.stop.is_cancelled() {
            return Ok((
                LoadPhaseResult { initial_bytes: self.plan.initial_bytes(), ..LoadPhaseResult::default() },
                None,
            ));
        }
        let loaded = match self.profile.test {
            TestKind::Performance | TestKind::Stress => self.load_after_alone(watch, samples)?,
            TestKind::Backup => self.back_up(watch, samples)?,
            TestKind::Recovery => self.recover(watch, samples)?,
            TestKind::Replication => self.replicate(watch, samples)?,
        };
        // A backup has already verified every page, unless a load changed pages afterwards.
        let verified = profile_is_read_only(self.profile);
        let verification = if loaded.failure.is_none() && !verified { self.verify(watch) } else { None };
        Ok((loaded, verification))
    }

    /// Verifies existing databases. A test on damaged databases would have no meaningful result and could damage them
    /// further.
    fn examine(&self, watch: &mut RunRecorder<'_>) -> Result<(), StartError> {
        let verification = self.verify_again(VerificationDepth::Pages, RunPhase::Examine, watch);
        let Some(verification) = verification else {
            return Err(StartError::StoppedBeforeVerification);
        };
        let Some(damaged) = verification.files.iter().find(|file| file.bad > 0) else { return Ok(()) };
        let shown = damaged.path.display().to_string();
        let first =
            damaged.findings.first().map_or(shown.as_str(), |line| line.trim_start_matches("error: "));
        Err(StartError::DamagedPages { first: first.into(), pages: damaged.bad })
    }

    /// Restores the databases to their preserved state.
    fn restore_state(&self, watch: &mut RunRecorder<'_>) -> Result<(), StartError> {
        let Some(method) = self.profile.reset else { return Ok(()) };
        let (dir, instances) = (&self.profile.dirs[0], &self.plan.instances);
        let outcome = self.run_phase(RunPhase::PutBack, watch, |progress| {
            prepared::restore(dir, instances, method, progress)
        });
        match outcome.map_err(StartError::Restore)? {
            FileCopyOutcome::Done => Ok(()),
            FileCopyOutcome::Stopped => Err(StartError::StoppedDuringRestore),
        }
    }

    /// Preserves the state of the databases for later runs.
    fn preserve_state(&self, watch: &mut RunRecorder<'_>) -> Result<(), RunError> {
        let Some(method) = self.profile.reset else { return Ok(()) };
        let (dir, instances) = (&self.profile.dirs[0], &self.plan.instances);
        let outcome = self
            .run_phase(RunPhase::Keep, watch, |progress| prepared::preserve(dir, instances, method, progress))
            .map_err(|error| watch.run_error(PhaseError::NotPreserved(error)))?;
        if outcome == FileCopyOutcome::Done {
            watch.log(&format!(
                "The state of the databases was preserved ({method}); restore it with --open --reset"
            ));
        }
        Ok(())
    }

    /// Runs `work` as a phase. The phase begins when `work` first reports its progress.
    fn run_phase<R>(
        &self,
        phase: RunPhase,
        watch: &mut RunRecorder<'_>,
        work: impl FnOnce(&mut dyn FnMut(u64, u64) -> bool) -> R,
    ) -> R {
        let mut announced = false;
        work(&mut |done, total| {
            if !std::mem::replace(&mut announced, true) {
                watch.begin_phase(phase, total);
            }
            watch.advance(done, "");
            !self.stop.is_cancelled()
        })
    }

    fn create(&self, watch: &mut RunRecorder<'_>) -> Result<(), RunError> {
        // The logs of the creation are not needed, even if the test itself runs without circular logging.
        let circular_log = self.plan.circular_log || self.profile.test == TestKind::Recovery;
        let plan = &RunPlan { circular_log, ..self.plan.clone() };
        let store =
            self.engine.open(plan, DatabaseOpenMode::Create).map_err(|error| watch.run_error(error))?;
        let filled = fill(&*store, plan, self.profile, self.stop, watch);
        let closed = store.shutdown();
        filled.and(closed).map_err(|error| watch.run_error(error))?;
        if self.stop.is_cancelled() {
            Ok(())
        } else {
            end_creation(&self.profile.dirs[0]).map_err(|error| watch.run_error(error))
        }
    }

    /// Runs the load. Returns the positions at which replay of its logs starts.
    fn load(
        &self,
        watch: &mut RunRecorder<'_>,
        samples: &mut SampleFile,
    ) -> Result<(LoadPhaseResult, Vec<ReplayStart>), RunError> {
        let TestRun { profile, engine, plan, stop } = *self;
        watch.begin_part().map_err(|error| watch.run_error(error))?;
        let measured_before = watch.measured_before();
        let profile = &with_remaining_duration(profile, measured_before);
        let before = database_fragmentation(plan);
        watch.begin_phase(RunPhase::Attach, 1);
        let store = engine.open(plan, DatabaseOpenMode::Attach).map_err(|error| watch.run_error(error))?;
        let initial_bytes = database_bytes(&*store, plan);
        if let Some(subject) = &mut watch.subject {
            subject.initial_bytes = initial_bytes;
        }
        let starts: crate::engine::Result<Vec<ReplayStart>> = match profile.test {
            TestKind::Recovery => {
                (0..plan.instances.len()).map(|database| store.replay_start(database)).collect()
            }
            _ => Ok(Vec::new()),
        };
        let starts = starts.map_err(|error| watch.run_error(error))?;
        let generations: Vec<u32> = starts.iter().map(|start| start.generation).collect();
        test_log::settings(profile, plan, watch);
        if !profile.maintenance_impact {
            store.start_maintenance(&profile.maintenance()).map_err(|error| watch.run_error(error))?;
        }
        if profile.copies > 1 {
            store.start_log_copies(profile.copies - 1).map_err(|error| watch.run_error(error))?;
        }
        let goal =
            if generations.is_empty() { MeasurementGoal::Time } else { MeasurementGoal::Logs(&generations) };
        let driven =
            MeasurementDriver { store: &*store, copies: None, plan, profile, stop, measured_before, goal }
                .run(samples, watch);
        let io_errors = store.io().iter().map(|io| io.errors).sum();
        watch.begin_phase(RunPhase::Shutdown, 1);
        let (scan, copies) = (store.finish_scan(), store.finish_log_copies());
        let defragmentation = store.finish_defragmentation();
        let final_bytes = database_bytes(&*store, plan);
        let closed = store.shutdown();
        let change = |(before, after): (Option<Fragmentation>, Option<Fragmentation>)| {
            before.zip(after).map(|(before, after)| FragmentationChange { before, after })
        };
        let fragmentation = before.into_iter().zip(database_fragmentation(plan)).filter_map(change).collect();
        let measured = driven.map_err(|error| watch.run_error(error))?;
        for (instance, batches) in plan.instances.iter().zip(&measured.tally.batches) {
            watch.log(&format!("{}: {batches} batches", instance.database.display()));
        }
        let (measured, parts) = watch.with_previous_parts(measured);
        watch.store_state(&measured, &parts);
        test_log::figures(&analysis(&measured, profile.threads), watch);
        for scanned in &scan {
            let ScanSummary { pages, passes, bad, corrected, .. } = scanned;
            let database = scanned.database.display();
            watch.log(&format!(
                "{database}: {pages} pages scanned, {passes} complete passes, {bad} bad pages, {corrected} with corrected bits"
            ));
        }
        for summary in &defragmentation {
            let DefragSummary { database, pages_read, pages_freed, pages_moved, .. } = summary;
            let (database, task) = (database.display(), summary.task());
            watch.log(&format!(
                "{database}: {task} read {pages_read} pages, moved {pages_moved} and freed {pages_freed}"
            ));
        }
        let failure = measured.failure.clone().or(closed.err());
        if let Some(error) = &failure {
            watch.log(&format!("The load failed: {error}"));
        }
        let loaded = LoadPhaseResult {
            measured,
            initial_bytes,
            final_bytes,
            io_errors,
            scan,
            defragmentation,
            fragmentation,
            copies,
            parts,
            failure,
            ..LoadPhaseResult::default()
        };
        // The following phases may take a long time, so an interim result is stored now.
        watch.store_interim_result(loaded.clone());
        Ok((loaded, starts))
    }

    fn verify(&self, watch: &mut RunRecorder<'_>) -> Option<VerificationResult> {
        if self.stop.is_cancelled() {
            return None;
        }
        let started = Instant::now();
        let verification = self.verify_again(VerificationDepth::Full, RunPhase::Verify, watch)?;
        let verification = VerificationResult { seconds: started.elapsed().as_secs_f64(), ..verification };
        let sum = |count: fn(&FileVerification) -> u64| verification.files.iter().map(count).sum::<u64>();
        watch.log(&format!(
            "{} pages and log segments verified: {} bad, {} with corrected bits",
            sum(|file| file.blocks),
            sum(|file| file.bad),
            sum(|file| file.repaired)
        ));
        Some(verification)
    }

    fn verify_again(
        &self,
        depth: VerificationDepth,
        phase: RunPhase,
        watch: &mut RunRecorder<'_>,
    ) -> Option<VerificationResult> {
        self.verify_files(self.plan, depth, phase, watch)
    }

    fn verify_files(
        &self,
        plan: &RunPlan,
        depth: VerificationDepth,
        phase: RunPhase,
        watch: &mut RunRecorder<'_>,
    ) -> Option<VerificationResult> {
        let mut announced = false;
        self.engine.verify(plan, depth, &mut |done, total| {
            if !std::mem::replace(&mut announced, true) {
                watch.begin_phase(phase, total);
            }
            watch.advance(done, "");
            !self.stop.is_cancelled()
        })
    }
}

/// Returns true if the test only reads existing databases, and thus verifies them itself.
fn profile_is_read_only(profile: &Profile) -> bool {
    profile.test == TestKind::Backup && !profile.under_load
}

/// Returns the profile with its duration reduced to the time remaining after an interruption, but at least one sample
/// interval.
fn with_remaining_duration(profile: &Profile, measured_before: f64) -> Profile {
    let before = Duration::try_from_secs_f64(measured_before).unwrap_or_default();
    let left = profile.duration.0.saturating_sub(before).max(profile.sample_interval.0);
    Profile { duration: TimeSpan(left), ..profile.clone() }
}

fn database_bytes(store: &dyn DatabaseStore, plan: &RunPlan) -> u64 {
    (0..plan.instances.len()).map(|database| store.database_bytes(database)).sum()
}

fn early_end_reason(
    stop: &Cancellation,
    loaded: &LoadPhaseResult,
    watch: &RunRecorder<'_>,
) -> Option<&'static str> {
    let creating = watch.history.phases.last().is_some_and(|last| last.phase == RunPhase::Create);
    let backed_up = loaded.backup.as_ref().is_none_or(|backup| backup.complete);
    let recovered = loaded.recovery.as_ref().is_none_or(|recovery| recovery.complete);
    let replicated = loaded.replication.as_ref().is_none_or(|replication| replication.complete);
    if creating {
        Some("stopped on request while databases were being created; continue with --resume")
    } else if !backed_up && loaded.failure.is_some() {
        Some("the backup failed")
    } else if !backed_up {
        Some("stopped on request before the backup completed")
    } else if loaded.failure.is_some() {
        Some("the load failed")
    } else if stop.is_cancelled() && !loaded.measured.complete {
        Some(if loaded.parts.is_empty() {
            "stopped on request before the end of the measured time"
        } else {
            "stopped on request before the end of the measured time; continue with --resume"
        })
    } else if stop.is_cancelled() && !recovered {
        Some("stopped on request before all logs were replayed")
    } else if !stop.is_cancelled() && !replicated {
        Some("the copies did not catch up")
    } else if stop.is_cancelled() {
        Some("stopped on request before the verification completed")
    } else if !loaded.measured.complete {
        Some("the measured time was not completed")
    } else {
        None
    }
}
