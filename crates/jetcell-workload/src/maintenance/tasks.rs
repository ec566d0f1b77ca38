//! Maintenance tasks on attached databases.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ese_engine::{
    Database, DefragKind, DefragOptions, DefragProgress, Instance, MaintenanceTurn, MaintenanceWindow,
    RecoverySet, ScanOptions, ShrinkReport, TrimReport,
};
use jetcell_host::Cancellation;
use jetcell_vfs::{Vfs, parent_directory};

use super::error::{DatabaseFailure, MaintenanceError};
use super::request::{DatabaseMaintenanceResult, MaintenanceProgress, MaintenanceRequest};

/// Interval between two checks of the progress.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Interval between two reports of the progress.
const REPORT_INTERVAL: Duration = Duration::from_secs(2);

/// A database's disk and its share of the maintenance window.
struct MaintenanceSlot {
    /// Turn-taking between databases on the same disk. `None` means that the database does not wait for other
    /// databases.
    disk_turn: Option<Arc<MaintenanceTurn>>,
    /// Index of the database among the databases that share a window, and the total number of these databases.
    window_part: (u32, u32),
}

/// The disk and window share for each database.
pub(super) struct MaintenanceSlots(Vec<MaintenanceSlot>);

impl MaintenanceSlots {
    /// Assigns the databases to disks. Databases in the same directory are assumed to be on one disk, and wait for
    /// each other unless `parallel` is true.
    pub fn assign(vfs: &Arc<dyn Vfs>, set: &RecoverySet, parallel: bool) -> MaintenanceSlots {
        let mut disks: Vec<(PathBuf, Arc<MaintenanceTurn>, u32)> = Vec::new();
        let mut found = Vec::new();
        for database in &set.databases {
            let place = parent_directory(&database.path).to_path_buf();
            let disk = disks.iter().position(|(other, ..)| vfs.same_file(other, &place));
            let disk = disk.unwrap_or_else(|| {
                disks.push((place, Arc::default(), 0));
                disks.len() - 1
            });
            let (_, _, databases) = &mut disks[disk];
            found.push((disk, *databases));
            *databases += 1;
        }
        let slot = |(disk, before): (usize, u32)| {
            let (_, turn, databases) = &disks[disk];
            if parallel {
                MaintenanceSlot { disk_turn: None, window_part: (0, 1) }
            } else {
                MaintenanceSlot { disk_turn: Some(turn.clone()), window_part: (before, *databases) }
            }
        };
        MaintenanceSlots(found.into_iter().map(slot).collect())
    }
}

/// An attached database, and the results that are not stored in the database.
struct MaintainedDatabase {
    database: Arc<Database>,
    slot: MaintenanceSlot,
    shrink: Option<ShrinkReport>,
    trim: Option<TrimReport>,
    /// Reason why no further tasks are run on this database.
    failure: Option<DatabaseFailure>,
}

type ProgressFn<'a> = &'a mut dyn FnMut(MaintenanceProgress<'_>);

impl MaintainedDatabase {
    fn record_failure(&mut self, failure: DatabaseFailure, progress: ProgressFn<'_>) {
        progress(MaintenanceProgress::Failed(&failure));
        self.failure = Some(failure);
    }
}

impl MaintenanceRequest {
    /// Fails if the window is too short for all tasks on all databases.
    pub(super) fn check_window(&self, slots: &MaintenanceSlots) -> Result<(), MaintenanceError> {
        if self.window.is_some() && self.scan.is_none() && self.defragmentations.is_empty() {
            return Err(MaintenanceError::UnusedWindow);
        }
        Ok(slots.0.iter().try_for_each(|slot| self.window_for(0, slot).map(|_| ()))?)
    }

    /// Returns the part of the window for a task on a database. Task 0 is the scan.
    fn window_for(
        &self,
        task: usize,
        slot: &MaintenanceSlot,
    ) -> ese_engine::Result<Option<MaintenanceWindow>> {
        let tasks = usize::from(self.scan.is_some()) + self.defragmentations.len();
        let of_task = (task as u32, tasks as u32);
        self.window.map(|window| window.share(of_task, slot.window_part)).transpose()
    }
}

/// Tasks that run on the databases of an instance.
pub(super) struct MaintenanceRun<'a> {
    pub request: &'a MaintenanceRequest,
    pub instance: &'a Arc<Instance>,
    pub stop: &'a Cancellation,
    pub progress: ProgressFn<'a>,
}

impl MaintenanceRun<'_> {
    /// Runs each task once on each database. Without a window, the tasks run one after the other. With a window, the
    /// scan and the defragmentations each run in their part of it, and shrink and trim run last. After a task has
    /// failed, no further tasks run on that database; the other databases continue.
    pub fn run(&mut self, set: &RecoverySet, slots: MaintenanceSlots) -> Vec<DatabaseMaintenanceResult> {
        let (mut attached, mut unattached) = (Vec::new(), Vec::new());
        for (found, slot) in set.databases.iter().zip(slots.0) {
            match self.instance.attach(&found.path, 256) {
                Ok(database) => {
                    attached.push(MaintainedDatabase {
                        database,
                        slot,
                        shrink: None,
                        trim: None,
                        failure: None,
                    });
                }
                Err(error) => {
                    let failure = DatabaseFailure::Unattached(error);
                    (self.progress)(MaintenanceProgress::Failed(&failure));
                    let result = self.result(&found.path, None, (None, None));
                    unattached.push(DatabaseMaintenanceResult { failure: Some(failure), ..result });
                }
            }
        }
        self.run_tasks(&mut attached);
        let attached =
            attached.into_iter().map(|MaintainedDatabase { database, shrink, trim, failure, .. }| {
                let result = self.result(database.path(), Some(&database), (shrink, trim));
                DatabaseMaintenanceResult { failure, ..result }
            });
        attached.chain(unattached).collect()
    }

    /// Returns the result for a database. `database` is `None` if it could not be attached.
    fn result(
        &self,
        path: &Path,
        database: Option<&Database>,
        (shrink, trim): (Option<ShrinkReport>, Option<TrimReport>),
    ) -> DatabaseMaintenanceResult {
        let pass = |kind, progress: fn(&Database) -> DefragProgress| {
            let is_requested = self.request.defragmentations.iter().any(|options| options.kind == kind);
            is_requested.then(|| database.map(progress).unwrap_or_default())
        };
        let scan = self.request.scan.as_ref();
        let scan = scan.map(|_| database.map(Database::scan_progress).unwrap_or_default());
        let defragmentation = pass(DefragKind::Compaction, Database::defrag_progress);
        let layout = pass(DefragKind::SequentialLayout, Database::layout_progress);
        let is_complete = scan.as_ref().is_none_or(|scan| scan.passes > 0)
            && [&defragmentation, &layout].into_iter().flatten().all(|pass| pass.passes > 0)
            && (!self.request.shrink || shrink.is_some())
            && (!self.request.trim || trim.is_some());
        let path = path.to_path_buf();
        DatabaseMaintenanceResult {
            path,
            scan,
            defragmentation,
            layout,
            shrink,
            trim,
            is_complete,
            ..DatabaseMaintenanceResult::default()
        }
    }

    fn run_tasks(&mut self, attached: &mut [MaintainedDatabase]) {
        let has_window = self.request.window.is_some();
        for task in 0..self.request.defragmentations.len() {
            if !self.stop.is_cancelled() {
                self.defragment(attached, task);
                if !has_window {
                    self.wait(attached);
                }
            }
        }
        if !has_window {
            self.shrink_and_trim(attached);
        }
        if !self.stop.is_cancelled() {
            self.start_scan(attached);
        }
        self.wait(attached);
        if has_window {
            self.shrink_and_trim(attached);
        }
    }

    /// Shrinks and trims the databases one after the other.
    fn shrink_and_trim(&mut self, attached: &mut [MaintainedDatabase]) {
        let (request, instance, stop) = (self.request, self.instance, self.stop);
        self.for_each_without_failure(attached, |one, progress| {
            let mut begin = |what: &str| {
                let line = format!("{}: {what}", one.database.path().display());
                progress(MaintenanceProgress::Database(&line));
            };
            if request.shrink && !stop.is_cancelled() {
                begin("truncating the free end");
                one.shrink = Some(instance.shrink(&one.database)?);
            }
            if request.trim && !stop.is_cancelled() {
                begin("punching holes");
                one.trim = Some(instance.trim(&one.database)?);
            }
            Ok(())
        });
    }

    /// Starts the defragmentation with the given index.
    fn defragment(&mut self, attached: &mut [MaintainedDatabase], task: usize) {
        let (request, instance) = (self.request, self.instance);
        self.for_each_without_failure(attached, |one, _| {
            let window = request.window_for(usize::from(request.scan.is_some()) + task, &one.slot)?;
            let turn = one.slot.disk_turn.clone();
            let options = DefragOptions { turn, window, ..request.defragmentations[task].clone() };
            instance.start_defragmentation(&one.database, options).map(|_| ())
        });
    }

    fn start_scan(&mut self, attached: &mut [MaintainedDatabase]) {
        let (request, instance) = (self.request, self.instance);
        let Some(options) = &request.scan else { return };
        self.for_each_without_failure(attached, |one, _| {
            let window = request.window_for(0, &one.slot)?;
            let options = ScanOptions { turn: one.slot.disk_turn.clone(), window, ..options.clone() };
            instance.start_maintenance(&one.database, options).map(|_| ())
        });
    }

    /// Runs a step on each database that has not failed, and records failures.
    fn for_each_without_failure(
        &mut self,
        attached: &mut [MaintainedDatabase],
        step: impl Fn(&mut MaintainedDatabase, ProgressFn<'_>) -> ese_engine::Result<()>,
    ) {
        for one in attached.iter_mut().filter(|one| one.failure.is_none()) {
            if let Err(error) = step(one, &mut *self.progress) {
                one.record_failure(error.into(), &mut *self.progress);
            }
        }
    }

    /// Waits until no task is running or `stop` is cancelled, then stops the tasks.
    fn wait(&mut self, attached: &mut [MaintainedDatabase]) {
        let mut reported = Instant::now();
        let instance = self.instance;
        let end_tasks = |database: &Arc<Database>| {
            instance.stop_defragmentation(database);
            instance.stop_scan(database);
        };
        loop {
            let is_report_due = reported.elapsed() > REPORT_INTERVAL;
            let mut running = false;
            for one in attached.iter_mut().filter(|one| one.failure.is_none()) {
                let states = states(&one.database);
                // A failed task is stopped. Otherwise the instance would repeat it forever while other databases on
                // the same disk wait for their turn.
                if let Some(what) = states.iter().find_map(|state| state.failure.as_ref()) {
                    end_tasks(&one.database);
                    one.record_failure(DatabaseFailure::Background(what.clone()), &mut *self.progress);
                    continue;
                }
                for state in states.iter().filter(|state| state.running) {
                    running = true;
                    if is_report_due {
                        (self.progress)(MaintenanceProgress::Database(&state.line));
                    }
                }
            }
            if is_report_due {
                reported = Instant::now();
            }
            if !running || !self.stop.sleep(POLL_INTERVAL) {
                break;
            }
        }
        attached.iter().for_each(|one| end_tasks(&one.database));
    }
}

/// Current state of a task.
struct TaskState {
    running: bool,
    failure: Option<String>,
    line: String,
}

/// Returns the states of a database's tasks.
fn states(database: &Database) -> [TaskState; 3] {
    let (scan, path) = (database.scan_progress(), database.path().display());
    let page = scan.position.map_or(0, ese_format::PageNumber::get);
    let defragmentation = |progress: DefragProgress| {
        let DefragProgress { pages_visited, pages_freed, pages_moved, .. } = progress;
        TaskState {
            running: progress.running,
            failure: progress.failure,
            line: format!("{path}: {pages_visited} pages visited, {pages_freed} freed, {pages_moved} moved"),
        }
    };
    [
        defragmentation(database.defrag_progress()),
        defragmentation(database.layout_progress()),
        TaskState {
            running: scan.running,
            failure: scan.failure,
            line: format!("{path}: page {page}, {} bad", scan.pass.bad),
        },
    ]
}
