//! The backup test. It reads all pages of all databases concurrently and verifies each page. With a load, the test
//! measures the backup and the load separately and together.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::{TestRun, database_bytes, test_log};
use crate::drive::{ConcurrentWork, MeasurementDriver, MeasurementGoal};
use crate::engine::{DatabaseOpenMode, DatabaseStore};
use crate::error::Error;
use crate::measurement::{HostCounters, InstanceIo, IoTotals, Measurement, SampleFile};
use crate::observer::{Observer, RunPhase};
use crate::result::{BackupCost, BackupSample, BackupTestResult, DatabaseBackup, LoadFigures};
use crate::run::RunError;
use crate::run::assembly::{LoadPhaseResult, named_row};
use crate::run::in_parallel::run_with_progress;
use crate::run::recorder::RunRecorder;
use crate::watch::BackupWatch;

/// Progress of a running backup: the counters of each database, and the total size.
struct BackupReading {
    watches: Vec<Arc<BackupWatch>>,
    total: u64,
    ended: AtomicBool,
}

impl ConcurrentWork for BackupReading {
    fn total(&self) -> u64 {
        self.total
    }

    fn done(&self) -> u64 {
        self.watches.iter().map(|watch| watch.bytes()).sum()
    }

    fn is_finished(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }
}

/// Guard that marks the backup as ended, even if the backup panics. Otherwise the load would wait forever.
struct BackupEndGuard<'a>(&'a AtomicBool);

impl Drop for BackupEndGuard<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl TestRun<'_> {
    /// Runs the phases of a backup test that lie between database creation and verification.
    pub(super) fn back_up(
        &self,
        watch: &mut RunRecorder<'_>,
        samples: &mut SampleFile,
    ) -> Result<LoadPhaseResult, RunError> {
        watch.begin_phase(RunPhase::Attach, 1);
        let store =
            self.engine.open(self.plan, DatabaseOpenMode::Attach).map_err(|error| watch.run_error(error))?;
        let bytes = database_bytes(&*store, self.plan);
        let mut loaded =
            LoadPhaseResult { initial_bytes: bytes, final_bytes: bytes, ..LoadPhaseResult::default() };
        let host = HostCounters::read(&[]);
        let began = Instant::now();
        let reading = self.backup_reading(&*store);
        watch.begin_phase(RunPhase::Backup, reading.total);
        let (alone, failure) = self.read_all(&*store, &reading, &mut |done| watch.advance(done, ""));
        let seconds = began.elapsed().as_secs_f64();
        loaded.measured.host = HostCounters::read(&[]).since(&host, seconds, seconds);
        loaded.measured.complete = alone.complete;
        loaded.failure = failure;
        loaded.backup = Some(alone);
        let measured = if self.profile.under_load && loaded.failure.is_none() && !self.stop.is_cancelled() {
            self.back_up_under_load(&*store, &mut loaded, watch, samples)
        } else {
            Ok(())
        };
        loaded.io_errors = store.io().iter().map(|io| io.errors).sum();
        watch.begin_phase(RunPhase::Shutdown, 1);
        let closed = store.shutdown();
        measured.map_err(|error| watch.run_error(error))?;
        loaded.failure = loaded.failure.or(closed.err());
        for database in loaded.backup.iter().flat_map(|backup| &backup.databases) {
            watch.log(&format!(
                "{}: {} pages backed up in {:.1} seconds, {} bad",
                database.database.display(),
                database.counters.pages,
                database.seconds,
                database.counters.bad
            ));
        }
        if let Some(error) = &loaded.failure {
            watch.log(&format!("The backup failed: {error}"));
        }
        watch.store_interim_result(loaded.clone());
        Ok(loaded)
    }

    fn backup_reading(&self, store: &dyn DatabaseStore) -> BackupReading {
        let watches = self.plan.instances.iter().map(|_| Arc::new(BackupWatch::new(self.stop.clone())));
        let total = database_bytes(store, self.plan);
        BackupReading { watches: watches.collect(), total, ended: AtomicBool::new(false) }
    }

    /// Backs up all databases. `progress` receives the number of bytes read.
    fn read_all(
        &self,
        store: &dyn DatabaseStore,
        reading: &BackupReading,
        progress: &mut dyn FnMut(u64),
    ) -> (BackupTestResult, Option<Error>) {
        let _ended = BackupEndGuard(&reading.ended);
        let to = self.profile.to.as_deref();
        let before = store.io();
        let sample = |at: Duration| BackupSample {
            at_seconds: at.as_secs_f64(),
            bytes: reading.watches.iter().map(|watch| watch.bytes()).collect(),
        };
        let mut backup = BackupTestResult {
            to: self.profile.to.clone(),
            samples: vec![sample(Duration::ZERO)],
            ..BackupTestResult::default()
        };
        let (began, interval) = (Instant::now(), self.profile.sample_interval.0);
        let mut next = interval;
        let work = |database: usize| store.back_up(database, to, &reading.watches[database]);
        let ended = run_with_progress(self.plan.instances.len(), work, |elapsed| {
            progress(reading.done());
            if elapsed >= next {
                backup.samples.push(sample(elapsed));
                next += interval;
            }
        });
        let after = store.io();
        let mut failure = None;
        for (database, (seconds, outcome)) in ended.into_iter().enumerate() {
            if let Err(error) = outcome {
                failure.get_or_insert(error);
            }
            let reads = after[database].since(&before[database]).backup_read;
            backup.databases.push(self.database_backup(
                database,
                seconds,
                &reading.watches[database],
                &reads,
            ));
        }
        backup.seconds = backup.databases.iter().map(|database| database.seconds).fold(0.0, f64::max);
        backup.samples.push(sample(began.elapsed()));
        backup.complete = failure.is_none() && !self.stop.is_cancelled();
        (backup, failure)
    }

    fn database_backup(
        &self,
        database: usize,
        seconds: f64,
        watch: &BackupWatch,
        reads: &IoTotals,
    ) -> DatabaseBackup {
        let instance = &self.plan.instances[database];
        let row = named_row(instance);
        let none = crate::measurement::IoRates::default();
        DatabaseBackup {
            instance: row.instance.clone(),
            database: instance.database.clone(),
            seconds,
            counters: watch.counters(),
            io: Some(row.with_rates(reads.rates(seconds), none, none, none)),
        }
    }

    /// Runs the load alone, then concurrently with another backup.
    fn back_up_under_load(
        &self,
        store: &dyn DatabaseStore,
        loaded: &mut LoadPhaseResult,
        watch: &mut RunRecorder<'_>,
        samples: &mut SampleFile,
    ) -> Result<(), Error> {
        let TestRun { profile, plan, stop, .. } = *self;
        test_log::settings(profile, plan, watch);
        let reading = self.backup_reading(store);
        let mut beside = None;
        let drive = MeasurementDriver {
            store,
            copies: None,
            plan,
            profile,
            stop,
            measured_before: 0.0,
            goal: MeasurementGoal::Time,
        };
        let (alone, together) = drive.run_with_concurrent_work(samples, watch, &reading, || {
            beside = Some(self.read_all(store, &reading, &mut |_| ()));
        })?;
        let before = loaded.backup.take().unwrap_or_default();
        let Some((backup, failure)) = beside else {
            (loaded.backup, loaded.measured) = (Some(before), alone);
            return Ok(());
        };
        let cost = BackupCost {
            backup_alone: before.rate(),
            backup_together: backup.rate(),
            load_alone: figures(&alone),
            load_together: figures(&together),
        };
        loaded.failure = failure.or_else(|| together.failure.clone());
        let complete = backup.complete && together.failure.is_none();
        loaded.backup = Some(BackupTestResult { cost: Some(cost), ..backup });
        let samples = alone.samples.into_iter().chain(together.samples).collect();
        loaded.measured = Measurement { complete, samples, ..together };
        Ok(())
    }
}

fn figures(measured: &Measurement) -> LoadFigures {
    let sum = |kind: fn(&InstanceIo) -> &IoTotals| {
        let mut all = IoTotals::default();
        measured.io.iter().for_each(|io| all.add(kind(io)));
        all.rates(measured.seconds)
    };
    let (reads, writes) = (sum(|io| &io.database_read), sum(|io| &io.database_write));
    let operations = measured.tally.total() as f64;
    LoadFigures {
        seconds: measured.seconds,
        transactional_iops: reads.per_second + writes.per_second,
        operations_per_second: if measured.seconds > 0.0 { operations / measured.seconds } else { 0.0 },
        database_read_ms: reads.average_ms,
        database_write_ms: writes.average_ms,
        log_write_ms: sum(|io| &io.log_write).average_ms,
    }
}
