//! The recovery test: generates logs under load, restores the databases, and replays the logs.

use std::time::{Duration, Instant};

use super::TestRun;
use crate::engine::{DatabaseOpenMode, ReplayStart};
use crate::error::Error;
use crate::layout::RunPlan;
use crate::measurement::{ReplayCounters, SampleFile};
use crate::observer::{Observer, RunPhase};
use crate::profile::{DatabaseSource, RecoveryMode};
use crate::result::{RecoveryTestResult, ReplaySample, ReplayedDatabase};
use crate::run::RunError;
use crate::run::assembly::{LoadPhaseResult, named_row};
use crate::run::in_parallel::run_with_progress;
use crate::run::recorder::RunRecorder;
use crate::watch::ReplayWatch;

impl TestRun<'_> {
    /// Runs the phases of a recovery test that lie between database creation and verification.
    pub(super) fn recover(
        &self,
        watch: &mut RunRecorder<'_>,
        samples: &mut SampleFile,
    ) -> Result<LoadPhaseResult, RunError> {
        let recovered = self.keep_load_and_replay(watch, samples);
        let forgotten =
            self.plan.instances.iter().try_for_each(|instance| self.engine.remove_preserved_state(instance));
        let recovered = recovered?;
        forgotten.map_err(|error| watch.run_error(error))?;
        Ok(recovered)
    }

    fn keep_load_and_replay(
        &self,
        watch: &mut RunRecorder<'_>,
        samples: &mut SampleFile,
    ) -> Result<LoadPhaseResult, RunError> {
        if self.profile.source == DatabaseSource::Open {
            self.shut_down_cleanly(watch)?;
        }
        if self.profile.mode == RecoveryMode::True {
            self.preserve_state_before_load(watch)?;
        }
        if self.stop.is_cancelled() {
            return Ok(LoadPhaseResult {
                initial_bytes: self.plan.initial_bytes(),
                ..LoadPhaseResult::default()
            });
        }
        let (mut loaded, starts) = self.load(watch, samples)?;
        if loaded.failure.is_some() || self.stop.is_cancelled() || !loaded.measured.complete {
            return Ok(loaded);
        }
        for (instance, start) in self.plan.instances.iter().zip(&starts) {
            let put_back = self.engine.restore_state(instance, start, self.profile.mode);
            put_back.map_err(|error| watch.run_error(error))?;
        }
        let (recovery, failure) = self.replay(&starts, watch);
        loaded.io_errors += failure.io_errors;
        loaded.failure = failure.error;
        loaded.recovery = Some(recovery);
        watch.store_interim_result(loaded.clone());
        Ok(loaded)
    }

    /// Opens existing databases and shuts them down cleanly, which also removes old logs. Afterwards, a copy of the
    /// database file alone is a complete copy of the database.
    fn shut_down_cleanly(&self, watch: &mut RunRecorder<'_>) -> Result<(), RunError> {
        watch.begin_phase(RunPhase::Attach, 1);
        let plan = &RunPlan { circular_log: true, ..self.plan.clone() };
        let cleaned = self
            .engine
            .open(plan, DatabaseOpenMode::Attach)
            .and_then(super::super::engine::DatabaseStore::shutdown);
        cleaned.map_err(|error| watch.run_error(error))
    }

    /// Preserves the state of the databases before the load.
    fn preserve_state_before_load(&self, watch: &mut RunRecorder<'_>) -> Result<(), RunError> {
        let length = |database: &std::path::Path| database.metadata().map_or(0, |file| file.len());
        let lengths: Vec<u64> = self.plan.instances.iter().map(|one| length(&one.database)).collect();
        watch.begin_phase(RunPhase::Keep, lengths.iter().sum());
        let mut before = 0;
        for (instance, length) in self.plan.instances.iter().zip(lengths) {
            let kept = self.engine.preserve_state(instance, &mut |copied| {
                watch.advance(before + copied, "");
                !self.stop.is_cancelled()
            });
            kept.map_err(|error| watch.run_error(error))?;
            before += length;
        }
        Ok(())
    }

    /// Replays the logs of all databases concurrently.
    fn replay(
        &self,
        starts: &[ReplayStart],
        watch: &mut RunRecorder<'_>,
    ) -> (RecoveryTestResult, ReplayFailure) {
        let watches: Vec<ReplayWatch> = starts.iter().map(|_| ReplayWatch::new(self.stop.clone())).collect();
        watch.begin_phase(RunPhase::Replay, u64::from(self.profile.logs) * starts.len() as u64);
        let began = Instant::now();
        let mut recovery = RecoveryTestResult {
            mode: self.profile.mode,
            wanted_logs: self.profile.logs.into(),
            samples: vec![ReplaySample { logs: vec![0; starts.len()], ..ReplaySample::default() }],
            ..RecoveryTestResult::default()
        };
        let interval = self.profile.sample_interval.0;
        let mut next = interval;
        let work =
            |database: usize| self.engine.replay(self.plan, database, &starts[database], &watches[database]);
        let ended = run_with_progress(starts.len(), work, |elapsed| {
            let now = sample(elapsed, &watches);
            watch.advance(now.logs.iter().sum(), "");
            if elapsed >= next {
                recovery.samples.push(now);
                next += interval;
            }
        });
        recovery.seconds = ended.iter().map(|(seconds, _)| *seconds).fold(0.0, f64::max);
        recovery.samples.push(sample(began.elapsed(), &watches));
        let mut failure = ReplayFailure::default();
        for ((instance, watched), (seconds, outcome)) in self.plan.instances.iter().zip(&watches).zip(&ended)
        {
            let counters = watched.counters();
            let row = named_row(instance);
            watch.log(&format!("{} recovered {} logs in {seconds:.7} seconds", row.instance, counters.logs));
            if let Err(error) = outcome {
                watch.log(&format!("The replay of {} failed: {error}", instance.database.display()));
                failure.error.get_or_insert(error.clone());
            }
            failure.io_errors += counters.io.errors;
            recovery.databases.push(ReplayedDatabase {
                instance: row.instance.clone(),
                database: instance.database.clone(),
                logs: counters.logs,
                seconds: *seconds,
                records: counters.records,
                changes: counters.changes,
                database_reads: counters.io.database_read.operations,
                database_writes: counters.io.database_write.operations,
                log_reads: counters.io.log_read.operations,
                io: Some(row.with_rates(
                    counters.io.database_read.rates(*seconds),
                    counters.io.database_write.rates(*seconds),
                    counters.io.log_read.rates(*seconds),
                    counters.io.log_write.rates(*seconds),
                )),
            });
        }
        recovery.complete = failure.error.is_none() && !self.stop.is_cancelled();
        (recovery, failure)
    }
}

/// Errors of a replay.
#[derive(Default)]
struct ReplayFailure {
    error: Option<Error>,
    io_errors: u64,
}

fn sample(at: Duration, watches: &[ReplayWatch]) -> ReplaySample {
    let counters: Vec<ReplayCounters> = watches.iter().map(ReplayWatch::counters).collect();
    let sum = |value: fn(&ReplayCounters) -> u64| counters.iter().map(value).sum();
    ReplaySample {
        at_seconds: at.as_secs_f64(),
        logs: counters.iter().map(|one| one.logs).collect(),
        database_reads: sum(|one| one.io.database_read.operations),
        database_writes: sum(|one| one.io.database_write.operations),
    }
}
