//! The tasks of maintenance on attached databases.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ese_engine::{
    Database, DefragKind, DefragOptions, DefragProgress, Instance, MaintenanceWindow, RecoverySet,
    ScanOptions, ScanTurn,
};
use jetcell_vfs::{Vfs, parent_directory};

use super::shown::{ReturnedSpace, Tasks};
use crate::commands::recover::explained;
use crate::console;
use crate::outcome::Failure;

/// Time between two looks at the progress.
const LOOK: Duration = Duration::from_millis(100);
/// Time between two lines of progress on a terminal.
pub(super) const LINE: Duration = Duration::from_secs(2);

/// Where a database is.
struct Place {
    /// The turn of its disk; `None`: it waits for no other database.
    turn: Option<Arc<ScanTurn>>,
    /// Its place among the databases that share a window, and their number.
    of_disk: (u32, u32),
}

/// Where the databases are.
pub(super) struct Places(Vec<Place>);

impl Places {
    /// Databases in one directory are on one disk, and wait for each other unless `parallel` is true.
    pub fn of(vfs: &Arc<dyn Vfs>, set: &RecoverySet, parallel: bool) -> Places {
        let mut disks: Vec<(PathBuf, Arc<ScanTurn>, u32)> = Vec::new();
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
            match parallel {
                true => Place { turn: None, of_disk: (0, 1) },
                false => Place { turn: Some(turn.clone()), of_disk: (before, *databases) },
            }
        };
        Places(found.into_iter().map(place).collect())
    }

    /// Attaches the databases of the set.
    pub fn attach(self, instance: &Arc<Instance>, set: &RecoverySet) -> Result<Vec<Attached>, Failure> {
        let attach = |(found, place): (&ese_engine::FoundDatabase, Place)| {
            Ok(Attached { database: instance.attach(&found.path, 256).map_err(explained)?, place })
        };
        set.databases.iter().zip(self.0).map(attach).collect()
    }
}

/// An attached database.
pub(super) struct Attached {
    pub database: Arc<Database>,
    place: Place,
}

/// What is to be done with all databases.
pub(super) struct Schedule {
    pub scan: Option<ScanOptions>,
    /// In the order in which they run.
    pub defragmentations: Vec<DefragOptions>,
    pub shrink: bool,
    pub trim: bool,
    pub window: Option<MaintenanceWindow>,
}

impl Schedule {
    /// The tasks whose results are shown.
    pub fn shown(&self) -> Tasks {
        let is_wanted = |kind| self.defragmentations.iter().any(|options| options.kind == kind);
        Tasks {
            scan: self.scan.is_some(),
            defragmentation: is_wanted(DefragKind::Compaction),
            layout: is_wanted(DefragKind::SequentialLayout),
            shrink: self.shrink,
            trim: self.trim,
        }
    }

    /// Refuses a window that is too short for all tasks on all databases.
    pub fn check_window(&self, places: &Places) -> Result<(), Failure> {
        if self.window.is_some() && self.scan.is_none() && self.defragmentations.is_empty() {
            return Err(
                "--maintenance-window is for scan, zero, defrag and layout: write for example --tasks scan"
                    .into(),
            );
        }
        places.0.iter().try_for_each(|place| self.window_of(0, place).map(|_| ()))
    }

    /// Runs each task once on each database. Without a window one follows the other; with one, scan and defragmentations have
    /// their parts, and what returns space comes last. Gives the space that each database has returned.
    pub fn run(
        &self,
        instance: &Arc<Instance>,
        attached: &[Attached],
        stop: &AtomicBool,
    ) -> Result<Vec<ReturnedSpace>, Failure> {
        let stopped = || stop.load(Ordering::SeqCst);
        let mut returned = None;
        for task in (0..self.defragmentations.len()).filter(|_| !stopped()) {
            self.defragment(instance, attached, task)?;
            if self.window.is_none() {
                wait(instance, attached, stop)?;
            }
        }
        if self.window.is_none() {
            returned = Some(self.return_space(instance, attached, stop)?);
        }
        if !stopped() {
            self.start_scan(instance, attached)?;
        }
        wait(instance, attached, stop)?;
        returned.map_or_else(|| self.return_space(instance, attached, stop), Ok)
    }

    /// Shrinks and trims one database after the other.
    fn return_space(
        &self,
        instance: &Instance,
        attached: &[Attached],
        stop: &AtomicBool,
    ) -> Result<Vec<ReturnedSpace>, Failure> {
        let begins = |database: &Database, what: &str| {
            if std::io::stderr().is_terminal() {
                console::note(&format!("{}: {what}", database.path().display()));
            }
        };
        let mut returned = Vec::new();
        for Attached { database, .. } in attached {
            let mut space = ReturnedSpace::default();
            if self.shrink && !stop.load(Ordering::SeqCst) {
                begins(database, "cutting the free end off");
                space.shrink = Some(instance.shrink(database).map_err(explained)?);
            }
            if self.trim && !stop.load(Ordering::SeqCst) {
                begins(database, "punching holes");
                space.trim = Some(instance.trim(database).map_err(explained)?);
            }
            returned.push(space);
        }
        Ok(returned)
    }

    /// The window of a task on a database: the scan is task 0.
    fn window_of(&self, task: usize, place: &Place) -> Result<Option<MaintenanceWindow>, Failure> {
        let tasks = usize::from(self.scan.is_some()) + self.defragmentations.len();
        let of_task = (task as u32, tasks as u32);
        let share = self.window.map(|window| window.share(of_task, place.of_disk)).transpose();
        share.map_err(|error| Failure::from(error.to_string()))
    }

    /// Starts a defragmentation, by its place among them.
    fn defragment(
        &self,
        instance: &Arc<Instance>,
        attached: &[Attached],
        task: usize,
    ) -> Result<(), Failure> {
        for one in attached {
            let window = self.window_of(usize::from(self.scan.is_some()) + task, &one.place)?;
            let turn = one.place.turn.clone();
            let options = DefragOptions { turn, window, ..self.defragmentations[task].clone() };
            instance.start_defragmentation(&one.database, options).map_err(explained)?;
        }
        Ok(())
    }

    fn start_scan(&self, instance: &Arc<Instance>, attached: &[Attached]) -> Result<(), Failure> {
        let Some(options) = &self.scan else { return Ok(()) };
        for one in attached {
            let window = self.window_of(0, &one.place)?;
            let options = ScanOptions { turn: one.place.turn.clone(), window, ..options.clone() };
            instance.start_maintenance(&one.database, options).map_err(explained)?;
        }
        Ok(())
    }
}

/// What a task is doing.
struct TaskState {
    running: bool,
    failure: Option<String>,
    line: String,
}

/// What the tasks of a database are doing.
fn states(database: &Database) -> [TaskState; 3] {
    let (scan, path) = (database.scan_progress(), database.path().display());
    let page = scan.position.map_or(0, |page| page.get());
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

/// Waits until no task is running, or until they are to stop, and stops them.
fn wait(instance: &Arc<Instance>, attached: &[Attached], stop: &AtomicBool) -> Result<(), Failure> {
    let ended = wait_for_end(attached, stop);
    for one in attached {
        instance.stop_defragmentation(&one.database);
        instance.stop_scan(&one.database);
    }
    ended
}

fn wait_for_end(attached: &[Attached], stop: &AtomicBool) -> Result<(), Failure> {
    let mut told = Instant::now();
    loop {
        let states: Vec<_> = attached.iter().flat_map(|one| states(&one.database)).collect();
        if let Some(what) = states.iter().find_map(|state| state.failure.as_ref()) {
            return Err(format!("{what}; the same command resumes the pass").into());
        }
        if stop.load(Ordering::SeqCst) || !states.iter().any(|state| state.running) {
            return Ok(());
        }
        if std::io::stderr().is_terminal() && told.elapsed() > LINE {
            told = Instant::now();
            states.iter().filter(|state| state.running).for_each(|state| console::note(&state.line));
        }
        std::thread::sleep(LOOK);
    }
}
