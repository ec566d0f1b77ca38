//! One life of a simulated instance: recovery, comparison with the model, and work until the power fails.

use std::sync::Arc;

use ese_engine::Database;
use ese_engine::{
    DatabaseOptions, DefragKind, DefragOptions, Error, Instance, MaintenanceThrottle, Result, ScanOptions,
};
use ese_format::LogPosition;
use rand::Rng;

use super::EngineSimulation;
use super::lost_logs::DurableMark;
use super::model::{AttachedDatabases, ModelState, check_indexes, difference, read_all};
use super::work::SimulatedSession;

/// Number of steps in a life without a power cut.
const STEPS: usize = 250;

impl EngineSimulation {
    /// Recovers, compares with the model, and works until the power fails or all steps are done.
    pub(super) fn live(&mut self) {
        let mut instance = self.recover();
        let mut databases = self.attach_created(&instance);
        self.compare(&instance, &databases);
        if self.rng.random_bool(0.4) {
            databases.clear();
            instance.shutdown().unwrap_or_else(|error| panic!("{}: shutdown: {error}", self.context));
            drop(instance);
            self.check_files("after recovery and shutdown");
            instance = self.recover();
            databases = self.attach_created(&instance);
            self.compare(&instance, &databases);
        }

        // A deep tree takes time to grow.
        let (shortest, longest, cut) = if self.plan.deep { (8, 15, 0.5) } else { (3, 11, 0.9) };
        let limit = 1 << self.rng.random_range(shortest..longest);
        let at = self.disk.operations() + self.rng.random_range(0..limit) + 1;
        self.disk.stop_after(if self.rng.random_bool(cut) { at } else { u64::MAX });
        let worked = self.work(&instance, &mut databases);
        if self.has_power() {
            worked.unwrap_or_else(|error| panic!("{}: {error} ({error:?})", self.context));
            self.disk.stop_after(u64::MAX);
        }
    }

    /// Runs random operations that are possible after recovery and before the first transaction.
    pub(super) fn run_random_operations(&mut self, instance: &Arc<Instance>) -> Result<()> {
        for _ in 0..self.rng.random_range(0..6) {
            let number = self.rng.random_range(0..self.plan.databases);
            match self.rng.random_range(0..4) {
                0 => instance.step()?,
                1 => {
                    instance.checkpoint()?;
                }
                2 if self.created[number] => {
                    instance.attach(&self.db_path(number), 64)?;
                }
                3 if self.created[number] => {
                    let db = instance.attach(&self.db_path(number), 64)?;
                    instance.detach(&db)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    pub(super) fn attach_created(&mut self, instance: &Arc<Instance>) -> AttachedDatabases {
        let numbers = 0..self.plan.databases;
        numbers
            .map(|number| {
                self.created[number].then(|| {
                    let db = instance.attach(&self.db_path(number), 64);
                    db.unwrap_or_else(|error| panic!("{}: attach: {error}", self.context))
                })
            })
            .collect()
    }

    /// Finds the surviving state among the possible states, and makes it the only possible state. Returns its number
    /// among the previous states.
    pub(super) fn compare(&mut self, instance: &Arc<Instance>, databases: &AttachedDatabases) -> usize {
        let mut session = instance.session();
        let mut found = ModelState::new();
        for (number, db) in databases.iter().enumerate() {
            let Some(db) = db else { continue };
            let all = read_all(number, db, &mut session);
            found.extend(all.unwrap_or_else(|error| panic!("{}: reading: {error}", self.context)));
        }
        let Some(which) = self.states.iter().rposition(|state| *state == found) else {
            let nearest = self.states.iter().enumerate().map(|(i, state)| (difference(state, &found), i));
            let (nearest, i) = nearest.min_by_key(|(text, _)| text.len()).unwrap_or_default();
            panic!(
                "{}: no committed state looks like that; of {} states (durable {}), {i} differs least: {nearest}",
                self.context,
                self.states.len(),
                self.durable,
            );
        };
        assert!(
            which >= self.durable,
            "{}: durable commits are lost: state {which} of {}, durable {}",
            self.context,
            self.states.len(),
            self.durable,
        );
        for ((number, name), table) in &found {
            let Some(db) = &databases[*number] else { continue };
            let checked = check_indexes(db, &mut session, name, table);
            checked.unwrap_or_else(|error| panic!("{}: {name}: {error}", self.context));
        }
        self.record_recovered(which, found, instance.durable().generation);
        which
    }

    pub(super) fn create(&mut self, instance: &Arc<Instance>, number: usize) -> Result<Arc<Database>> {
        // Recovery may have completed an interrupted creation. Otherwise the remaining file is useless.
        let path = self.db_path(number);
        if self.disk.files().exists(&path).map_err(|e| Error::io(&path, &e))? {
            match instance.attach(&path, 32) {
                Ok(db) => {
                    self.created[number] = true;
                    return Ok(db);
                }
                // Recovery may need the file.
                Err(error) if !self.has_power() => return Err(error),
                Err(_) => {}
            }
            self.disk.files().remove(&path).map_err(|e| Error::io(&path, &e))?;
        }
        let options = DatabaseOptions { initial_pages: 256, extension_pages: 32 };
        let db = instance.create_database(&path, &options)?;
        self.created[number] = true;
        Ok(db)
    }

    /// Checks that the scan does not report writes in flight or the effects of a power cut as damage.
    fn check_scans(&self, databases: &AttachedDatabases) {
        for db in databases.iter().flatten() {
            let scan = db.scan_progress();
            assert!(
                scan.bad == 0,
                "{}: {}: false findings of the scan: {scan:?}",
                self.context,
                db.path().display()
            );
        }
    }

    /// Counts the pages that defragmentation freed and moved. It must not find damage.
    fn count_defragmented(&mut self, databases: &AttachedDatabases) {
        for db in databases.iter().flatten() {
            for progress in [db.defrag_progress(), db.layout_progress()] {
                self.tally.freed += progress.pages_freed;
                self.tally.moved += progress.pages_moved;
                assert!(progress.skipped == 0 || !self.has_power(), "{}: {progress:?}", self.context);
            }
        }
    }

    fn work(&mut self, instance: &Arc<Instance>, databases: &mut AttachedDatabases) -> Result<()> {
        for (number, slot) in databases.iter_mut().enumerate() {
            if slot.is_none() {
                *slot = Some(self.create(instance, number)?);
            }
        }
        let mut workers: Vec<SimulatedSession> =
            (0..3).map(|number| SimulatedSession::new(number, instance.session())).collect();
        let steps = self.rng.random_range(STEPS / 4..STEPS);
        let mut commits = Vec::new();
        // In half of the lives, deleted data is overwritten, and passes resume in the next life.
        let zero = self.rng.random_bool(0.5);
        let maintenance = ScanOptions {
            throttle: MaintenanceThrottle::default(),
            zero,
            keep_progress: zero,
            ..ScanOptions::default()
        };
        // In half of the lives, leaves are merged. In half of these lives, they are also moved to consecutive pages.
        let mut defragment = vec![DefragKind::Compaction, DefragKind::SequentialLayout];
        defragment.retain(|_| self.rng.random_bool(0.5));
        let partial_merges = self.rng.random_bool(0.5);
        let done = (|| -> Result<()> {
            for _ in 0..steps {
                let worker = &mut workers[self.rng.random_range(0..3)];
                worker.step(self, databases, &mut commits)?;
                match self.rng.random_range(0..40) {
                    0..3 => {
                        instance.flush()?;
                        self.durable = self.states.len() - 1;
                        self.mark_durable(instance.durable());
                    }
                    3..12 => {
                        for db in databases.iter().flatten() {
                            instance.start_maintenance(db, maintenance.clone())?;
                            for &kind in &defragment {
                                let (keep_progress, single_pass) = (true, true);
                                let options = DefragOptions {
                                    kind,
                                    partial_merges,
                                    keep_progress,
                                    single_pass,
                                    ..DefragOptions::default()
                                };
                                instance.start_defragmentation(db, options)?;
                            }
                        }
                        instance.step()?;
                        // Without power, pages cannot be read.
                        if self.has_power() {
                            self.check_scans(databases);
                        }
                    }
                    12 => {
                        instance.checkpoint()?;
                    }
                    14 if self.plan.waypoint_latency == 0 && self.rng.random_bool(0.3) => {
                        self.return_space(instance, databases)?;
                    }
                    13 if self.rng.random_bool(0.2) => {
                        for worker in &mut workers {
                            worker.finish(self, &mut commits)?;
                        }
                        self.detach_and_attach(instance, databases)?;
                    }
                    _ => {}
                }
            }
            Ok(())
        })();
        self.count_defragmented(databases);
        // The log reports which commits are durable. It must not report a commit that is not durable.
        let durable = instance.durable();
        for (id, state) in commits {
            // A commit that changed nothing has the smallest id.
            if id > LogPosition::MIN && id <= durable {
                self.durable = self.durable.max(state);
                self.marks.push(DurableMark { generation: id.generation, state });
            }
        }
        done?;
        if self.rng.random_bool(0.5) {
            for worker in &mut workers {
                worker.finish(self, &mut Vec::new())?;
            }
            drop(workers);
            databases.clear();
            self.is_detaching = true;
            instance.shutdown()?;
            let shut_down = instance.durable();
            self.durable = self.states.len() - 1;
            self.mark_durable(shut_down);
            self.tally.shutdowns += 1;
            // The checks below read the files. These reads are not part of the simulated work.
            self.disk.stop_after(u64::MAX);
            self.check_files("after shutdown");
            self.find_injected_damage();
        }
        Ok(())
    }

    /// Truncates a database at its end, or punches holes into it.
    fn return_space(&mut self, instance: &Arc<Instance>, databases: &AttachedDatabases) -> Result<()> {
        let number = self.rng.random_range(0..databases.len());
        let Some(db) = &databases[number] else { return Ok(()) };
        let returned = if self.rng.random_bool(0.5) {
            instance.shrink(db).map(|report| report.pages_before - report.pages_after)
        } else {
            instance.trim(db).map(|report| report.pages)
        };
        match returned {
            Ok(pages) => self.tally.returned += pages,
            // Files on an array do not support holes.
            Err(Error::Usage(_)) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn detach_and_attach(
        &mut self,
        instance: &Arc<Instance>,
        databases: &mut AttachedDatabases,
    ) -> Result<()> {
        let number = self.rng.random_range(0..databases.len());
        let Some(db) = databases[number].take() else { return Ok(()) };
        self.is_detaching = true;
        instance.detach(&db)?;
        drop(db);
        self.durable = self.states.len() - 1;
        self.mark_durable(instance.durable());
        if self.rng.random_bool(0.7) {
            databases[number] = Some(instance.attach(&self.db_path(number), 64)?);
        }
        Ok(())
    }
}
