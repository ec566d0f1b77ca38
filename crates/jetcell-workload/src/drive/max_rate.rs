//! Searches for the highest sustained rate while the load runs. The rate changes from step to step.

use std::time::{Duration, Instant};

use crate::drive::MeasurementDriver;
use crate::drive::forecast::SearchForecast;
use crate::drive::search::{ProbeRequest, find_max};
use crate::load::DatabaseLoad;
use crate::measurement::{
    CONFIRMATIONS, InstanceIo, LatencyPercentiles, Measurement, OpenLoopBacklog, Repetition, Sample,
    SampleFile, SaturationSearch, SaturationStep, first_broken_rule,
};
use crate::observer::{CounterHeartbeat, Observer, RunPhase};
use crate::profile::Profile;

/// Warm-up time at the rate of a step, as a fraction (1/n) of the measured time.
const WARMUP_FRACTION: u32 = 3;

const POLL_INTERVAL: Duration = Duration::from_millis(50);

impl MeasurementDriver<'_> {
    /// Searches for the highest sustained rate. Returns the measurement of the successful confirmation, or an empty
    /// measurement if no confirmation succeeded.
    pub(crate) fn find_max(
        &self,
        load: &DatabaseLoad<'_>,
        clock: Instant,
        file: &mut SampleFile,
        observer: &mut dyn Observer,
    ) -> Measurement {
        let settle = self.profile.duration.0 / WARMUP_FRACTION;
        let mut saturation =
            SaturationSearch { settle_seconds: settle.as_secs_f64(), ..SaturationSearch::default() };
        let mut measured = Measurement::default();
        let mut forecast = SearchForecast::new(settle, self.profile.duration.0);
        observer.begin_phase(RunPhase::Search, forecast.total());
        // The rate reached without a limit is an upper bound. The search starts at half of it.
        load.take_tally();
        let began = Instant::now();
        self.wait(load, clock, settle, "without a rate limit", &forecast, observer);
        saturation.closed_loop_rate = load.operations() as f64 / began.elapsed().as_secs_f64();
        let found = find_max(saturation.closed_loop_rate / 2.0, |ask| {
            let number = saturation.steps.len() + 1;
            let note = format!("step {number}: {} operations/s", ask.rate);
            forecast.update(ask, &saturation.steps);
            load.start_pace(ask.rate);
            self.wait(load, clock, settle, &note, &forecast, observer);
            let step = if ask.confirm {
                measured = self.confirm(load, clock, ask.rate, &saturation, file, observer);
                let step = self.confirmed(ask, &measured);
                if step.broken.is_some() {
                    measured = Measurement::default();
                    clear_samples(file, observer);
                    forecast.resume();
                    observer.begin_phase(RunPhase::Search, forecast.total());
                }
                step
            } else {
                self.measure_step(load, clock, ask, &note, &forecast, observer)
            };
            if self.is_over(load) {
                return None;
            }
            observer.log(&describe(&step));
            let held = step.broken.is_none();
            saturation.steps.push(step);
            observer.report_measurement(Measurement {
                saturation: Some(saturation.clone()),
                ..Measurement::default()
            });
            Some(held)
        });
        saturation.sustained_rate = found.sustained;
        saturation.first_failed_rate = found.first_failed;
        saturation.ended = found.ended;
        Measurement { complete: found.ended, saturation: Some(saturation), ..measured }
    }

    fn wait(
        &self,
        load: &DatabaseLoad<'_>,
        clock: Instant,
        time: Duration,
        note: &str,
        forecast: &SearchForecast,
        observer: &mut dyn Observer,
    ) {
        let began = Instant::now();
        let mut heartbeat = CounterHeartbeat::new();
        while began.elapsed() < time && !self.is_over(load) {
            observer.advance(forecast.done(), note);
            heartbeat.beat(observer, || self.snapshot(load, clock));
            std::thread::sleep(POLL_INTERVAL.min(time.saturating_sub(began.elapsed())));
        }
    }

    /// Measures one step. The load must already have been running at this rate for a while.
    fn measure_step(
        &self,
        load: &DatabaseLoad<'_>,
        clock: Instant,
        ask: ProbeRequest,
        note: &str,
        forecast: &SearchForecast,
        observer: &mut dyn Observer,
    ) -> SaturationStep {
        load.start_pace(ask.rate);
        load.take_tally();
        let began = Instant::now();
        let first = self.snapshot(load, clock);
        let (mut last, mut samples) = (first.clone(), Vec::new());
        let (duration, interval) = (self.profile.duration.0, self.profile.sample_interval.0);
        while began.elapsed() < duration && !self.is_over(load) {
            let left = duration.saturating_sub(began.elapsed());
            self.wait(load, clock, interval.min(left), note, forecast, observer);
            let now = self.snapshot(load, clock);
            // A remainder that is much shorter than an interval would be mostly noise.
            if left >= interval || samples.is_empty() {
                samples.push(Sample::between(&last, &now, first.at));
            }
            last = now;
        }
        let open_loop = self.open_loop_after_grace(load);
        let io: Vec<InstanceIo> =
            first.io.iter().zip(&last.io).map(|(earlier, later)| later.since(earlier)).collect();
        let percentiles = LatencyPercentiles::new(&io, &load.take_tally().operations);
        self.first_broken_rule(ask, Repetition::between(&first, &last, &samples), percentiles, open_loop)
    }

    fn confirm(
        &self,
        load: &DatabaseLoad<'_>,
        clock: Instant,
        rate: f64,
        search: &SaturationSearch,
        file: &mut SampleFile,
        observer: &mut dyn Observer,
    ) -> Measurement {
        let profile =
            Profile { rate: Some(rate), repeat: CONFIRMATIONS, find_max: false, ..self.profile.clone() };
        MeasurementDriver { profile: &profile, ..*self }.measure(load, clock, file, observer, Some(search))
    }

    /// Converts a confirmation into a step of the latency curve. Its latencies are those of the slowest repetition.
    fn confirmed(&self, ask: ProbeRequest, measured: &Measurement) -> SaturationStep {
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
        let percentiles = LatencyPercentiles::new(&measured.io, &measured.tally.operations);
        self.first_broken_rule(ask, figures, percentiles, measured.open_loop)
    }

    fn first_broken_rule(
        &self,
        ask: ProbeRequest,
        figures: Repetition,
        percentiles: LatencyPercentiles,
        open_loop: Option<OpenLoopBacklog>,
    ) -> SaturationStep {
        let open_loop = open_loop.unwrap_or_default();
        SaturationStep {
            rate: ask.rate,
            confirming: ask.confirm,
            figures,
            operation_latency: percentiles.operations,
            behind_seconds: open_loop.behind_seconds,
            broken: first_broken_rule(&self.profile.thresholds, &figures, &percentiles, &open_loop),
        }
    }
}

/// Discards the samples before another confirmation is measured.
fn clear_samples(file: &mut SampleFile, observer: &mut dyn Observer) {
    if let Err(error) = file.clear() {
        observer.log(&format!("failed to write samples.csv: {error}"));
    }
}

/// Formats a step as a line for the test log.
fn describe(step: &SaturationStep) -> String {
    let SaturationStep { rate, figures, operation_latency, .. } = step;
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
