//! Warm-up and measurement. The load starts once and runs through both. The measured interval lies between two
//! snapshots of the counters, so nothing starts or stops at its boundaries.

mod alone;
mod forecast;
mod maintenance_turns;
mod max_rate;
mod search;

use std::time::{Duration, Instant};

use jetcell_host::Cancellation;

use crate::engine::{DatabaseStore, PassiveCopies};
use crate::error::Error;
use crate::layout::RunPlan;
use crate::load::DatabaseLoad;
use crate::measurement::{
    ArraySample, CacheUsage, CounterSnapshot, HostCounters, HostUsage, LoadTally, Measurement,
    OpenLoopBacklog, Repetition, Sample, SampleFile, SaturationSearch, SteadyState,
};
use crate::observer::{CounterHeartbeat, Observer, RunPhase};
use crate::profile::Profile;
use jetcell_host::machine::DirectoryStorage;

use self::maintenance_turns::MaintenanceTurns;

/// Percentage of the cache that must be in use before the measurement starts. Jetstress: `PreloadJetCache`.
const WARM_PERCENT: u64 = 90;

/// Warm-up ends if the cache has not grown for this long, because the cache then contains every page that the load
/// uses.
const WARM_STALL_TIMEOUT: Duration = Duration::from_secs(10);

/// Minimum duration, in seconds, before a measurement can be considered settled. Cache and log activity is periodic,
/// and a shorter measurement may cover less than one period. The model used by this crate's tests has no such period,
/// so tests use a shorter minimum.
const MIN_SETTLED_SECONDS: f64 = if cfg!(test) { 1.0 } else { 30.0 };

/// Grace period after a measurement for the load to catch up with its schedule. One slow operation delays the
/// operations queued after it, but that alone does not mean that the rate is too high.
const DUE_GRACE_PERIOD: Duration = Duration::from_millis(500);

/// Interval at which a measurement reports progress and checks for stop requests.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Condition that ends a measurement.
#[derive(Clone, Copy)]
pub(crate) enum MeasurementGoal<'a> {
    /// The duration in the profile has elapsed.
    Time,
    /// Every database has closed the number of logs specified in the profile. The slice contains the first generation
    /// of each database.
    Logs(&'a [u32]),
    /// The concurrent work has completed.
    ConcurrentWork(&'a dyn ConcurrentWork),
}

/// Work that runs concurrently with the load.
pub(crate) trait ConcurrentWork: Sync {
    /// Returns the phase to report to the observer.
    fn phase(&self) -> RunPhase {
        RunPhase::Backup
    }
    /// Returns the total size of the work in bytes.
    fn total(&self) -> u64;
    /// Returns the number of bytes completed.
    fn done(&self) -> u64;
    /// Returns true if the work has completed.
    fn is_finished(&self) -> bool;
}

/// Drives one measurement. The fields are its parameters.
pub(crate) struct MeasurementDriver<'a> {
    /// The open databases.
    pub(crate) store: &'a dyn DatabaseStore,
    /// Passive copies that follow the databases.
    pub(crate) copies: Option<&'a dyn PassiveCopies>,
    /// The plan, which lists the files of the run.
    pub(crate) plan: &'a RunPlan,
    /// The profile of the run.
    pub(crate) profile: &'a Profile,
    /// Signal that ends the measurement early.
    pub(crate) stop: &'a Cancellation,
    /// Seconds already measured before an interruption or by an earlier measurement.
    pub(crate) measured_before: f64,
    /// Condition that ends the measurement.
    pub(crate) goal: MeasurementGoal<'a>,
}

impl MeasurementDriver<'_> {
    /// Warms the cache and measures. Each sample is written to `file` as soon as it is taken.
    pub(crate) fn run(
        &self,
        file: &mut SampleFile,
        observer: &mut dyn Observer,
    ) -> Result<Measurement, Error> {
        let load = DatabaseLoad::new(self.store, self.plan.instances.len(), self.profile)?;
        let clock = Instant::now();
        let (measured, failure) = load.run(|load| {
            let warm_seconds = self.warm_up(load, clock, observer);
            let measured = if self.profile.find_max {
                self.find_max(load, clock, file, observer)
            } else {
                self.measure(load, clock, file, observer, None)
            };
            self.keep_load_running(load, clock, observer);
            Measurement { warm_seconds, ..measured }
        });
        let failure = failure.or_else(|| measured.failure.clone());
        Ok(Measurement { complete: measured.complete && failure.is_none(), failure, ..measured })
    }

    /// Warms the cache and measures twice: first for the duration in the profile, then until the concurrent `work`
    /// completes.
    pub(crate) fn run_with_concurrent_work(
        &self,
        file: &mut SampleFile,
        observer: &mut dyn Observer,
        work: &dyn ConcurrentWork,
        begin: impl FnOnce() + Send,
    ) -> Result<(Measurement, Measurement), Error> {
        let load = DatabaseLoad::new(self.store, self.plan.instances.len(), self.profile)?;
        let clock = Instant::now();
        let ((alone, together), failure) = load.run(|load| {
            let warm_seconds = self.warm_up(load, clock, observer);
            let alone = self.measure(load, clock, file, observer, None);
            let drive = MeasurementDriver {
                goal: MeasurementGoal::ConcurrentWork(work),
                measured_before: alone.seconds,
                ..*self
            };
            let together = std::thread::scope(|scope| {
                let beside = (!self.is_over(load)).then(|| scope.spawn(begin));
                match beside {
                    Some(_) => drive.measure(load, clock, file, observer, None),
                    None => Measurement::default(),
                }
            });
            self.keep_load_running(load, clock, observer);
            (Measurement { warm_seconds, ..alone }, together)
        });
        let complete = together.complete && failure.is_none();
        Ok((alone, Measurement { complete, failure, ..together }))
    }

    pub(crate) fn snapshot(&self, load: &DatabaseLoad<'_>, clock: Instant) -> CounterSnapshot {
        CounterSnapshot {
            at: clock.elapsed().as_secs_f64(),
            io: self.store.io(),
            cache: self.store.cache(),
            arrays: self.store.arrays(),
            operations: load.operations(),
            copies: self.copies.map(PassiveCopies::counters).unwrap_or_default(),
        }
    }

    /// Returns the kernel names of the disks that hold the directories of the run.
    fn devices(&self) -> Vec<String> {
        let directories = self.profile.dirs.iter().chain(&self.profile.log_dirs);
        let mut names: Vec<String> =
            directories.filter_map(|dir| Some(DirectoryStorage::examine(dir).device?.name)).collect();
        names.sort();
        names.dedup();
        names
    }

    pub(crate) fn is_over(&self, load: &DatabaseLoad<'_>) -> bool {
        self.stop.is_cancelled() || load.has_failed()
    }

    /// Returns how many bytes of the cache must be in use before the measurement starts.
    fn warm_bytes(&self) -> u64 {
        self.plan.cache_bytes.min(self.plan.initial_bytes()) / 100 * WARM_PERCENT
    }

    fn warm_up(&self, load: &DatabaseLoad<'_>, clock: Instant, observer: &mut dyn Observer) -> f64 {
        let (started, bound) = (Instant::now(), self.warm_bytes());
        observer.begin_phase(RunPhase::Warm, bound);
        self.fill_cache(load, clock, bound, observer, |used, observer| observer.advance(used.min(bound), ""));
        started.elapsed().as_secs_f64()
    }

    /// Runs the load until the cache has grown to `bound` bytes or has stopped growing.
    fn fill_cache(
        &self,
        load: &DatabaseLoad<'_>,
        clock: Instant,
        bound: u64,
        observer: &mut dyn Observer,
        progress: impl Fn(u64, &mut dyn Observer),
    ) {
        let (mut highest, mut grown) = (0, Instant::now());
        let mut heartbeat = CounterHeartbeat::new();
        while !self.is_over(load) {
            let used = self.store.cache().used_bytes;
            progress(used, observer);
            heartbeat.beat(observer, || self.snapshot(load, clock));
            if used > highest {
                (highest, grown) = (used, Instant::now());
            }
            if used >= bound || grown.elapsed() >= WARM_STALL_TIMEOUT {
                observer.log(&format!(
                    "Database Cache Size (Last: {used}, Lower Bound: {bound}, Upper Bound: none)"
                ));
                break;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Keeps the load running after the measurement while other hosts are still measuring.
    fn keep_load_running(&self, load: &DatabaseLoad<'_>, clock: Instant, observer: &mut dyn Observer) {
        let mut heartbeat = CounterHeartbeat::new();
        while observer.must_hold_load() && !self.is_over(load) {
            heartbeat.beat(observer, || self.snapshot(load, clock));
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Measures until the goal is reached. `search` is the search state to include in interim results.
    pub(crate) fn measure(
        &self,
        load: &DatabaseLoad<'_>,
        clock: Instant,
        file: &mut SampleFile,
        observer: &mut dyn Observer,
        search: Option<&SaturationSearch>,
    ) -> Measurement {
        let window = match self.goal {
            MeasurementGoal::Time => self.profile.duration.0,
            MeasurementGoal::Logs(_) | MeasurementGoal::ConcurrentWork(_) => Duration::MAX,
        };
        let turns = MaintenanceTurns::new(self.store, self.profile);
        let in_round = turns.as_ref().map_or(1, MaintenanceTurns::turns_per_round);
        let duration = window.saturating_mul(self.profile.repeat.saturating_mul(in_round));
        match self.goal {
            MeasurementGoal::Time => observer.begin_phase(RunPhase::Measure, duration.as_millis() as u64),
            MeasurementGoal::ConcurrentWork(work) => observer.begin_phase(work.phase(), work.total()),
            MeasurementGoal::Logs(starts) => {
                observer.begin_phase(RunPhase::Generate, u64::from(self.profile.logs) * starts.len() as u64);
            }
        }
        let devices = self.devices();
        if let Some(rate) = self.profile.rate {
            load.start_pace(rate);
        }
        let mut failure = turns.as_ref().and_then(|turns| turns.begin(0).err());
        load.take_tally();
        let started = Instant::now();
        let mut heartbeat = CounterHeartbeat::new();
        let mut view = MeasuredWindow::begin(self.snapshot(load, clock), HostCounters::read(&devices));
        let (mut repetition_start, mut repetition_samples) = (view.first.clone(), 0);
        let mut next = self.profile.sample_interval.0;
        let mut settled = false;
        loop {
            let elapsed = started.elapsed();
            let ended = settled || self.has_reached_goal(elapsed, duration);
            let over = ended || failure.is_some() || self.is_over(load);
            if elapsed >= next || over {
                let now = self.snapshot(load, clock);
                // A remainder that is much shorter than an interval would be mostly noise. It is included only in the
                // totals.
                if elapsed >= next || view.samples.is_empty() {
                    let sample = Sample::between(&view.last, &now, view.first.at - self.measured_before);
                    if let Err(error) = file.add(&sample) {
                        observer.log(&format!("failed to write samples.csv: {error}"));
                    }
                    observer.report_sample(&sample);
                    view.add(sample, &now, HostCounters::read(&devices));
                    settled |= self.profile.stop_when_steady
                        && SteadyState::is_settled(&view.samples, MIN_SETTLED_SECONDS);
                }
                view.last = now;
                next += self.profile.sample_interval.0;
                if !over && observer.wants_measured() {
                    let saturation = search.cloned();
                    observer
                        .report_measurement(Measurement { saturation, ..view.measured(load, load.tally()) });
                }
            }
            if elapsed >= window.saturating_mul(view.repetitions.len() as u32 + 1) {
                let now = if over { view.last.clone() } else { self.snapshot(load, clock) };
                let own = view.samples.get(repetition_samples..).unwrap_or_default();
                let one = Repetition::between(&repetition_start, &now, own);
                let turn = view.repetitions.len();
                let maintenance = turns.as_ref().map(|turns| turns.maintenance(turn)).unwrap_or_default();
                view.repetitions.push(Repetition { maintenance, ..one });
                repetition_start = match turns.as_ref().filter(|_| !over) {
                    Some(turns) => {
                        failure = turns.begin(turn + 1).err();
                        self.snapshot(load, clock)
                    }
                    None => now,
                };
                repetition_samples = view.samples.len();
            }
            if over {
                break;
            }
            match self.goal {
                MeasurementGoal::Time => observer.advance(elapsed.as_millis() as u64, ""),
                MeasurementGoal::Logs(starts) => observer.advance(self.closed_logs(starts).sum(), ""),
                MeasurementGoal::ConcurrentWork(work) => observer.advance(work.done(), "while the load runs"),
            }
            heartbeat.beat(observer, || self.snapshot(load, clock));
            if observer.wants_totals() {
                let now = self.snapshot(load, clock);
                observer.report_totals(view.totals(&now, load, load.tally()));
            }
            let window_end = window.saturating_mul(view.repetitions.len() as u32 + 1);
            let nearest = window_end.min(next).saturating_sub(elapsed);
            std::thread::sleep(POLL_INTERVAL.min(nearest));
        }
        view.last_host = HostCounters::read(&devices);
        let complete = settled || self.has_reached_goal(started.elapsed(), duration);
        let measured = view.measured(load, load.take_tally());
        Measurement { complete, failure, open_loop: self.open_loop_after_grace(load), ..measured }
    }

    /// Returns the number of logs that each database has closed, capped at the number in the profile.
    fn closed_logs<'b>(&'b self, starts: &'b [u32]) -> impl Iterator<Item = u64> + 'b {
        let closed = |(database, start): (usize, &u32)| {
            let generated = self.store.generation(database).saturating_sub(*start);
            u64::from(generated.min(self.profile.logs))
        };
        starts.iter().enumerate().map(closed)
    }

    /// Returns true if the measurement has reached its goal.
    fn has_reached_goal(&self, elapsed: Duration, duration: Duration) -> bool {
        match self.goal {
            MeasurementGoal::Time => elapsed >= duration,
            MeasurementGoal::ConcurrentWork(work) => work.is_finished(),
            MeasurementGoal::Logs(starts) => {
                self.closed_logs(starts).all(|logs| logs >= u64::from(self.profile.logs))
            }
        }
    }

    /// Gives the load a grace period to catch up, then returns how well it kept its rate.
    pub(crate) fn open_loop_after_grace(&self, load: &DatabaseLoad<'_>) -> Option<OpenLoopBacklog> {
        let began = Instant::now();
        loop {
            let state = load.open_loop();
            if state.is_none_or(|state| state.kept_rate())
                || began.elapsed() >= DUE_GRACE_PERIOD
                || self.is_over(load)
            {
                return state;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// The time between the start of the measurement and its last snapshot.
struct MeasuredWindow {
    first: CounterSnapshot,
    last: CounterSnapshot,
    first_host: HostCounters,
    last_host: HostCounters,
    samples: Vec<Sample>,
    host_samples: Vec<HostUsage>,
    array_samples: Vec<ArraySample>,
    repetitions: Vec<Repetition>,
}

impl MeasuredWindow {
    fn begin(first: CounterSnapshot, host: HostCounters) -> MeasuredWindow {
        MeasuredWindow {
            last: first.clone(),
            first,
            first_host: host.clone(),
            last_host: host,
            samples: Vec::new(),
            host_samples: Vec::new(),
            array_samples: Vec::new(),
            repetitions: Vec::new(),
        }
    }

    fn add(&mut self, sample: Sample, now: &CounterSnapshot, host: HostCounters) {
        if let Some((before, after)) = self.last.arrays.zip(now.arrays) {
            self.array_samples.push(after.since(&before, sample.at_seconds, sample.seconds));
        }
        self.host_samples.push(host.since(&self.last_host, sample.at_seconds, sample.seconds));
        self.last_host = host;
        self.samples.push(sample);
    }

    /// Returns the results so far, except whether the measurement completed or failed.
    fn measured(&self, load: &DatabaseLoad<'_>, tally: LoadTally) -> Measurement {
        let totals = self.totals(&self.last, load, tally);
        Measurement {
            host: self.last_host.since(&self.first_host, totals.seconds, totals.seconds),
            host_samples: self.host_samples.clone(),
            array_samples: self.array_samples.clone(),
            repetitions: self.repetitions.clone(),
            samples: self.samples.clone(),
            ..totals
        }
    }

    /// Returns the totals from the start of the measurement to `last`.
    fn totals(&self, last: &CounterSnapshot, load: &DatabaseLoad<'_>, tally: LoadTally) -> Measurement {
        let first = &self.first;
        Measurement {
            open_loop: load.open_loop(),
            seconds: last.at - first.at,
            io: first.io.iter().zip(&last.io).map(|(earlier, later)| later.since(earlier)).collect(),
            cache: CacheUsage { stalls: last.cache.stalls.saturating_sub(first.cache.stalls), ..last.cache },
            tally,
            ..Measurement::default()
        }
    }
}
