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

use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::Local;
use thiserror::Error;

use crate::drive::{Drive, Goal};
use crate::endurance::Endurance;
use crate::engine::{Depth, Engine, Opening, ReplayStart, Store};
use crate::event_file::{EventFile, rfc3339};
use crate::fragmentation::{Fragmentation, FragmentationChange, of_databases};
use crate::layout::{Plan, Reset};
use crate::load::fill;
use crate::measurement::{
    DefragSummary, FileVerification, Sample, SampleFile, ScanSummary, Verification, read_samples,
};
use crate::observer::{Observer, Phase, StopSignal};
use crate::plan::end_creation;
use crate::prepared::{self, Outcome};
use crate::profile::{Profile, Source, TestKind};
use crate::refusal::Refusal;
use crate::result::RunResult;
use crate::run::assembly::{Loaded, analysis, assemble, not_ended};
use crate::run::event_log::Event;
use crate::run::recorder::{Recorder, Subject};
use crate::units::TimeSpan;

/// Error that leaves a run without a result.
#[derive(Debug, Clone, Error)]
pub enum RunError {
    /// The plan was refused. Nothing on disk has changed.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The run started but could not continue.
    #[error("{}: {error}", phase.title().to_lowercase())]
    Failed {
        /// The phase that failed.
        phase: Phase,
        /// Description of the error.
        error: String,
    },
}

/// A finished run: its result and the samples of the measurement.
#[derive(Debug, Clone)]
pub struct Finished {
    /// Content of `result.json`.
    pub result: RunResult,
    /// Content of `samples.csv`.
    pub samples: Vec<Sample>,
}

/// Runs a test. A stop request ends the test early and cleanly, with an incomplete result.
pub fn run(
    profile: &Profile,
    engine: &dyn Engine,
    observer: &mut dyn Observer,
    stop: &StopSignal,
) -> Result<Finished, RunError> {
    let started = Local::now();
    let endurance = Endurance::find(profile)?;
    let continued = endurance.is_some();
    let profile = &match &endurance {
        Some(test) => Profile { source: Source::Open, output: Some(test.output.clone()), ..profile.clone() },
        None => profile.clone(),
    };
    let stamp = started.format("%Y-%m-%d_%H-%M-%S").to_string();
    let plan = Plan::make(profile, engine, &stamp, continued)?;
    let watch = &mut Recorder::new(observer);
    let test = Test { profile, engine, plan: &plan, stop };
    match plan.reset {
        // The databases were already examined or created before their state was preserved, so they are not examined
        // again.
        Some(Reset::PutBack) => test.put_back(watch)?,
        _ if profile.source == Source::Open && !profile_is_read_only(profile) => test.examine(watch)?,
        _ => {}
    }
    plan.prepare(profile, engine)?;
    let unwritable = |error| Refusal::new(format!("failed to write {}: {error}", plan.output.display()));
    let mut samples = begin_files(&plan, endurance, profile, engine, watch).map_err(unwritable)?;

    let path = plan.output.join("result.json");
    let mut unfinished =
        not_ended(assemble(profile, &plan, &started, &watch.history, &Loaded::default(), None, None));
    unfinished.write(&path).and_then(|()| watch.start_writers(path.clone())).map_err(unwritable)?;
    let initial_bytes = plan.initial_bytes();
    watch.subject = Some(Subject { profile: profile.clone(), plan: plan.clone(), started, initial_bytes });

    let worked = test.work(watch, &mut samples);
    watch.close_phase();
    // From here on, the current thread is the only writer of the file.
    watch.end_writers();
    let (loaded, verification) = worked.inspect_err(|error| {
        // The stored result must not look like that of a running test. Even if this write fails too, the reason
        // stored earlier says that the run may have failed.
        unfinished.reason = format!("could not run: {error}");
        (unfinished.ended, unfinished.phases) = (rfc3339(&Local::now()), watch.history.phases.clone());
        unfinished.log.clone_from(&watch.history.log);
        let _ = unfinished.write(&path);
    })?;

    let cut_short = cut_short(stop, &loaded, watch);
    let result = assemble(profile, &plan, &started, &watch.history, &loaded, verification, cut_short);
    watch.run_ended(&result);
    if profile.test == TestKind::Stress && (loaded.measured.complete || loaded.failure.is_some()) {
        // The state files are needed until the result has been stored.
        let ended = result.write(&path).and_then(|()| Endurance::end(&profile.dirs[0]));
        ended.map_err(|error| watch.failed(error))?;
    }
    Ok(Finished { result, samples: loaded.measured.samples })
}

/// Opens the files of the run. A resumed stress test keeps its existing samples and events.
fn begin_files(
    plan: &Plan,
    endurance: Option<Endurance>,
    profile: &Profile,
    engine: &dyn Engine,
    watch: &mut Recorder<'_>,
) -> std::io::Result<SampleFile> {
    let path = plan.output.join("samples.csv");
    let continued = endurance.is_some();
    let events = EventFile::open(&plan.output, continued)?;
    engine.report_events(Arc::new(events.clone()));
    watch.events = Some(events);
    watch.event(&Event::RunStarted { test: profile.test });
    let Some(test) = endurance else {
        if profile.test == TestKind::Stress {
            watch.endurance = Some(Endurance::begin(profile, &plan.output));
            return SampleFile::create(&path).map(SampleFile::synced);
        }
        return SampleFile::create(&path);
    };
    // A machine crash may have damaged the samples. The totals are in the stored state.
    let before = read_samples(&path).unwrap_or_else(|error| {
        watch.log(&format!("The samples before the interruption are lost: {error}"));
        Vec::new()
    });
    let test = test.with_samples(before);
    watch.event(&Event::RunContinued { part: test.parts.len() + 1, measured_seconds: test.seconds });
    let samples = SampleFile::continued(&path, test.samples())?.synced();
    watch.endurance = Some(test);
    Ok(samples)
}

/// A test with its profile, engine and plan.
#[derive(Clone, Copy)]
struct Test<'a> {
    profile: &'a Profile,
    engine: &'a dyn Engine,
    plan: &'a Plan,
    stop: &'a StopSignal,
}

impl Test<'_> {
    /// Runs the phases that change databases.
    fn work(
        &self,
        watch: &mut Recorder<'_>,
        samples: &mut SampleFile,
    ) -> Result<(Loaded, Option<Verification>), RunError> {
        if self.profile.source != Source::Open {
            self.create(watch)?;
        }
        if self.stop.is_set() {
            return Ok((Loaded { initial_bytes: self.plan.initial_bytes(), ..Loaded::default() }, None));
        }
        if self.plan.reset == Some(Reset::Keep) {
            self.keep_prepared(watch)?;
        }
        if self.stop.is_set() {
            return Ok((Loaded { initial_bytes: self.plan.initial_bytes(), ..Loaded::default() }, None));
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
    fn examine(&self, watch: &mut Recorder<'_>) -> Result<(), Refusal> {
        let verification = self.read_again(Depth::Pages, Phase::Examine, watch);
        let Some(verification) = verification else {
            return Err(Refusal::new(
                "stopped on request before the databases were verified; nothing was changed",
            ));
        };
        let Some(damaged) = verification.files.iter().find(|file| file.bad > 0) else { return Ok(()) };
        let shown = damaged.path.display().to_string();
        let first =
            damaged.findings.first().map_or(shown.as_str(), |line| line.trim_start_matches("error: "));
        Err(Refusal::new(format!(
            "{first}; total damaged pages: {}; restore the database, or replace it with --force",
            damaged.bad
        )))
    }

    /// Restores the databases to their preserved state.
    fn put_back(&self, watch: &mut Recorder<'_>) -> Result<(), Refusal> {
        let Some(method) = self.profile.reset else { return Ok(()) };
        let (dir, instances) = (&self.profile.dirs[0], &self.plan.instances);
        let outcome = self
            .watched(Phase::PutBack, watch, |progress| prepared::put_back(dir, instances, method, progress));
        match outcome.map_err(|what| Refusal::new(format!("failed to restore the databases: {what}")))? {
            Outcome::Done => Ok(()),
            Outcome::Stopped => Err(Refusal::new(
                "stopped on request while the databases were being restored; restore them with --reset \
                 before using them",
            )),
        }
    }

    /// Preserves the state of the databases for later runs.
    fn keep_prepared(&self, watch: &mut Recorder<'_>) -> Result<(), RunError> {
        let Some(method) = self.profile.reset else { return Ok(()) };
        let (dir, instances) = (&self.profile.dirs[0], &self.plan.instances);
        let outcome = self
            .watched(Phase::Keep, watch, |progress| prepared::keep(dir, instances, method, progress))
            .map_err(|what| watch.failed(format!("failed to preserve the state of the databases: {what}")))?;
        if outcome == Outcome::Done {
            watch.log(&format!(
                "The state of the databases was preserved ({method}); restore it with --open --reset"
            ));
        }
        Ok(())
    }

    /// Runs work that reports its progress, as a phase.
    fn watched<R>(
        &self,
        phase: Phase,
        watch: &mut Recorder<'_>,
        work: impl FnOnce(&mut dyn FnMut(u64, u64) -> bool) -> R,
    ) -> R {
        let mut announced = false;
        work(&mut |done, total| {
            if !std::mem::replace(&mut announced, true) {
                watch.begin(phase, total);
            }
            watch.advance(done, "");
            !self.stop.is_set()
        })
    }

    fn create(&self, watch: &mut Recorder<'_>) -> Result<(), RunError> {
        // The logs of the creation are not needed, even if the test itself runs without circular logging.
        let circular_log = self.plan.circular_log || self.profile.test == TestKind::Recovery;
        let plan = &Plan { circular_log, ..self.plan.clone() };
        let store = self.engine.open(plan, Opening::Create).map_err(|error| watch.failed(error))?;
        let filled = fill(&*store, plan, self.profile, self.stop, watch);
        let closed = store.shutdown();
        filled.and(closed).map_err(|error| watch.failed(error))?;
        match self.stop.is_set() {
            true => Ok(()),
            false => end_creation(&self.profile.dirs[0]).map_err(|error| watch.failed(error)),
        }
    }

    /// Runs the load. Returns the positions at which replay of its logs starts.
    fn load(
        &self,
        watch: &mut Recorder<'_>,
        samples: &mut SampleFile,
    ) -> Result<(Loaded, Vec<ReplayStart>), RunError> {
        let Test { profile, engine, plan, stop } = *self;
        watch.begin_part().map_err(|error| watch.failed(error))?;
        let measured_before = watch.measured_before();
        let profile = &remaining(profile, measured_before);
        let before = of_databases(plan);
        watch.begin(Phase::Attach, 1);
        let store = engine.open(plan, Opening::Attach).map_err(|error| watch.failed(error))?;
        let initial_bytes = database_bytes(&*store, plan);
        if let Some(subject) = &mut watch.subject {
            subject.initial_bytes = initial_bytes;
        }
        let starts: ese_engine::Result<Vec<ReplayStart>> = match profile.test {
            TestKind::Recovery => {
                (0..plan.instances.len()).map(|database| store.replay_start(database)).collect()
            }
            _ => Ok(Vec::new()),
        };
        let starts = starts.map_err(|error| watch.failed(error))?;
        let generations: Vec<u32> = starts.iter().map(|start| start.generation).collect();
        test_log::settings(profile, plan, watch);
        if !profile.maintenance_impact {
            store.start_maintenance(&profile.maintenance()).map_err(|error| watch.failed(error))?;
        }
        if profile.copies > 1 {
            store.start_copies(profile.copies - 1).map_err(|error| watch.failed(error))?;
        }
        let goal = if generations.is_empty() { Goal::Time } else { Goal::Logs(&generations) };
        let driven = Drive { store: &*store, copies: None, plan, profile, stop, measured_before, goal }
            .run(samples, watch);
        let io_errors = store.io().iter().map(|io| io.errors).sum();
        watch.begin(Phase::Shutdown, 1);
        let (scan, copies) = (store.end_scan(), store.end_copies());
        let defragmentation = store.end_defragmentation();
        let final_bytes = database_bytes(&*store, plan);
        let closed = store.shutdown();
        let change = |(before, after): (Option<Fragmentation>, Option<Fragmentation>)| {
            before.zip(after).map(|(before, after)| FragmentationChange { before, after })
        };
        let fragmentation = before.into_iter().zip(of_databases(plan)).filter_map(change).collect();
        let measured = driven.map_err(|error| watch.failed(error))?;
        for (instance, batches) in plan.instances.iter().zip(&measured.tally.batches) {
            watch.log(&format!("{}: {batches} batches", instance.database.display()));
        }
        let (measured, parts) = watch.joined(measured);
        watch.store_state(&measured, &parts);
        test_log::figures(&analysis(&measured, profile.threads), watch);
        for scanned in &scan {
            let ScanSummary { pages, passes, bad, .. } = scanned;
            let database = scanned.database.display();
            watch.log(&format!(
                "{database}: {pages} pages scanned, {passes} complete passes, {bad} bad pages"
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
        let loaded = Loaded {
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
            ..Loaded::default()
        };
        // The following phases may take a long time, so an interim result is stored now.
        watch.publish(loaded.clone());
        Ok((loaded, starts))
    }

    fn verify(&self, watch: &mut Recorder<'_>) -> Option<Verification> {
        if self.stop.is_set() {
            return None;
        }
        let started = Instant::now();
        let verification = self.read_again(Depth::Everything, Phase::Verify, watch)?;
        let verification = Verification { seconds: started.elapsed().as_secs_f64(), ..verification };
        let sum = |count: fn(&FileVerification) -> u64| verification.files.iter().map(count).sum::<u64>();
        watch.log(&format!(
            "{} pages and log segments verified: {} bad, {} with a corrected bit",
            sum(|file| file.blocks),
            sum(|file| file.bad),
            sum(|file| file.repaired)
        ));
        Some(verification)
    }

    fn read_again(&self, depth: Depth, phase: Phase, watch: &mut Recorder<'_>) -> Option<Verification> {
        self.verify_files(self.plan, depth, phase, watch)
    }

    fn verify_files(
        &self,
        plan: &Plan,
        depth: Depth,
        phase: Phase,
        watch: &mut Recorder<'_>,
    ) -> Option<Verification> {
        let mut announced = false;
        self.engine.verify(plan, depth, &mut |done, total| {
            if !std::mem::replace(&mut announced, true) {
                watch.begin(phase, total);
            }
            watch.advance(done, "");
            !self.stop.is_set()
        })
    }
}

/// Returns true if the test only reads existing databases, and thus verifies them itself.
fn profile_is_read_only(profile: &Profile) -> bool {
    profile.test == TestKind::Backup && !profile.under_load
}

/// Returns the profile with its duration reduced to the time remaining after an interruption, but at least one sample
/// interval.
fn remaining(profile: &Profile, measured_before: f64) -> Profile {
    let before = Duration::try_from_secs_f64(measured_before).unwrap_or_default();
    let left = profile.duration.0.saturating_sub(before).max(profile.sample_interval.0);
    Profile { duration: TimeSpan(left), ..profile.clone() }
}

fn database_bytes(store: &dyn Store, plan: &Plan) -> u64 {
    (0..plan.instances.len()).map(|database| store.database_bytes(database)).sum()
}

fn cut_short(stop: &StopSignal, loaded: &Loaded, watch: &Recorder<'_>) -> Option<&'static str> {
    let creating = watch.history.phases.last().is_some_and(|last| last.phase == Phase::Create);
    let backed_up = loaded.backup.as_ref().is_none_or(|backup| backup.complete);
    let recovered = loaded.recovery.as_ref().is_none_or(|recovery| recovery.complete);
    let replicated = loaded.replication.as_ref().is_none_or(|replication| replication.complete);
    if creating {
        Some("stopped on request while databases were being created: --resume continues")
    } else if !backed_up && loaded.failure.is_some() {
        Some("the backup failed")
    } else if !backed_up {
        Some("stopped on request before the backup completed")
    } else if loaded.failure.is_some() {
        Some("the load failed")
    } else if stop.is_set() && !loaded.measured.complete {
        Some(match loaded.parts.is_empty() {
            true => "stopped on request before the end of the measured time",
            false => "stopped on request before the end of the measured time: --resume continues",
        })
    } else if stop.is_set() && !recovered {
        Some("stopped on request before all logs were replayed")
    } else if !stop.is_set() && !replicated {
        Some("the copies did not catch up")
    } else if stop.is_set() {
        Some("stopped on request before the verification completed")
    } else if !loaded.measured.complete {
        Some("the measured time was not completed")
    } else {
        None
    }
}
