//! Searches for the highest sustained rate while the load runs. The rate changes from step to step.

use std::time::{Duration, Instant};

use crate::drive::Drive;
use crate::drive::forecast::Forecast;
use crate::drive::search::{Ask, find_max};
use crate::load::Load;
use crate::measurement::{
    CONFIRMATIONS, InstanceIo, Measurement, OpenLoop, Percentiles, Repetition, Sample, SampleFile,
    Saturation, Step, broken,
};
use crate::observer::{Heartbeat, Observer, Phase};
use crate::profile::Profile;

/// Warm-up time at the rate of a step, as a fraction (1/n) of the measured time.
const WARMUP_FRACTION: u32 = 3;

const POLL_INTERVAL: Duration = Duration::from_millis(50);

impl Drive<'_> {
    /// Searches for the highest sustained rate. Returns the measurement of the successful confirmation, or an empty
    /// measurement if no confirmation succeeded.
    pub(crate) fn find_max(
        &self,
        load: &Load<'_>,
        clock: Instant,
        file: &mut SampleFile,
        observer: &mut dyn Observer,
    ) -> Measurement {
        let settle = self.profile.duration.0 / WARMUP_FRACTION;
        let mut saturation = Saturation { settle_seconds: settle.as_secs_f64(), ..Saturation::default() };
        let mut measured = Measurement::default();
        let mut forecast = Forecast::begin(settle, self.profile.duration.0);
        observer.begin(Phase::Search, forecast.total());
        // The rate reached without a limit is an upper bound. The search starts at half of it.
        load.take_tally();
        let began = Instant::now();
        self.wait(load, clock, settle, "without a rate limit", &forecast, observer);
        saturation.closed_loop_rate = load.operations() as f64 / began.elapsed().as_secs_f64();
        let found = find_max(saturation.closed_loop_rate / 2.0, |ask| {
            let number = saturation.steps.len() + 1;
            let note = format!("step {number}: {} operations/s", ask.rate);
            forecast.asks(ask, &saturation.steps);
            load.start_pace(ask.rate);
            self.wait(load, clock, settle, &note, &forecast, observer);
            let step = match ask.confirm {
                false => self.step(load, clock, ask, &note, &forecast, observer),
                true => {
                    measured = self.confirm(load, clock, ask.rate, &saturation, file, observer);
                    let step = self.confirmed(ask, &measured);
                    if step.broken.is_some() {
                        measured = Measurement::default();
                        restart(file, observer);
                        forecast.resume();
                        observer.begin(Phase::Search, forecast.total());
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

    fn wait(
        &self,
        load: &Load<'_>,
        clock: Instant,
        time: Duration,
        note: &str,
        forecast: &Forecast,
        observer: &mut dyn Observer,
    ) {
        let began = Instant::now();
        let mut heartbeat = Heartbeat::new();
        while began.elapsed() < time && !self.over(load) {
            observer.advance(forecast.done(), note);
            heartbeat.beat(observer, || self.snapshot(load, clock));
            std::thread::sleep(POLL_INTERVAL.min(time.saturating_sub(began.elapsed())));
        }
    }

    /// Measures one step. The load must already have been running at this rate for a while.
    fn step(
        &self,
        load: &Load<'_>,
        clock: Instant,
        ask: Ask,
        note: &str,
        forecast: &Forecast,
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
            self.wait(load, clock, interval.min(left), note, forecast, observer);
            let now = self.snapshot(load, clock);
            // A remainder that is much shorter than an interval would be mostly noise.
            if left >= interval || samples.is_empty() {
                samples.push(Sample::between(&last, &now, first.at));
            }
            last = now;
        }
        let open_loop = self.caught_up(load);
        let io: Vec<InstanceIo> =
            first.io.iter().zip(&last.io).map(|(earlier, later)| later.since(earlier)).collect();
        let percentiles = Percentiles::of(&io, &load.take_tally().operations);
        self.judged(ask, Repetition::between(&first, &last, &samples), percentiles, open_loop)
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

    /// Converts a confirmation into a step of the curve, with the latencies of the slowest repetition.
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
            ..Repetition::default()
        };
        let percentiles = Percentiles::of(&measured.io, &measured.tally.operations);
        self.judged(ask, figures, percentiles, measured.open_loop)
    }

    fn judged(
        &self,
        ask: Ask,
        figures: Repetition,
        percentiles: Percentiles,
        open_loop: Option<OpenLoop>,
    ) -> Step {
        let open_loop = open_loop.unwrap_or_default();
        Step {
            rate: ask.rate,
            confirming: ask.confirm,
            figures,
            operation_latency: percentiles.operations,
            behind_seconds: open_loop.behind_seconds,
            broken: broken(&self.profile.thresholds, &figures, &percentiles, &open_loop),
        }
    }
}

/// Discards the samples before another confirmation is measured.
fn restart(file: &mut SampleFile, observer: &mut dyn Observer) {
    if let Err(error) = file.restart() {
        observer.log(&format!("failed to write samples.csv: {error}"));
    }
}

/// Formats a step as a line for the test log.
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
