//! Measures this host's load alone, before the other hosts start their loads.

use std::time::{Duration, Instant};

use super::{MeasuredWindow, MeasurementDriver, POLL_INTERVAL};
use crate::error::Error;
use crate::load::DatabaseLoad;
use crate::measurement::{HostCounters, Measurement};
use crate::observer::{CounterHeartbeat, Observer};

impl MeasurementDriver<'_> {
    /// Warms the cache and measures once, without recording samples. Stops the load before returning.
    pub(crate) fn run_alone(
        &self,
        duration: Duration,
        observer: &mut dyn Observer,
    ) -> Result<Measurement, Error> {
        let load = DatabaseLoad::new(self.store, self.plan.instances.len(), self.profile)?;
        let clock = Instant::now();
        let (measured, failure) = load.run(|load| {
            let started = Instant::now();
            let warming = |_, observer: &mut dyn Observer| observer.advance(0, "warming the cache");
            self.fill_cache(load, clock, self.warm_bytes(), observer, warming);
            let warm_seconds = started.elapsed().as_secs_f64();
            Measurement { warm_seconds, ..self.measure_alone(load, clock, duration, observer) }
        });
        Ok(Measurement { complete: measured.complete && failure.is_none(), failure, ..measured })
    }

    fn measure_alone(
        &self,
        load: &DatabaseLoad<'_>,
        clock: Instant,
        duration: Duration,
        observer: &mut dyn Observer,
    ) -> Measurement {
        if let Some(rate) = self.profile.rate {
            load.start_pace(rate);
        }
        load.take_tally();
        let started = Instant::now();
        let mut view = MeasuredWindow::begin(self.snapshot(load, clock), HostCounters::read(&[]));
        let mut heartbeat = CounterHeartbeat::new();
        while started.elapsed() < duration && !self.is_over(load) {
            observer.advance(started.elapsed().as_millis() as u64, "");
            heartbeat.beat(observer, || self.snapshot(load, clock));
            std::thread::sleep(POLL_INTERVAL.min(duration.saturating_sub(started.elapsed())));
        }
        view.last = self.snapshot(load, clock);
        let complete = started.elapsed() >= duration;
        Measurement { complete, ..view.measured(load, load.take_tally()) }
    }
}
