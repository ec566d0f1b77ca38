//! The replication test. Passive copies replicate databases that are under load. First they keep up with the load.
//! Then they are suspended and have to catch up.
//!
//! ```text
//!  seed ──> warm: load and copies ──> steady: --duration
//!       ──> held: a quarter of it ──> catch up ──> drained without load
//! ```

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use jetcell_host::Cancellation;

use super::{TestRun, database_bytes, test_log};
use crate::drive::{ConcurrentWork, MeasurementDriver, MeasurementGoal};
use crate::engine::{DatabaseOpenMode, DatabaseStore, PassiveCopies, VerificationDepth};
use crate::error::Error;
use crate::layout::{CopyPlan, InstancePlan, RunPlan};
use crate::measurement::{CopyCounters, Measurement, SampleFile};
use crate::observer::{Observer, RunPhase};
use crate::result::{
    CopySample, MissingLogAmount, ReplicatedCopy, ReplicationPart, ReplicationSample, ReplicationSideIo,
    ReplicationTestResult,
};
use crate::run::RunError;
use crate::run::assembly::{LoadPhaseResult, named_row};
use crate::run::recorder::RunRecorder;

/// The copies are suspended for the test duration divided by this number.
const SUSPENSION_DIVISOR: u32 = 4;
/// Interval at which the copies are polled.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// A copy counts as caught up if it lags by at most this many generations: the log that was just closed.
const MAX_CAUGHT_UP_LAG: u32 = 1;
/// Maximum time to catch up, as a multiple of the test duration. Copies that replay more slowly than the load writes
/// would never catch up, so the load ends after this time.
const MAX_CATCH_UP: u32 = 4;
/// Minimum time allowed for replaying the remaining logs.
const MIN_DRAIN: Duration = Duration::from_secs(60);

/// State of the copies while the load runs.
struct PassiveCopyMonitor<'a> {
    store: &'a dyn DatabaseStore,
    copies: &'a dyn PassiveCopies,
    began: Instant,
    seen: Mutex<CopyObservations>,
    catching_up: Duration,
    caught_up: AtomicBool,
    over: AtomicBool,
}

/// Observations made by the monitoring thread.
#[derive(Default)]
struct CopyObservations {
    samples: Vec<ReplicationSample>,
    most_behind: Vec<u32>,
    longest_lag: Vec<u64>,
    held: bool,
    /// Amount of log that each copy had not received, observed since the last sample.
    missing: Vec<ByteCountStatistics>,
}

/// Statistics over repeated observations of a byte count.
#[derive(Clone, Copy, Default)]
struct ByteCountStatistics {
    sum: u64,
    count: u64,
    most: u64,
}

impl ByteCountStatistics {
    fn add(&mut self, bytes: u64) {
        (self.sum, self.count, self.most) = (self.sum + bytes, self.count + 1, self.most.max(bytes));
    }
}

impl ConcurrentWork for PassiveCopyMonitor<'_> {
    fn phase(&self) -> RunPhase {
        RunPhase::CatchUp
    }

    fn total(&self) -> u64 {
        self.catching_up.as_millis() as u64
    }

    fn done(&self) -> u64 {
        0
    }

    fn is_finished(&self) -> bool {
        self.over.load(Relaxed)
    }
}

impl PassiveCopyMonitor<'_> {
    /// Returns the current state of both sides.
    fn observe(&self) -> (ReplicationSample, Vec<CopyCounters>) {
        let counters = self.copies.counters();
        let sides = self.store.io();
        let copy = |one: &CopyCounters| CopySample {
            io: ReplicationSideIo::from_io(&one.io),
            copy_queue: one.copy_queue,
            replay_queue: one.replay_queue,
            lag_seconds: one.lag_seconds,
            logs: one.logs,
            missing_log: MissingLogAmount {
                streamed_bytes: one.streamed_bytes,
                ..MissingLogAmount::default()
            },
        };
        let sample = ReplicationSample {
            at_seconds: self.began.elapsed().as_secs_f64(),
            active: sides
                .iter()
                .map(ReplicationSideIo::from_io)
                .fold(ReplicationSideIo::default(), ReplicationSideIo::plus),
            generations: (0..sides.len()).map(|database| u64::from(self.store.generation(database))).sum(),
            copies: counters.iter().map(copy).collect(),
        };
        (sample, counters)
    }

    fn record_sample(&self) -> ReplicationSample {
        self.observe_missing_log();
        // The lock is held while both sides are read, which keeps the samples in chronological order.
        let mut seen = self.observations();
        let (mut sample, counters) = self.observe();
        for (copy, looks) in sample.copies.iter_mut().zip(std::mem::take(&mut seen.missing)) {
            copy.missing_log.mean_bytes = looks.sum / looks.count.max(1);
            copy.missing_log.most_bytes = looks.most;
        }
        if !seen.held {
            seen.most_behind.resize(counters.len(), 0);
            seen.longest_lag.resize(counters.len(), 0);
            for (at, one) in counters.iter().enumerate() {
                seen.most_behind[at] = seen.most_behind[at].max(one.generations_behind());
                seen.longest_lag[at] = seen.longest_lag[at].max(one.lag_seconds.unwrap_or(0));
            }
        }
        seen.samples.push(sample.clone());
        sample
    }

    fn observe_missing_log(&self) {
        let missing = self.copies.missing_log();
        let looks = &mut self.observations().missing;
        looks.resize(missing.len(), ByteCountStatistics::default());
        looks.iter_mut().zip(missing).for_each(|(looks, bytes)| looks.add(bytes));
    }

    fn observations(&self) -> MutexGuard<'_, CopyObservations> {
        self.seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Takes samples until `quit` is set.
    fn monitor(&self, interval: Duration, quit: &AtomicBool) {
        let mut next = Duration::ZERO;
        while !quit.load(Relaxed) {
            if self.began.elapsed() >= next {
                self.record_sample();
                next = self.began.elapsed() + interval;
            }
            self.observe_missing_log();
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    fn set_suspended(&self, held: bool) {
        self.copies.set_suspended(held);
        self.observations().held = held;
    }

    /// Suspends the copies for a while, then resumes them and waits until they have caught up. Returns the samples at
    /// the start and end of the catch-up, or `None` if it did not complete.
    fn suspend_and_catch_up(
        &self,
        held: Duration,
        stop: &Cancellation,
    ) -> Option<(ReplicationSample, ReplicationSample)> {
        self.set_suspended(true);
        wait(held, || stop.is_cancelled());
        self.copies.set_suspended(false);
        let first = self.record_sample();
        let caught_up = || {
            let counters = self.copies.counters();
            counters.iter().all(|one| one.generations_behind() <= MAX_CAUGHT_UP_LAG || one.failure.is_some())
        };
        let ended = wait(self.catching_up, || stop.is_cancelled() || caught_up()) && !stop.is_cancelled();
        self.caught_up.store(ended, Relaxed);
        let last = self.record_sample();
        self.observations().held = false;
        ended.then_some((first, last))
    }
}

/// Waits until `is` returns true or the time has elapsed. Returns whether the condition was met.
fn wait(time: Duration, is: impl Fn() -> bool) -> bool {
    let began = Instant::now();
    loop {
        if is() {
            return true;
        }
        if began.elapsed() >= time {
            return false;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Guard that sets a flag when it is dropped, even if the thread panics. The flag allows the load to end.
struct MonitorEndGuard<'a>(&'a AtomicBool);

impl Drop for MonitorEndGuard<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

impl TestRun<'_> {
    /// Runs the phases of a replication test that lie between database creation and verification.
    pub(super) fn replicate(
        &self,
        watch: &mut RunRecorder<'_>,
        samples: &mut SampleFile,
    ) -> Result<LoadPhaseResult, RunError> {
        let TestRun { profile, engine, plan, .. } = *self;
        watch.begin_phase(RunPhase::Attach, 1);
        let store = engine.open(plan, DatabaseOpenMode::Attach).map_err(|error| watch.run_error(error))?;
        let initial_bytes = database_bytes(&*store, plan);
        let mut loaded =
            LoadPhaseResult { initial_bytes, final_bytes: initial_bytes, ..LoadPhaseResult::default() };
        let followed = self.seed(&*store, watch).and_then(|copies| {
            let Some(copies) = copies else { return Ok(()) };
            test_log::settings(profile, plan, watch);
            store.start_maintenance(&profile.maintenance())?;
            self.follow(&*store, copies, &mut loaded, watch, samples)
        });
        loaded.io_errors = store.io().iter().map(|io| io.errors).sum();
        watch.begin_phase(RunPhase::Shutdown, 1);
        (loaded.scan, loaded.defragmentation) = (store.finish_scan(), store.finish_defragmentation());
        loaded.final_bytes = database_bytes(&*store, plan);
        let closed = store.shutdown();
        loaded.failure = loaded.failure.or(followed.err()).or(closed.err());
        if let (Some(replication), true) = (&mut loaded.replication, loaded.failure.is_none()) {
            self.verify_copies(replication, watch);
        }
        let removed = plan.copies.iter().try_for_each(remove);
        loaded.failure = loaded.failure.or(removed.err());
        if let Some(error) = &loaded.failure {
            watch.log(&format!("The test failed: {error}"));
        }
        watch.store_interim_result(loaded.clone());
        Ok(loaded)
    }

    /// Seeds the copies from the open databases. Returns `None` if the test was stopped.
    fn seed(
        &self,
        store: &dyn DatabaseStore,
        watch: &mut RunRecorder<'_>,
    ) -> Result<Option<Box<dyn PassiveCopies>>, Error> {
        let sizes: Vec<u64> =
            self.plan.copies.iter().map(|copy| store.database_bytes(copy.database)).collect();
        watch.begin_phase(RunPhase::Seed, sizes.iter().sum());
        let seeded = store.replicate(&self.plan.copies, &mut |copied| {
            watch.advance(copied, "");
            !self.stop.is_cancelled()
        });
        match seeded {
            Err(_) if self.stop.is_cancelled() => Ok(None),
            seeded => seeded.map(Some),
        }
    }

    fn follow(
        &self,
        store: &dyn DatabaseStore,
        copies: Box<dyn PassiveCopies>,
        loaded: &mut LoadPhaseResult,
        watch: &mut RunRecorder<'_>,
        samples: &mut SampleFile,
    ) -> Result<(), Error> {
        let TestRun { profile, plan, stop, .. } = *self;
        let duration = profile.duration.0;
        let following = PassiveCopyMonitor {
            store,
            copies: &*copies,
            began: Instant::now(),
            seen: Mutex::default(),
            catching_up: duration.saturating_mul(MAX_CATCH_UP),
            caught_up: AtomicBool::new(false),
            over: AtomicBool::new(false),
        };
        let (quit, mut behind, mut steady_end) = (AtomicBool::new(false), None, None);
        let copies_seen = Some(following.copies);
        let drive = MeasurementDriver {
            store,
            copies: copies_seen,
            plan,
            profile,
            stop,
            measured_before: 0.0,
            goal: MeasurementGoal::Time,
        };
        let driven = std::thread::scope(|scope| {
            let _quit = MonitorEndGuard(&quit);
            scope.spawn(|| following.monitor(profile.sample_interval.0, &quit));
            let driven = drive.run_with_concurrent_work(samples, watch, &following, || {
                let _over = MonitorEndGuard(&following.over);
                steady_end = Some(following.record_sample());
                behind = following.suspend_and_catch_up(duration / SUSPENSION_DIVISOR, stop);
            });
            watch.begin_phase(RunPhase::Drain, 1);
            following.copies.drain()?;
            let drained = || following.copies.has_ended() || stop.is_cancelled();
            wait(following.catching_up.max(MIN_DRAIN), drained);
            following.record_sample();
            driven
        });
        let drained = copies.has_ended();
        let caught_up = following.caught_up.load(Relaxed);
        let seen = following.seen.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        let counters = copies.finish();
        let (alone, together) = driven?;
        let begin = steady_end.as_ref().map_or(0.0, |end| end.at_seconds - alone.seconds);
        // `seen.samples` includes the samples taken at `first` and `last`.
        let part = |first: f64, last: f64| {
            let from = seen.samples.partition_point(|sample| sample.at_seconds < first);
            let to = seen.samples.partition_point(|sample| sample.at_seconds <= last);
            ReplicationPart::from_samples(seen.samples.get(from..to).unwrap_or_default())
        };
        let failed = counters.iter().any(|one| one.failure.is_some());
        loaded.replication = Some(ReplicationTestResult {
            steady: steady_end.as_ref().and_then(|end| part(begin, end.at_seconds)),
            catch_up: behind.as_ref().and_then(|(first, last)| part(first.at_seconds, last.at_seconds)),
            copies: self.outcomes(&counters, &seen),
            cache_bytes: plan.copies.first().map_or(0, |copy| copy.cache_bytes),
            checkpoint_depth: plan.copies.first().map_or(0, |copy| copy.checkpoint_depth),
            log_bytes: store.log_bytes(),
            complete: drained && caught_up && !failed && !stop.is_cancelled(),
            samples: seen
                .samples
                .into_iter()
                .map(|sample| ReplicationSample { at_seconds: sample.at_seconds - begin, ..sample })
                .collect(),
        });
        for one in loaded.replication.iter().flat_map(|replication| &replication.copies) {
            let kept = if one.keep_instance { "kept" } else { "discarded after every batch" };
            watch.log(&format!("{}: instance {kept}, {} logs replayed", one.directory.display(), one.logs));
        }
        loaded.failure = together.failure.clone();
        let complete = together.failure.is_none() && alone.seconds > 0.0 && !stop.is_cancelled();
        let samples = alone.samples.into_iter().chain(together.samples).collect();
        loaded.measured = Measurement { complete, samples, failure: together.failure, ..alone };
        Ok(())
    }

    fn outcomes(&self, counters: &[CopyCounters], seen: &CopyObservations) -> Vec<ReplicatedCopy> {
        let outcome = |(at, (copy, one)): (usize, (&CopyPlan, &CopyCounters))| ReplicatedCopy {
            instance: named_row(&self.plan.instances[copy.database]).instance,
            directory: copy.directory.clone(),
            keep_instance: copy.keep_instance,
            stream_log: copy.stream_log,
            logs: one.logs,
            most_behind: seen.most_behind.get(at).copied().unwrap_or(0),
            longest_lag_seconds: seen.longest_lag.get(at).copied().unwrap_or(0),
            failure: one.failure.clone(),
        };
        self.plan.copies.iter().zip(counters).enumerate().map(outcome).collect()
    }

    /// Verifies the pages of the copies. A copy with bad pages is reported as failed.
    fn verify_copies(&self, replication: &mut ReplicationTestResult, watch: &mut RunRecorder<'_>) {
        if self.stop.is_cancelled() {
            return;
        }
        let file = |copy: &CopyPlan| {
            let database = &self.plan.instances[copy.database].database;
            InstancePlan {
                number: copy.database + 1,
                database: copy.directory.join(database.file_name().unwrap_or_default()),
                log_dir: copy.directory.clone(),
                initial_bytes: 0,
            }
        };
        let plan = RunPlan { instances: self.plan.copies.iter().map(file).collect(), ..self.plan.clone() };
        let Some(verified) = self.verify_files(&plan, VerificationDepth::Pages, RunPhase::Verify, watch)
        else {
            return;
        };
        for (copy, file) in replication.copies.iter_mut().zip(verified.files) {
            if file.bad > 0 && copy.failure.is_none() {
                copy.failure = Some(format!("{} bad pages: {}", file.bad, file.findings.join("; ")));
            }
        }
    }
}

fn remove(copy: &CopyPlan) -> Result<(), Error> {
    match std::fs::remove_dir_all(&copy.directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::io(&copy.directory, &error)),
        _ => Ok(()),
    }
}
