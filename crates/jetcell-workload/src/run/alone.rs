//! Measures the load alone before it runs concurrently with the loads of other hosts. The databases are opened for this
//! measurement and closed afterwards, so no background maintenance or other activity continues while the next host
//! measures.

use std::time::Duration;

use chrono::Local;

use super::assembly::{LoadPhaseResult, alone_figures};
use super::recorder::RunRecorder;
use super::{RunError, TestRun, database_bytes};
use crate::drive::{MeasurementDriver, MeasurementGoal};
use crate::engine::DatabaseOpenMode;
use crate::event_file::rfc3339;
use crate::measurement::{Measurement, SampleFile, ScanSummary};
use crate::observer::{Observer, RunPhase};
use crate::result::StandaloneLoad;

/// Result of running the load alone.
struct StandaloneLoadResult {
    /// Figures of the load, or `None` if it did not run for its full duration.
    figures: Option<StandaloneLoad>,
    measured: Measurement,
    io_errors: u64,
    /// Scans that found bad pages.
    bad_scans: Vec<ScanSummary>,
}

impl TestRun<'_> {
    /// Runs the load. If the observer requests it, first runs and measures the load alone.
    pub(super) fn load_after_alone(
        &self,
        watch: &mut RunRecorder<'_>,
        samples: &mut SampleFile,
    ) -> Result<LoadPhaseResult, RunError> {
        let Some(duration) = watch.alone_duration() else { return Ok(self.load(watch, samples)?.0) };
        let initial_bytes = self.plan.initial_bytes();
        let alone = self.load_alone(duration, watch)?;
        if let Some(failure) = alone.measured.failure.clone() {
            let (measured, io_errors) = (alone.measured, alone.io_errors);
            watch.log(&format!("The load failed: {failure}"));
            let failure = Some(failure);
            return Ok(LoadPhaseResult {
                measured,
                initial_bytes,
                io_errors,
                failure,
                ..LoadPhaseResult::default()
            });
        }
        let mut loaded = self.load(watch, samples)?.0;
        loaded.alone = alone.figures;
        loaded.io_errors = loaded.io_errors.saturating_add(alone.io_errors);
        // Errors found while the load ran alone also affect the verdict.
        loaded.scan.extend(alone.bad_scans);
        loaded.measured.tally.add_wrong_of(&alone.measured.tally);
        Ok(loaded)
    }

    fn load_alone(
        &self,
        duration: Duration,
        watch: &mut RunRecorder<'_>,
    ) -> Result<StandaloneLoadResult, RunError> {
        let TestRun { profile, engine, plan, stop } = *self;
        watch.begin_phase(RunPhase::Alone, duration.as_millis() as u64);
        let started = rfc3339(&Local::now());
        let store = engine.open(plan, DatabaseOpenMode::Attach).map_err(|error| watch.run_error(error))?;
        if let Some(subject) = &mut watch.subject {
            subject.initial_bytes = database_bytes(&*store, plan);
        }
        store.start_maintenance(&profile.maintenance()).map_err(|error| watch.run_error(error))?;
        if profile.copies > 1 {
            store.start_log_copies(profile.copies - 1).map_err(|error| watch.run_error(error))?;
        }
        let (copies, measured_before, goal) = (None, 0.0, MeasurementGoal::Time);
        let drive = MeasurementDriver { store: &*store, copies, plan, profile, stop, measured_before, goal };
        let driven = drive.run_alone(duration, watch);
        let io_errors = store.io().iter().map(|io| io.errors).sum();
        let bad_scans = store.finish_scan().into_iter().filter(|one| one.bad > 0).collect();
        store.finish_log_copies();
        store.finish_defragmentation();
        let closed = store.shutdown();
        let measured = driven.map_err(|error| watch.run_error(error))?;
        let failure = measured.failure.clone().or(closed.err());
        let measured = Measurement { failure, ..measured };
        let ended = rfc3339(&Local::now());
        let figures =
            measured.complete.then(|| StandaloneLoad { started, ended, ..alone_figures(plan, &measured) });
        Ok(StandaloneLoadResult { figures, measured, io_errors, bad_scans })
    }
}
