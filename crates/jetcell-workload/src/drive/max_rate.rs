//! Measuring for [`search`](crate::search): the load goes on while its rate is changed from step to step.

use std::time::{Duration, Instant};

use crate::drive::Drive;
use crate::drive::search::{Ask, find_max};
use crate::load::Load;
use crate::measurement::{
    CONFIRMATIONS, Latencies, LatencySummary, Measurement, OpenLoop, Repetition, Sample, SampleFile,
    Saturation, Step, broken,
};
use crate::observer::{Heartbeat, Observer, Phase};
use crate::profile::Profile;

/// Share of a step's measured time that the rate is asked for before.
const SETTLE: u32 = 3;

const TICK: Duration = Duration::from_millis(50);

impl Drive<'_> {
    /// Searches for the highest rate that holds. What is measured is its confirmation; without one nothing is.
    pub(crate) fn find_max(
        &self,
        load: &Load<'_>,
        clock: Instant,
        file: &mut SampleFile,
        observer: &mut dyn Observer,
    ) -> Measurement {
        let settle = self.profile.duration.0 / SETTLE;
        let mut saturation = Saturation { settle_seconds: settle.as_secs_f64(), ..Saturation::default() };
        let mut measured = Measurement::default();
        observer.begin(Phase::Search, 0);
        // More than the threads do by themselves cannot be asked of them; half of it is a good place to begin.
        load.take_tally();
        let began = Instant::now();
        self.wait(load, clock, settle, "without a rate", observer);
        saturation.closed_loop_rate = load.operations() as f64 / began.elapsed().as_secs_f64();
        let found = find_max(saturation.closed_loop_rate / 2.0, |ask| {
            let number = saturation.steps.len() + 1;
            let note = format!("step {number}: {} operations/s", ask.rate);
            load.start_pace(ask.rate);
            self.wait(load, clock, settle, &note, observer);
            let step = match ask.confirm {
                false => self.step(load, clock, ask, &note, observer),
                true => {
                    measured = self.confirm(load, clock, ask.rate, &saturation, file, observer);
                    let step = self.confirmed(ask, &measured);
                    if step.broken.is_some() {
                        measured = Measurement::default();
                        restart(file, observer);
                        observer.begin(Phase::Search, 0);
                    }
                    step
                }
            };
            if self.over(load) {
                return None;
            }
            observer.log(&describe(&step));
            let held = step.broken.is_none();
            saturation.steps.push(step);
            observer.measured(Measurement { saturation: Some(saturation.clone()), ..Measurement::default() });
            Some(held)
        });
        saturation.sustained_rate = found.sustained;
        saturation.first_failed_rate = found.first_failed;
        saturation.ended = found.ended;
        Measurement { complete: found.ended, saturation: Some(saturation), ..measured }
    }

    fn wait(&self, load: &Load<'_>, clock: Instant, time: Duration, note: &str, observer: &mut dyn Observer) {
        let began = Instant::now();
        let mut heartbeat = Heartbeat::new();
        while began.elapsed() < time && !self.over(load) {
            observer.advance(0, note);
            heartbeat.beat(observer, || self.snapshot(load, clock));
            std::thread::sleep(TICK.min(time.saturating_sub(began.elapsed())));
        }
    }

    /// One window at the rate that has settled.
    fn step(
        &self,
        load: &Load<'_>,
        clock: Instant,
        ask: Ask,
        note: &str,
        observer: &mut dyn Observer,
    ) -> Step {
        load.start_pace(ask.rate);
        load.take_tally();
        let began = Instant::now();
        let first = self.snapshot(load, clock);
        let (mut last, mut samples) = (first.clone(), Vec::new());
        let (duration, interval) = (self.profile.duration.0, self.profile.sample_interval.0);
        while began.elapsed() < duration && !self.over(load) {
            let left = duration.saturating_sub(began.elapsed());
            self.wait(load, clock, interval.min(left), note, observer);
            let now = self.snapshot(load, clock);
            // A remainder much shorter than an interval would be mostly noise.
            if left >= interval || samples.is_empty() {
                samples.push(Sample::between(&last, &now, first.at));
            }
            last = now;
        }
        let open_loop = self.caught_up(load);
        let latency = all_operations(&load.take_tally().operations);
        self.judged(ask, Repetition::between(&first, &last, &samples), latency, open_loop)
    }

    fn confirm(
        &self,
        load: &Load<'_>,
        clock: Instant,
        rate: f64,
        search: &Saturation,
        file: &mut SampleFile,
        observer: &mut dyn Observer,
    ) -> Measurement {
        let profile =
            Profile { rate: Some(rate), repeat: CONFIRMATIONS, find_max: false, ..self.profile.clone() };
        Drive { profile: &profile, ..*self }.measure(load, clock, file, observer, Some(search))
    }

    /// A confirmation as a step of the curve: its worst windows decide.
    fn confirmed(&self, ask: Ask, measured: &Measurement) -> Step {
        let windows = &measured.repetitions;
        let mean = |value: fn(&Repetition) -> f64| {
            windows.iter().map(value).sum::<f64>() / windows.len().max(1) as f64
        };
        let highest = |value: fn(&Repetition) -> f64| windows.iter().map(value).fold(0.0, f64::max);
        let figures = Repetition {
            seconds: measured.seconds,
            transactional_iops: mean(|one| one.transactional_iops),
            operations_per_second: mean(|one| one.operations_per_second),
            database_read_ms: highest(|one| one.database_read_ms),
            log_write_ms: highest(|one| one.log_write_ms),
            maximum_database_read_ms: highest(|one| one.maximum_database_read_ms),
            maximum_log_write_ms: highest(|one| one.maximum_log_write_ms),
            page_fault_stalls: measured.cache.stalls,
        };
        self.judged(ask, figures, all_operations(&measured.tally.operations), measured.open_loop)
    }

    fn judged(
        &self,
        ask: Ask,
        figures: Repetition,
        operation_latency: LatencySummary,
        open_loop: Option<OpenLoop>,
    ) -> Step {
        let open_loop = open_loop.unwrap_or_default();
        Step {
            rate: ask.rate,
            confirming: ask.confirm,
            figures,
            operation_latency,
            behind_seconds: open_loop.behind_seconds,
            broken: broken(&self.profile.thresholds, &figures, &open_loop),
        }
    }
}

/// What was measured does not count.
fn restart(file: &mut SampleFile, observer: &mut dyn Observer) {
    if let Err(error) = file.restart() {
        observer.log(&format!("samples.csv could not be written: {error}"));
    }
}

fn all_operations(kinds: &[Latencies]) -> LatencySummary {
    let mut all = Latencies::default();
    kinds.iter().for_each(|kind| all.add(kind));
    all.summary()
}

/// A line of the test log.
fn describe(step: &Step) -> String {
    let Step { rate, figures, operation_latency, .. } = step;
    let outcome = match &step.broken {
        Some(rule) => format!("broke {}: {:.3}", rule.name, rule.measured),
        None if step.confirming => format!("held {CONFIRMATIONS} times in a row"),
        None => "held".into(),
    };
    format!(
        "Rate {rate}: {:.1} operations per second, p99 {:.2} msec, database read {:.2} msec, log write {:.2} msec: {outcome}",
        figures.operations_per_second,
        operation_latency.p99 as f64 / 1000.0,
        figures.database_read_ms,
        figures.log_write_ms
    )
}
