//! Maintenance tasks on attached databases.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ese_engine::{
    Database, DefragKind, DefragOptions, DefragProgress, Instance, MaintenanceTurn, MaintenanceWindow,
    RecoverySet, ScanOptions, ShrinkReport, TrimReport,
};
use jetcell_host::Cancellation;
use jetcell_vfs::{Vfs, parent_directory};

use crate::console;
use crate::outcome::{CommandError, CommandResult};

/// Interval between two checks of the progress.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Interval between progress lines on a terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(2);

/// Which maintenance tasks were requested.
#[derive(Clone, Copy)]
pub(super) struct MaintenanceTasks {
    pub scan: bool,
    pub defragmentation: bool,
    pub layout: bool,
    pub shrink: bool,
    pub trim: bool,
}

/// The space that one database has returned to the file system. `None` means that the task was not requested, or was
/// stopped before it started.
#[derive(Clone, Copy, Default)]
pub(super) struct ReturnedSpace {
    pub shrink: Option<ShrinkReport>,
    pub trim: Option<TrimReport>,
}

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
        let place = |(disk, before): (usize, u32)| {
            let (_, turn, databases) = &disks[disk];
            if parallel {
                MaintenanceSlot { disk_turn: None, window_part: (0, 1) }
            } else {
                MaintenanceSlot { disk_turn: Some(turn.clone()), window_part: (before, *databases) }
            }
        };
        MaintenanceSlots(found.into_iter().map(place).collect())
    }

    /// Attaches the databases in the set. The second list contains the databases that could not be attached, each
    /// with the reason.
    pub fn attach(
        self,
        instance: &Arc<Instance>,
        set: &RecoverySet,
    ) -> (Vec<MaintainedDatabase>, Vec<UnattachedDatabase>) {
        let (mut attached, mut unattached) = (Vec::new(), Vec::new());
        for (found, place) in set.databases.iter().zip(self.0) {
            match instance.attach(&found.path, 256).map_err(CommandError::from) {
                Ok(database) => {
                    attached.push(MaintainedDatabase {
                        database,
                        place,
                        space: ReturnedSpace::default(),
                        failure: None,
                    });
                }
                Err(what) => {
                    what.print();
                    unattached
                        .push(UnattachedDatabase { path: found.path.clone(), failure: what.full_text() });
                }
            }
        }
        (attached, unattached)
    }
}

/// A database that could not be attached.
pub(super) struct UnattachedDatabase {
    pub path: PathBuf,
    pub failure: String,
}

/// An attached database, and the results that are not stored in the database.
pub(super) struct MaintainedDatabase {
    pub database: Arc<Database>,
    place: MaintenanceSlot,
    pub space: ReturnedSpace,
    /// Reason why no further tasks are run on this database.
    pub failure: Option<String>,
}

impl MaintainedDatabase {
    fn record_failure(&mut self, failure: CommandError) {
        let failure = failure.add_advice("the same command resumes the work on this database");
        failure.print();
        self.failure = Some(failure.full_text());
    }
}

/// Tasks to run on all databases.
pub(super) struct MaintenanceSchedule {
    pub scan: Option<ScanOptions>,
    /// Defragmentations in the order in which they run.
    pub defragmentations: Vec<DefragOptions>,
    pub shrink: bool,
    pub trim: bool,
    pub window: Option<MaintenanceWindow>,
}

impl MaintenanceSchedule {
    /// Returns the tasks whose results are shown.
    pub fn visible_tasks(&self) -> MaintenanceTasks {
        let is_wanted = |kind| self.defragmentations.iter().any(|options| options.kind == kind);
        MaintenanceTasks {
            scan: self.scan.is_some(),
            defragmentation: is_wanted(DefragKind::Compaction),
            layout: is_wanted(DefragKind::SequentialLayout),
            shrink: self.shrink,
            trim: self.trim,
        }
    }

    /// Fails if the window is too short for all tasks on all databases.
    pub fn check_window(&self, places: &MaintenanceSlots) -> CommandResult<()> {
        if self.window.is_some() && self.scan.is_none() && self.defragmentations.is_empty() {
            return Err(CommandError::new(
                "--maintenance-window applies only to scan, zero, defrag and layout",
            )
            .advise("for example, use --tasks scan"));
        }
        places.0.iter().try_for_each(|place| self.window_for(0, place).map(|_| ()))
    }

    /// Runs each task once on each database. Without a window, the tasks run one after the other. With a window, the
    /// scan and the defragmentations each run in their part of it, and shrink and trim run last. After a task has
    /// failed, no further tasks run on that database; the other databases continue.
    pub fn run(&self, instance: &Arc<Instance>, attached: &mut [MaintainedDatabase], stop: &Cancellation) {
        let stopped = || stop.is_cancelled();
        for task in (0..self.defragmentations.len()).filter(|_| !stopped()) {
            self.defragment(instance, attached, task);
            if self.window.is_none() {
                wait(instance, attached, stop);
            }
        }
        if self.window.is_none() {
            self.shrink_and_trim(instance, attached, stop);
        }
        if !stopped() {
            self.start_scan(instance, attached);
        }
        wait(instance, attached, stop);
        if self.window.is_some() {
            self.shrink_and_trim(instance, attached, stop);
        }
    }

    /// Shrinks and trims the databases one after the other.
    fn shrink_and_trim(&self, instance: &Instance, attached: &mut [MaintainedDatabase], stop: &Cancellation) {
        for_each_without_failure(attached, |one| {
            let begins = |what: &str| {
                if std::io::stderr().is_terminal() {
                    console::print_note(&format!("{}: {what}", one.database.path().display()));
                }
            };
            if self.shrink && !stop.is_cancelled() {
                begins("truncating the free end");
                one.space.shrink = Some(instance.shrink(&one.database)?);
            }
            if self.trim && !stop.is_cancelled() {
                begins("punching holes");
                one.space.trim = Some(instance.trim(&one.database)?);
            }
            Ok(())
        });
    }

    /// Returns the part of the window for a task on a database. Task 0 is the scan.
    fn window_for(&self, task: usize, place: &MaintenanceSlot) -> CommandResult<Option<MaintenanceWindow>> {
        let tasks = usize::from(self.scan.is_some()) + self.defragmentations.len();
        let of_task = (task as u32, tasks as u32);
        let share = self.window.map(|window| window.share(of_task, place.window_part)).transpose();
        Ok(share?)
    }

    /// Starts the defragmentation with the given index.
    fn defragment(&self, instance: &Arc<Instance>, attached: &mut [MaintainedDatabase], task: usize) {
        for_each_without_failure(attached, |one| {
            let window = self.window_for(usize::from(self.scan.is_some()) + task, &one.place)?;
            let turn = one.place.disk_turn.clone();
            let options = DefragOptions { turn, window, ..self.defragmentations[task].clone() };
            instance.start_defragmentation(&one.database, options).map(|_| ()).map_err(CommandError::from)
        });
    }

    fn start_scan(&self, instance: &Arc<Instance>, attached: &mut [MaintainedDatabase]) {
        let Some(options) = &self.scan else { return };
        for_each_without_failure(attached, |one| {
            let window = self.window_for(0, &one.place)?;
            let options = ScanOptions { turn: one.place.disk_turn.clone(), window, ..options.clone() };
            instance.start_maintenance(&one.database, options).map(|_| ()).map_err(CommandError::from)
        });
    }
}

/// Runs a step on each database that has not failed, and records failures.
fn for_each_without_failure(
    attached: &mut [MaintainedDatabase],
    step: impl Fn(&mut MaintainedDatabase) -> CommandResult<()>,
) {
    for one in attached.iter_mut().filter(|one| one.failure.is_none()) {
        if let Err(what) = step(one) {
            one.record_failure(what);
        }
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

/// Waits until no task is running or `stop` is set, then stops the tasks.
fn wait(instance: &Arc<Instance>, attached: &mut [MaintainedDatabase], stop: &Cancellation) {
    let mut told = Instant::now();
    let end_tasks = |database: &Arc<Database>| {
        instance.stop_defragmentation(database);
        instance.stop_scan(database);
    };
    loop {
        let tell = std::io::stderr().is_terminal() && told.elapsed() > LINE_INTERVAL;
        let mut running = false;
        for one in attached.iter_mut().filter(|one| one.failure.is_none()) {
            let states = states(&one.database);
            // A failed task is stopped. Otherwise the instance would repeat it forever while other databases on the
            // same disk wait for their turn.
            if let Some(what) = states.iter().find_map(|state| state.failure.as_ref()) {
                end_tasks(&one.database);
                one.record_failure(CommandError::new(what.as_str()));
                continue;
            }
            for state in states.iter().filter(|state| state.running) {
                running = true;
                if tell {
                    console::print_note(&state.line);
                }
            }
        }
        if tell {
            told = Instant::now();
        }
        if stop.is_cancelled() || !running {
            break;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    attached.iter().for_each(|one| end_tasks(&one.database));
}
