//! Runs backups under load and restores on a simulated disk, from one seed, with power cuts during the load, the
//! backup, and the restore.
//!
//! The load works between the reads of a backup. The restored databases must have the state of the model at the
//! position up to which the logs were replayed. The restored instance may then become the active instance, with
//! further backups. A chain of backups either continues across a restore or is refused; it must never be silently
//! broken.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ese_engine::internals::cache::{Cache, CacheOptions};
use ese_engine::{BackgroundThreads, Error, Instance, InstanceOptions, Result};
use ese_format::LogPosition;
use jetcell_backup::{
    BackupError, BackupManifest, BackupOptions, BackupProgress, BackupResult, BackupSetError, BackupState,
    BackupType, ReplayEnd, RestoreOptions, RestoreResult, SnapshotMethod, SnapshotOptions, TransferControl,
    back_up, restore, snapshot, verify,
};
use jetcell_vfs::Vfs;
use rand::Rng;

use super::disk::CrashableDisk;
use super::model::{AttachedDatabases, ModelState, difference, read_all};
use super::restored::{content, database_number};
use super::work::{CommitPositions, SimulatedSession};
use super::{DEEP_EVERY, EngineSimulation};

/// Number of lives per seed.
const LIVES: usize = 6;

/// Counts of the events of a seed.
#[derive(Clone, Copy, Default, Debug)]
pub struct BackupTally {
    /// Number of power cuts and kills.
    pub cuts: u64,
    /// Number of these power cuts and kills that occurred during a backup.
    pub in_backup: u64,
    /// Number of these power cuts and kills that occurred during a restore.
    pub in_restore: u64,
    /// Number of completed full backups and copies.
    pub full: u64,
    /// Number of completed incremental and differential backups.
    pub incremental: u64,
    /// Number of backups that reused the data of an interrupted backup.
    pub continued: u64,
    /// Number of backups that were refused because the databases have another history since a restore.
    pub refused: u64,
    /// Number of restores that were compared with the model.
    pub restored: u64,
    /// Number of these restores to an earlier position.
    pub earlier: u64,
    /// Number of these restores that used surviving logs.
    pub surviving: u64,
    /// Number of restored instances that became the active instance.
    pub cycles: u64,
    /// Number of commits while a backup was running.
    pub commits_in_backup: u64,
    /// Number of snapshots that were restored and compared with the model.
    pub snapshots: u64,
    /// Number of copies of the frozen disk that were recovered and compared with the model. Some were made after a
    /// power cut.
    pub frozen: u64,
}

impl BackupTally {
    /// Adds the counts of another seed.
    pub fn add(&mut self, other: BackupTally) {
        self.cuts += other.cuts;
        self.in_backup += other.in_backup;
        self.in_restore += other.in_restore;
        self.full += other.full;
        self.incremental += other.incremental;
        self.continued += other.continued;
        self.refused += other.refused;
        self.restored += other.restored;
        self.earlier += other.earlier;
        self.surviving += other.surviving;
        self.cycles += other.cycles;
        self.commits_in_backup += other.commits_in_backup;
        self.snapshots += other.snapshots;
        self.frozen += other.frozen;
    }
}

/// A state, and the position of the commit that produced it.
struct CommittedState {
    position: LogPosition,
    state: ModelState,
    /// Number of the state in this life.
    number: usize,
}

/// Load of one life. Backups call it between two reads.
struct LifeLoad {
    simulation: EngineSimulation,
    instance: Arc<Instance>,
    databases: AttachedDatabases,
    workers: Vec<SimulatedSession>,
    history: Vec<CommittedState>,
    error: Option<Error>,
}

impl LifeLoad {
    fn steps(&mut self, count: usize) -> Result<()> {
        for _ in 0..count {
            let mut commits = CommitPositions::new();
            let number = self.simulation.rng.random_range(0..self.workers.len());
            let worked = self.workers[number].step(&mut self.simulation, &self.databases, &mut commits);
            self.record_commits(commits);
            worked?;
            match self.simulation.rng.random_range(0..12) {
                0 => drop(self.instance.flush()?),
                1..4 => self.instance.step()?,
                4 => drop(self.instance.checkpoint()?),
                _ => {}
            }
            self.simulation.disk.files().clock().sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Freezes the instance, and recovers a copy of the frozen disk, or of the disk after a power cut. The copy must
    /// have all commits, including the lazy commits.
    fn freeze(&mut self) -> Result<()> {
        let freeze = self.instance.freeze(Duration::from_secs(20))?;
        let simulation = &mut self.simulation;
        let disk = if simulation.rng.random_bool(0.5) {
            simulation.disk.process_kill()
        } else {
            simulation.disk.crash(simulation.rng.random())
        };
        freeze.thaw()?;
        let found = self.content_of(&disk);
        let found = found
            .unwrap_or_else(|error| panic!("{}: copy of the frozen disk: {error}", self.simulation.context));
        let empty = ModelState::new();
        let expected = self.history.last().map_or(&empty, |moment| &moment.state);
        let differs = difference(expected, &found);
        assert!(differs.is_empty(), "{}: copy of the frozen disk: {differs}", self.simulation.context);
        Ok(())
    }

    /// Returns the content that an instance finds on a copy of the disk.
    fn content_of(&self, disk: &CrashableDisk) -> Result<ModelState> {
        let (size, files) = (self.simulation.plan.size, disk.files());
        let cache = Cache::new(CacheOptions::new(64 * size.bytes(), size, files.clock()));
        let mut options = InstanceOptions::with_cache(files, self.simulation.logs.clone(), cache);
        (options.background, options.seed) = (BackgroundThreads::None, Some(7));
        let instance = Instance::open(options)?;
        let mut session = instance.session();
        let mut found = ModelState::new();
        let attached = self.databases.iter().enumerate().filter(|(_, database)| database.is_some());
        for (number, _) in attached {
            let database = instance.attach(&self.simulation.db_path(number), 64)?;
            found.extend(read_all(number, &database, &mut session)?);
        }
        Ok(found)
    }

    fn record_commits(&mut self, commits: CommitPositions) {
        for (position, number) in commits {
            if position > LogPosition::MIN {
                let state = self.simulation.states[number].clone();
                self.history.push(CommittedState { position, state, number });
            }
        }
        let durable = self.instance.durable();
        if let Some(moment) = self.history.iter().rev().find(|moment| moment.position <= durable) {
            self.simulation.durable = self.simulation.durable.max(moment.number);
        }
    }
}

/// Returns a callback that runs some steps of the load after each read of a backup.
fn between_reads(load: &Arc<Mutex<LifeLoad>>) -> Arc<dyn Fn(BackupProgress) + Send + Sync> {
    let load = load.clone();
    Arc::new(move |_| {
        let mut load = load.lock().unwrap();
        let steps = load.simulation.rng.random_range(0..4);
        if load.error.is_none()
            && let Err(error) = load.steps(steps)
        {
            load.error = Some(error);
        }
    })
}

/// The backups and the model of one seed.
struct BackupScenario {
    simulation: EngineSimulation,
    history: Vec<CommittedState>,
    /// The last full backup and the backups that continue it, with the databases by number.
    chain: Vec<(PathBuf, BackupResult)>,
    /// Directory and kind of the interrupted backup.
    interrupted: Option<(PathBuf, BackupType)>,
    /// True if the active instance was restored to an earlier position. The next backup may then be unable to
    /// continue the last backup.
    diverged: bool,
    directories: usize,
    tally: BackupTally,
}

/// Runs one seed. Panics if a restored database differs from the model.
pub fn run(seed: u64) -> BackupTally {
    let mut story = BackupScenario {
        // Skips the seeds with deep trees, which take long and add nothing here.
        simulation: EngineSimulation::new(seed / (DEEP_EVERY - 1) + seed + 1, CrashableDisk::new()),
        history: Vec::new(),
        chain: Vec::new(),
        interrupted: None,
        diverged: false,
        directories: 0,
        tally: BackupTally::default(),
    };
    for life in 0..LIVES {
        story.simulation.context = format!("backup seed {seed}, life {life}");
        story = story.live();
        // The model does not contain an abandoned history.
        if !story.chain.is_empty() && !story.diverged && story.simulation.rng.random_bool(0.7) {
            story.restore();
        }
    }
    story.simulation.count_delta_evictions(None);
    story.tally.cuts = story.simulation.tally.cuts;
    story.tally
}

impl BackupScenario {
    fn fail(&self, what: &str, error: impl std::fmt::Debug) -> ! {
        panic!("{}: {what}: {error:?}", self.simulation.context)
    }

    fn new_directory(&mut self, name: &str) -> PathBuf {
        self.directories += 1;
        PathBuf::from(format!("/{name}{}", self.directories))
    }

    /// Recovers, works, and makes backups, until the power fails or the life ends.
    fn live(mut self) -> BackupScenario {
        let instance = self.simulation.recover();
        let mut databases = self.simulation.attach_created(&instance);
        let which = self.simulation.compare(&instance, &databases);
        self.history.retain(|moment| moment.number <= which);
        self.history.iter_mut().for_each(|moment| moment.number = 0);
        let state = self.simulation.states[0].clone();
        self.history.push(CommittedState { position: instance.durable(), state, number: 0 });
        let simulation = &mut self.simulation;
        let limit = 1 << simulation.rng.random_range(6..13);
        let at = simulation.disk.operations() + simulation.rng.random_range(0..limit) + 1;
        simulation.disk.stop_after(if simulation.rng.random_bool(0.5) { at } else { u64::MAX });
        let created: Result<()> = databases.iter_mut().enumerate().try_for_each(|(number, database)| {
            if database.is_none() {
                *database = Some(simulation.create(&instance, number)?);
            }
            Ok(())
        });
        let workers = (0..3).map(|number| SimulatedSession::new(number, instance.session())).collect();
        let BackupScenario { simulation, history, .. } = self;
        let load =
            LifeLoad { simulation, instance: instance.clone(), databases, workers, history, error: None };
        let load = Arc::new(Mutex::new(load));
        let mut rest = BackupScenarioState {
            chain: self.chain,
            interrupted: self.interrupted,
            diverged: self.diverged,
            directories: self.directories,
            tally: self.tally,
        };
        let worked = created.and_then(|()| rest.work(&instance, &load));
        let LifeLoad { mut simulation, workers, databases, history, .. } =
            Arc::into_inner(load).expect("the backup has ended").into_inner().expect("no panic");
        drop((workers, databases));
        if simulation.has_power() {
            worked.unwrap_or_else(|error| panic!("{}: {error} ({error:?})", simulation.context));
            simulation.disk.stop_after(u64::MAX);
            if simulation.rng.random_bool(0.4) {
                instance
                    .shutdown()
                    .unwrap_or_else(|error| panic!("{}: shutdown: {error}", simulation.context));
                simulation.durable = simulation.states.len() - 1;
            }
        }
        drop(instance);
        simulation.cut_power();
        let BackupScenarioState { chain, interrupted, diverged, directories, tally } = rest;
        BackupScenario { simulation, history, chain, interrupted, diverged, directories, tally }
    }
}

/// The parts of a story other than the load.
struct BackupScenarioState {
    chain: Vec<(PathBuf, BackupResult)>,
    interrupted: Option<(PathBuf, BackupType)>,
    diverged: bool,
    directories: usize,
    tally: BackupTally,
}

impl BackupScenarioState {
    fn work(&mut self, instance: &Arc<Instance>, load: &Arc<Mutex<LifeLoad>>) -> Result<()> {
        let backups = load.lock().unwrap().simulation.rng.random_range(0..4);
        for _ in 0..backups {
            let steps = load.lock().unwrap().simulation.rng.random_range(5..60);
            load.lock().unwrap().steps(steps)?;
            self.back_up(instance, load)?;
            if load.lock().unwrap().simulation.rng.random_bool(0.4) {
                self.snapshot(instance, load)?;
            }
            if load.lock().unwrap().simulation.rng.random_bool(0.4) {
                self.tally.frozen += 1;
                load.lock().unwrap().freeze()?;
            }
        }
        let steps = load.lock().unwrap().simulation.rng.random_range(5..60);
        load.lock().unwrap().steps(steps)
    }

    /// Makes a backup while the load works.
    fn back_up(&mut self, instance: &Arc<Instance>, load: &Arc<Mutex<LifeLoad>>) -> Result<()> {
        let (files, pick, circular) = {
            let mut load = load.lock().unwrap();
            let pick: u32 = load.simulation.rng.random_range(0..10);
            (load.simulation.disk.files(), pick, load.simulation.plan.circular)
        };
        self.adopt_whole(&files, &load.lock().unwrap().simulation.context.clone());
        let (directory, kind) = match self.interrupted.take() {
            Some(interrupted) => interrupted,
            None => {
                self.directories += 1;
                let kind = match pick {
                    _ if circular || self.chain.is_empty() => BackupType::Full,
                    0..3 => BackupType::Full,
                    3 => BackupType::Copy,
                    // A differential backup continues the full backup, so it ends a chain of incremental backups
                    // here.
                    4 if self.chain.len() == 1 => BackupType::Differential,
                    _ => BackupType::Incremental,
                };
                (PathBuf::from(format!("/backup{}", self.directories)), kind)
            }
        };
        let parent = match kind {
            BackupType::Full | BackupType::Copy => None,
            BackupType::Differential => self.chain.first(),
            BackupType::Incremental => self.chain.last(),
        };
        let commits = load.lock().unwrap().history.len();
        let options = BackupOptions {
            kind,
            parent: parent.map(|(directory, _)| directory.clone()),
            read_bytes: 64 << 10,
            reads_in_flight: 3,
            threads: false,
            save_bytes: 1,
            pace: TransferControl { progress: Some(between_reads(load)), ..TransferControl::default() },
            ..BackupOptions::default()
        };
        let made = back_up(instance, &files, &directory, &options);
        drop(options);
        let mut load = load.lock().unwrap();
        if let Some(error) = load.error.take() {
            drop(load);
            self.interrupted = Some((directory, kind));
            self.tally.in_backup += 1;
            return Err(error);
        }
        let context = load.simulation.context.clone();
        match made {
            Ok(made) => {
                self.tally.commits_in_backup += (load.history.len() - commits) as u64;
                self.record_backup(&files, directory, made, &context);
                Ok(())
            }
            Err(_) if !load.simulation.has_power() => {
                self.interrupted = Some((directory, kind));
                self.tally.in_backup += 1;
                Err(Error::Cancelled)
            }
            Err(BackupError::Set(
                BackupSetError::RestoredSince(_)
                | BackupSetError::BulkLoaded(_)
                | BackupSetError::LogsRemoved { .. },
            )) if self.diverged && !kind.has_pages() => {
                self.tally.refused += 1;
                self.chain.clear();
                Ok(())
            }
            Err(error) => {
                load.error = None;
                panic!("{context}: backup {kind:?} to {}: {error} ({error:?})", directory.display())
            }
        }
    }

    /// Makes a backup from a snapshot and restores it. The load continues after the freeze.
    fn snapshot(&mut self, instance: &Arc<Instance>, load: &Arc<Mutex<LifeLoad>>) -> Result<()> {
        self.directories += 1;
        let directory = PathBuf::from(format!("/snapshot{}", self.directories));
        let to = PathBuf::from(format!("/from-snapshot{}", self.directories));
        let (files, expected, context) = {
            let load = load.lock().unwrap();
            let expected = load.history.last().map(|moment| moment.state.clone()).unwrap_or_default();
            (load.simulation.disk.files(), expected, load.simulation.context.clone())
        };
        let options = BackupOptions {
            kind: BackupType::Copy,
            read_bytes: 64 << 10,
            reads_in_flight: 3,
            pace: TransferControl { progress: Some(between_reads(load)), ..TransferControl::default() },
            ..BackupOptions::default()
        };
        let made =
            snapshot(instance, &files, &directory, &SnapshotOptions::new(SnapshotMethod::Reflink), &options);
        drop(options);
        let restored = made.and_then(|made| {
            let restored =
                restore(&files, std::slice::from_ref(&directory), &to, &RestoreOptions::default())?;
            Ok((made, restored))
        });
        let mut load = load.lock().unwrap();
        if let Some(error) = load.error.take() {
            self.tally.in_backup += 1;
            return Err(error);
        }
        match restored {
            Ok((made, restored)) => {
                let found = content(&load.simulation, &to, &restored, &made.manifest.databases);
                let differs = difference(&expected, &found);
                assert!(differs.is_empty(), "{context}: snapshot restored to {to:?}: {differs}");
                self.tally.snapshots += 1;
                // Removing the files saves memory for copies of the disk. If the power fails here, the next step
                // notices it.
                for path in [directory, to].iter().flat_map(|copy| files.list(copy).unwrap_or_default()) {
                    let _ = files.remove(&path);
                }
                Ok(())
            }
            Err(_) if !load.simulation.has_power() => {
                self.tally.in_backup += 1;
                Err(Error::Cancelled)
            }
            Err(error) => panic!("{context}: snapshot to {to:?}: {error} ({error:?})"),
        }
    }

    /// Adopts a complete backup that the databases may not know. A cut after the manifest is written leaves such a
    /// backup.
    fn adopt_whole(&mut self, files: &Arc<dyn Vfs>, context: &str) {
        let Some((directory, _)) = &self.interrupted else { return };
        let Ok(BackupState::Complete(manifest)) = BackupManifest::state(&**files, directory) else { return };
        let made = BackupResult {
            manifest: *manifest,
            removed_logs: None,
            copied_bytes: 0,
            continued_bytes: 0,
            already_complete: false,
        };
        let directory = directory.clone();
        self.interrupted = None;
        self.record_backup(files, directory, made, context);
        self.diverged = true;
    }

    fn record_backup(&mut self, files: &Arc<dyn Vfs>, directory: PathBuf, made: BackupResult, context: &str) {
        self.tally.continued += u64::from(made.continued_bytes > 0);
        let verified = verify(files, &directory, &Default::default());
        let verified = verified.unwrap_or_else(|error| panic!("{context}: {error}"));
        assert!(verified.problems.is_empty(), "{context}: {:?}", verified.problems);
        let bad = made.manifest.databases.iter().find(|database| !database.usable);
        assert!(bad.is_none(), "{context}: bad pages: {bad:?}");
        match made.manifest.kind {
            BackupType::Full | BackupType::Copy => {
                self.tally.full += 1;
                // A backup of kind `Copy` does not take part in the sequence.
                if made.manifest.kind == BackupType::Full {
                    self.chain = vec![(directory, made)];
                    self.diverged = false;
                }
            }
            BackupType::Incremental | BackupType::Differential => {
                self.tally.incremental += 1;
                self.chain.push((directory, made));
            }
        }
    }
}

impl BackupScenario {
    /// Restores the chain, with power cuts, and compares it with the model.
    fn restore(&mut self) {
        let to = self.new_directory("restored");
        let first = self.chain[0].1.manifest.clone();
        let end =
            LogPosition::new(self.chain.last().map_or(0, |last| last.1.manifest.generations.last) + 1, 0, 0);
        let consistent = LogPosition::new(first.generations.last + 1, 1, 16);
        let moments: Vec<LogPosition> = self
            .history
            .iter()
            .map(|moment| moment.position)
            .filter(|position| *position > consistent && *position < end)
            .collect();
        let rng = &mut self.simulation.rng;
        let until = (!moments.is_empty() && rng.random_bool(0.4))
            .then(|| moments[rng.random_range(0..moments.len())]);
        let surviving =
            until.is_none() && !self.simulation.plan.circular && !self.diverged && rng.random_bool(0.4);
        let backups: Vec<PathBuf> = self.chain.iter().map(|(directory, _)| directory.clone()).collect();
        let restored = self.restore_with_cuts(&backups, &to, until, surviving);
        self.tally.restored += 1;
        self.tally.earlier += u64::from(until.is_some());
        self.tally.surviving += u64::from(surviving);
        let found = content(&self.simulation, &to, &restored, &first.databases);
        let expected = if surviving {
            // The state that the active instance would recover now.
            self.simulation.states[self.simulation.durable..].iter().rev().find(|state| **state == found)
        } else {
            let until = until.unwrap_or(restored.position);
            let moment = self.history.iter().rev().find(|moment| moment.position <= until);
            moment.map(|moment| &moment.state)
        };
        let expected =
            expected.unwrap_or_else(|| self.fail("no moment of the model is that old", restored.position));
        let differs = difference(expected, &found);
        assert!(
            differs.is_empty(),
            "{}: restored {backups:?} to {:?} (until {until:?}, surviving {surviving}): {differs}",
            self.simulation.context,
            restored.position
        );
        if self.simulation.rng.random_bool(0.5) {
            self.continue_on_restored(&to, &restored, found, until.is_some());
        }
    }

    fn restore_with_cuts(
        &mut self,
        backups: &[PathBuf],
        to: &Path,
        until: Option<LogPosition>,
        surviving: bool,
    ) -> RestoreResult {
        for attempt in 0.. {
            let options = RestoreOptions {
                until: until.map(ReplayEnd::Position),
                logs: surviving.then(|| self.simulation.logs.clone()),
                // A cut after the end of the restore leaves no marker.
                force: attempt > 0,
                ..RestoreOptions::default()
            };
            if attempt < 3 && self.simulation.rng.random_bool(0.6) {
                let limit = 1 << self.simulation.rng.random_range(1..9);
                let at = self.simulation.disk.operations() + self.simulation.rng.random_range(0..limit) + 1;
                self.simulation.disk.stop_after(at);
            }
            let restored = restore(&self.simulation.disk.files(), backups, to, &options);
            match restored {
                Ok(restored) => {
                    self.simulation.disk.stop_after(u64::MAX);
                    return restored;
                }
                Err(_) if !self.simulation.has_power() => {
                    self.tally.in_restore += 1;
                    self.simulation.cut_power();
                }
                Err(error) => self
                    .fail(&format!("restore of {backups:?} until {until:?}, surviving {surviving}"), error),
            }
        }
        unreachable!("the last attempt has no cut")
    }

    /// Makes the restored instance the active instance.
    fn continue_on_restored(
        &mut self,
        to: &Path,
        restored: &RestoreResult,
        state: ModelState,
        earlier: bool,
    ) {
        self.tally.cycles += 1;
        self.simulation.logs = to.to_path_buf();
        for number in 0..self.simulation.plan.databases {
            let path = restored.databases.iter().find(|path| database_number(path) == number);
            self.simulation.created[number] = path.is_some();
            self.simulation.databases[number] = path.cloned().unwrap_or_else(|| to.join("data-2.edb"));
        }
        self.history.retain(|moment| moment.position <= restored.position);
        self.history.push(CommittedState { position: restored.position, state: state.clone(), number: 0 });
        self.history.iter_mut().for_each(|moment| moment.number = 0);
        self.simulation.states = vec![state];
        self.simulation.durable = 0;
        self.interrupted = None;
        self.diverged |= earlier;
    }
}
