//! The replication test. Passive copies replicate databases that are under load. First they keep up with the load.
//! Then they are suspended and have to catch up.
//!
//! ```text
//!  seed ──> warm: load and copies ──> steady: --duration ──> held: a quarter of it ──> catch up ──> drained without load
//! ```

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use ese_engine::Error;

use super::{Test, database_bytes, test_log};
use crate::drive::{Beside, Drive, Goal};
use crate::engine::{Copies, Depth, Opening, Store};
use crate::layout::{CopyPlan, InstancePlan, Plan};
use crate::measurement::{CopyCounters, Measurement, SampleFile};
use crate::observer::{Observer, Phase};
use crate::result::{
    CopySample, MissingLog, ReplicatedCopy, Replication, ReplicationPart, ReplicationSample, SideIo,
};
use crate::run::RunError;
use crate::run::assembly::{Loaded, named_row};
use crate::run::recorder::Recorder;

/// The copies are suspended for the test duration divided by this number.
const HELD_SHARE: u32 = 4;
/// Interval at which the copies are polled.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// A copy counts as caught up if it lags by at most this many generations: the log that was just closed.
const CAUGHT_UP: u32 = 1;
/// Maximum time to catch up, as a multiple of the test duration. Copies that replay more slowly than the load writes
/// would never catch up, so the load ends after this time.
const MAX_CATCH_UP: u32 = 4;
/// Minimum time allowed for replaying the remaining logs.
const MIN_DRAIN: Duration = Duration::from_secs(60);

/// State of the copies while the load runs.
struct Following<'a> {
    store: &'a dyn Store,
    copies: &'a dyn Copies,
    began: Instant,
    seen: Mutex<Seen>,
    catching_up: Duration,
    caught_up: AtomicBool,
    over: AtomicBool,
}

/// Observations made by the watching thread.
#[derive(Default)]
struct Seen {
    samples: Vec<ReplicationSample>,
    most_behind: Vec<u32>,
    longest_lag: Vec<u64>,
    held: bool,
    /// Amount of log that each copy had not received, observed since the last sample.
    missing: Vec<Looks>,
}

/// Statistics over repeated observations of a byte count.
#[derive(Clone, Copy, Default)]
struct Looks {
    sum: u64,
    count: u64,
    most: u64,
}

impl Looks {
    fn add(&mut self, bytes: u64) {
        (self.sum, self.count, self.most) = (self.sum + bytes, self.count + 1, self.most.max(bytes));
    }
}

impl Beside for Following<'_> {
    fn phase(&self) -> Phase {
        Phase::CatchUp
    }

    fn total(&self) -> u64 {
        self.catching_up.as_millis() as u64
    }

    fn done(&self) -> u64 {
        0
    }

    fn ended(&self) -> bool {
        self.over.load(Relaxed)
    }
}

impl Following<'_> {
    /// Returns the current state of both sides.
    fn look(&self) -> (ReplicationSample, Vec<CopyCounters>) {
        let counters = self.copies.counters();
        let sides = self.store.io();
        let copy = |one: &CopyCounters| CopySample {
            io: SideIo::of(&one.io),
            copy_queue: one.copy_queue,
            replay_queue: one.replay_queue,
            lag_seconds: one.lag_seconds,
            logs: one.logs,
            missing_log: MissingLog { streamed_bytes: one.streamed_bytes, ..MissingLog::default() },
        };
        let sample = ReplicationSample {
            at_seconds: self.began.elapsed().as_secs_f64(),
            active: sides.iter().map(SideIo::of).fold(SideIo::default(), SideIo::plus),
            generations: (0..sides.len()).map(|database| u64::from(self.store.generation(database))).sum(),
            copies: counters.iter().map(copy).collect(),
        };
        (sample, counters)
    }

    fn note(&self) -> ReplicationSample {
        self.look_at_log();
        // The lock is held while both sides are read, so that samples are in chronological order.
        let mut seen = self.seen();
        let (mut sample, counters) = self.look();
        for (copy, looks) in sample.copies.iter_mut().zip(std::mem::take(&mut seen.missing)) {
            copy.missing_log.mean_bytes = looks.sum / looks.count.max(1);
            copy.missing_log.most_bytes = looks.most;
        }
        if !seen.held {
            seen.most_behind.resize(counters.len(), 0);
            seen.longest_lag.resize(counters.len(), 0);
            for (at, one) in counters.iter().enumerate() {
                seen.most_behind[at] = seen.most_behind[at].max(one.behind());
                seen.longest_lag[at] = seen.longest_lag[at].max(one.lag_seconds.unwrap_or(0));
            }
        }
        seen.samples.push(sample.clone());
        sample
    }

    fn look_at_log(&self) {
        let missing = self.copies.missing_log();
        let looks = &mut self.seen().missing;
        looks.resize(missing.len(), Looks::default());
        looks.iter_mut().zip(missing).for_each(|(looks, bytes)| looks.add(bytes));
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Takes samples until `quit` is set.
    fn watch(&self, interval: Duration, quit: &AtomicBool) {
        let mut next = Duration::ZERO;
        while !quit.load(Relaxed) {
            if self.began.elapsed() >= next {
                self.note();
                next = self.began.elapsed() + interval;
            }
            self.look_at_log();
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    fn hold(&self, held: bool) {
        self.copies.hold(held);
        self.seen().held = held;
    }

    /// Suspends the copies for a while, then resumes them and waits until they have caught up. Returns the samples at
    /// the start and end of the catch-up, or `None` if it did not complete.
    fn fall_behind(
        &self,
        held: Duration,
        over: &dyn Fn() -> bool,
    ) -> Option<(ReplicationSample, ReplicationSample)> {
        self.hold(true);
        wait(held, over);
        self.copies.hold(false);
        let first = self.note();
        let caught_up = || {
            let counters = self.copies.counters();
            counters.iter().all(|one| one.behind() <= CAUGHT_UP || one.failure.is_some())
        };
        let ended = wait(self.catching_up, || over() || caught_up()) && !over();
        self.caught_up.store(ended, Relaxed);
        let last = self.note();
        self.seen().held = false;
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
struct Ended<'a>(&'a AtomicBool);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

impl Test<'_> {
    /// Runs the phases of a replication test that lie between database creation and verification.
    pub(super) fn replicate(
        &self,
        watch: &mut Recorder<'_>,
        samples: &mut SampleFile,
    ) -> Result<Loaded, RunError> {
        let Test { profile, engine, plan, .. } = *self;
        watch.begin(Phase::Attach, 1);
        let store = engine.open(plan, Opening::Attach).map_err(|error| watch.failed(error))?;
        let initial_bytes = database_bytes(&*store, plan);
        let mut loaded = Loaded { initial_bytes, final_bytes: initial_bytes, ..Loaded::default() };
        let followed = self.seed(&*store, watch).and_then(|copies| {
            let Some(copies) = copies else { return Ok(()) };
            test_log::settings(profile, plan, watch);
            store.start_maintenance(&profile.maintenance())?;
            self.follow(&*store, copies, &mut loaded, watch, samples)
        });
        loaded.io_errors = store.io().iter().map(|io| io.errors).sum();
        watch.begin(Phase::Shutdown, 1);
        (loaded.scan, loaded.defragmentation) = (store.end_scan(), store.end_defragmentation());
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
        watch.publish(loaded.clone());
        Ok(loaded)
    }

    /// Seeds the copies from the open databases. Returns `None` if the test was stopped.
    fn seed(&self, store: &dyn Store, watch: &mut Recorder<'_>) -> Result<Option<Box<dyn Copies>>, Error> {
        let sizes: Vec<u64> =
            self.plan.copies.iter().map(|copy| store.database_bytes(copy.database)).collect();
        watch.begin(Phase::Seed, sizes.iter().sum());
        let seeded = store.replicate(&self.plan.copies, &mut |copied| {
            watch.advance(copied, "");
            !self.stop.is_set()
        });
        match seeded {
            Err(_) if self.stop.is_set() => Ok(None),
            seeded => seeded.map(Some),
        }
    }

    fn follow(
        &self,
        store: &dyn Store,
        copies: Box<dyn Copies>,
        loaded: &mut Loaded,
        watch: &mut Recorder<'_>,
        samples: &mut SampleFile,
    ) -> Result<(), Error> {
        let Test { profile, plan, stop, .. } = *self;
        let duration = profile.duration.0;
        let following = Following {
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
        let drive =
            Drive { store, copies: copies_seen, plan, profile, stop, measured_before: 0.0, goal: Goal::Time };
        let driven = std::thread::scope(|scope| {
            let _quit = Ended(&quit);
            scope.spawn(|| following.watch(profile.sample_interval.0, &quit));
            let driven = drive.run_beside(samples, watch, &following, || {
                let _over = Ended(&following.over);
                steady_end = Some(following.note());
                behind = following.fall_behind(duration / HELD_SHARE, &|| stop.is_set());
            });
            watch.begin(Phase::Drain, 1);
            following.copies.drain()?;
            let drained = || following.copies.ended() || stop.is_set();
            wait(following.catching_up.max(MIN_DRAIN), drained);
            following.note();
            driven
        });
        let drained = copies.ended();
        let caught_up = following.caught_up.load(Relaxed);
        let seen = following.seen.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
        let counters = copies.end();
        let (alone, together) = driven?;
        let begin = steady_end.as_ref().map_or(0.0, |end| end.at_seconds - alone.seconds);
        // `seen.samples` includes the samples taken at `first` and `last`.
        let part = |first: f64, last: f64| {
            let from = seen.samples.partition_point(|sample| sample.at_seconds < first);
            let to = seen.samples.partition_point(|sample| sample.at_seconds <= last);
            ReplicationPart::of(seen.samples.get(from..to).unwrap_or_default())
        };
        let failed = counters.iter().any(|one| one.failure.is_some());
        loaded.replication = Some(Replication {
            steady: steady_end.as_ref().and_then(|end| part(begin, end.at_seconds)),
            catch_up: behind.as_ref().and_then(|(first, last)| part(first.at_seconds, last.at_seconds)),
            copies: self.outcomes(&counters, &seen),
            cache_bytes: plan.copies.first().map_or(0, |copy| copy.cache_bytes),
            checkpoint_depth: plan.copies.first().map_or(0, |copy| copy.checkpoint_depth),
            log_bytes: store.log_bytes(),
            complete: drained && caught_up && !failed && !stop.is_set(),
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
        let complete = together.failure.is_none() && alone.seconds > 0.0 && !stop.is_set();
        let samples = alone.samples.into_iter().chain(together.samples).collect();
        loaded.measured = Measurement { complete, samples, failure: together.failure, ..alone };
        Ok(())
    }

    fn outcomes(&self, counters: &[CopyCounters], seen: &Seen) -> Vec<ReplicatedCopy> {
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
    fn verify_copies(&self, replication: &mut Replication, watch: &mut Recorder<'_>) {
        if self.stop.is_set() {
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
        let plan = Plan { instances: self.plan.copies.iter().map(file).collect(), ..self.plan.clone() };
        let Some(verified) = self.verify_files(&plan, Depth::Pages, Phase::Verify, watch) else { return };
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
