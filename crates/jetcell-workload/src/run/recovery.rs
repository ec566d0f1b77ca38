//! The recovery test: generates logs under load, restores the databases, and replays the logs.

use std::time::{Duration, Instant};

use ese_engine::Error;

use super::Test;
use crate::engine::{Opening, ReplayStart};
use crate::layout::Plan;
use crate::measurement::{ReplayCounters, SampleFile};
use crate::observer::{Observer, Phase};
use crate::profile::{RecoveryMode, Source};
use crate::result::{Recovery, ReplaySample, ReplayedDatabase};
use crate::run::RunError;
use crate::run::assembly::{Loaded, named_row};
use crate::run::in_parallel::in_parallel;
use crate::run::recorder::Recorder;
use crate::watch::ReplayWatch;

impl Test<'_> {
    /// Runs the phases of a recovery test that lie between database creation and verification.
    pub(super) fn recover(
        &self,
        watch: &mut Recorder<'_>,
        samples: &mut SampleFile,
    ) -> Result<Loaded, RunError> {
        let recovered = self.keep_load_and_replay(watch, samples);
        let forgotten =
            self.plan.instances.iter().try_for_each(|instance| self.engine.forget_state(instance));
        let recovered = recovered?;
        forgotten.map_err(|error| watch.failed(error))?;
        Ok(recovered)
    }

    fn keep_load_and_replay(
        &self,
        watch: &mut Recorder<'_>,
        samples: &mut SampleFile,
    ) -> Result<Loaded, RunError> {
        if self.profile.source == Source::Open {
            self.clean(watch)?;
        }
        if self.profile.mode == RecoveryMode::True {
            self.keep(watch)?;
        }
        if self.stop.is_set() {
            return Ok(Loaded { initial_bytes: self.plan.initial_bytes(), ..Loaded::default() });
        }
        let (mut loaded, starts) = self.load(watch, samples)?;
        if loaded.failure.is_some() || self.stop.is_set() || !loaded.measured.complete {
            return Ok(loaded);
        }
        for (instance, start) in self.plan.instances.iter().zip(&starts) {
            let put_back = self.engine.put_back(instance, start, self.profile.mode);
            put_back.map_err(|error| watch.failed(error))?;
        }
        let (recovery, failure) = self.replay(&starts, watch);
        loaded.io_errors += failure.io_errors;
        loaded.failure = failure.error;
        loaded.recovery = Some(recovery);
        watch.publish(loaded.clone());
        Ok(loaded)
    }

    /// Opens existing databases and shuts them down cleanly, which also removes old logs. Afterwards, a copy of the
    /// database file alone is a complete copy of the database.
    fn clean(&self, watch: &mut Recorder<'_>) -> Result<(), RunError> {
        watch.begin(Phase::Attach, 1);
        let plan = &Plan { circular_log: true, ..self.plan.clone() };
        let cleaned = self.engine.open(plan, Opening::Attach).and_then(|store| store.shutdown());
        cleaned.map_err(|error| watch.failed(error))
    }

    /// Preserves the state of the databases before the load.
    fn keep(&self, watch: &mut Recorder<'_>) -> Result<(), RunError> {
        let length = |database: &std::path::Path| database.metadata().map_or(0, |file| file.len());
        let lengths: Vec<u64> = self.plan.instances.iter().map(|one| length(&one.database)).collect();
        watch.begin(Phase::Keep, lengths.iter().sum());
        let mut before = 0;
        for (instance, length) in self.plan.instances.iter().zip(lengths) {
            let kept = self.engine.keep_state(instance, &mut |copied| {
                watch.advance(before + copied, "");
                !self.stop.is_set()
            });
            kept.map_err(|error| watch.failed(error))?;
            before += length;
        }
        Ok(())
    }

    /// Replays the logs of all databases concurrently.
    fn replay(&self, starts: &[ReplayStart], watch: &mut Recorder<'_>) -> (Recovery, Failure) {
        let watches: Vec<ReplayWatch> = starts.iter().map(|_| ReplayWatch::new(self.stop.clone())).collect();
        watch.begin(Phase::Replay, u64::from(self.profile.logs) * starts.len() as u64);
        let began = Instant::now();
        let mut recovery = Recovery {
            mode: self.profile.mode,
            wanted_logs: self.profile.logs.into(),
            samples: vec![ReplaySample { logs: vec![0; starts.len()], ..ReplaySample::default() }],
            ..Recovery::default()
        };
        let interval = self.profile.sample_interval.0;
        let mut next = interval;
        let work =
            |database: usize| self.engine.replay(self.plan, database, &starts[database], &watches[database]);
        let ended = in_parallel(starts.len(), work, |elapsed| {
            let now = sample(elapsed, &watches);
            watch.advance(now.logs.iter().sum(), "");
            if elapsed >= next {
                recovery.samples.push(now);
                next += interval;
            }
        });
        recovery.seconds = ended.iter().map(|(seconds, _)| *seconds).fold(0.0, f64::max);
        recovery.samples.push(sample(began.elapsed(), &watches));
        let mut failure = Failure::default();
        for ((instance, watched), (seconds, outcome)) in self.plan.instances.iter().zip(&watches).zip(&ended)
        {
            let counters = watched.counters();
            let row = named_row(instance);
            watch.log(&format!("{} recovered {} logs in {seconds:.7} seconds", row.instance, counters.logs));
            if let Err(error) = outcome {
                watch.log(&format!(
                    "The replay of {} failed: {error}",
                    instance.database.display()
                ));
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
        recovery.complete = failure.error.is_none() && !self.stop.is_set();
        (recovery, failure)
    }
}

/// Errors of a replay.
#[derive(Default)]
struct Failure {
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
