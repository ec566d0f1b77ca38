//! Maintenance of the databases of a stopped instance, and of passive copies.

mod error;
mod tasks;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ese_engine::{
    DatabasePaths, DefragOptions, DefragProgress, EventProfile, Instance, InstanceOptions, MaintenanceWindow,
    RecoverySet, ScanOptions, ScanProgress, ShrinkReport, TrimReport,
};
use ese_format::LogPosition;
use jetcell_backup::{RecoveryError, check_not_in_use, log_directory};
use jetcell_copies::{CopyScanOptions, CopyScanProgress, CopyState, ScannedDatabase, scan_copy};
use jetcell_host::Cancellation;
use jetcell_vfs::{Vfs, files_at, parent_directory, with_path};

pub use self::error::{DatabaseFailure, MaintenanceError};
use self::tasks::{MaintenanceRun, MaintenanceSlots};
use crate::event_file::{EVENT_FILE, EventFile};

type Result<T> = std::result::Result<T, MaintenanceError>;

/// Tasks to run once on each database of a stopped instance or of a passive copy.
#[derive(Clone)]
pub struct MaintenanceRequest {
    /// Logs and databases of the instance, or directories that contain them.
    pub paths: Vec<PathBuf>,
    /// Options of the scan, if one was requested.
    pub scan: Option<ScanOptions>,
    /// Defragmentations in the order in which they run.
    pub defragmentations: Vec<DefragOptions>,
    /// Whether free space at the end of the file is returned to the file system.
    pub shrink: bool,
    /// Whether free parts of the file are returned to the file system.
    pub trim: bool,
    /// Window to which scans and defragmentations are limited.
    pub window: Option<MaintenanceWindow>,
    /// Whether databases on one disk do not wait for each other.
    pub parallel: bool,
    /// Profile that selects the event numbers.
    pub event_profile: EventProfile,
}

/// Progress of maintenance.
#[derive(Clone, Copy, Debug)]
pub enum MaintenanceProgress<'p> {
    /// Description of what is done on a database.
    Database(&'p str),
    /// Progress of the scan of a copy, and the last page of the database.
    Copy(&'p ScannedDatabase, u32),
    /// No further task is run on a database.
    Failed(&'p DatabaseFailure),
}

/// Result of maintenance.
#[derive(Debug)]
pub enum MaintenanceReport {
    /// Scan of the copy in this directory.
    Copy(PathBuf, CopyScanProgress),
    /// Results of the databases of an instance, and the result of the shutdown of the instance.
    Instance(Vec<DatabaseMaintenanceResult>, ese_engine::Result<()>),
}

/// Maintenance result for one database. A field is `None` if the task was not requested, or if space could not be
/// returned.
#[derive(Debug, Default)]
pub struct DatabaseMaintenanceResult {
    /// Path of the database.
    pub path: PathBuf,
    /// Progress of the scan.
    pub scan: Option<ScanProgress>,
    /// Progress of the defragmentation that merges pages.
    pub defragmentation: Option<DefragProgress>,
    /// Progress of the defragmentation that moves pages into key order.
    pub layout: Option<DefragProgress>,
    /// Space at the end of the file that was returned.
    pub shrink: Option<ShrinkReport>,
    /// Space inside the file that was returned.
    pub trim: Option<TrimReport>,
    /// Whether all requested tasks are complete.
    pub is_complete: bool,
    /// Reason why not all tasks were run.
    pub failure: Option<DatabaseFailure>,
}

impl DatabaseMaintenanceResult {
    /// Returns true if the tasks found no bad page.
    pub fn is_sound(&self) -> bool {
        let skipped =
            [&self.defragmentation, &self.layout].into_iter().flatten().all(|pass| pass.skipped == 0);
        skipped && self.scan.as_ref().is_none_or(|scan| scan.pass.bad == 0)
    }
}

impl MaintenanceRequest {
    /// Runs the tasks until they are complete or `stop` is cancelled. Dirty databases are recovered first. Events are
    /// written next to the logs. A failure of a database does not prevent the tasks on the other databases.
    ///
    /// # Errors
    /// The request does not fit the files, the instance is in use, or it cannot be recovered.
    pub fn run(
        &self,
        vfs: &Arc<dyn Vfs>,
        stop: &Cancellation,
        progress: &mut dyn FnMut(MaintenanceProgress<'_>),
    ) -> Result<MaintenanceReport> {
        for path in self.paths.iter().filter(|path| path.is_dir()) {
            if CopyState::read(&**vfs, path)?.is_some() {
                return match &self.paths[..] {
                    [copy] => self.scan_copy(vfs, copy, stop, progress),
                    _ => Err(MaintenanceError::OnlyOneCopy(path.clone())),
                };
            }
        }
        let set = RecoverySet::find_attachable(vfs, &files_at(&self.paths)?)?;
        let Some(first) = set.databases.first() else { return Err(MaintenanceError::NoDatabase) };
        let slots = MaintenanceSlots::assign(vfs, &set, self.parallel);
        self.check_window(&slots)?;
        let directory = if set.logs.is_empty() {
            parent_directory(&first.path).to_path_buf()
        } else {
            log_directory(&set.plan(LogPosition::MAX))?
        };
        check_not_in_use(&set, &directory).map_err(RecoveryError::from)?;
        let events = open_events(&directory)?;
        let mut options = InstanceOptions::with_vfs(vfs.clone(), directory);
        options.log.base_name = set.base_name;
        options.log.names = set.log_names;
        options.page_size = first.header.page_size;
        options.events.sink = Some(Arc::new(events));
        options.events.profile = self.event_profile;
        let mut paths = DatabasePaths::default();
        set.databases.iter().for_each(|database| paths.search(parent_directory(&database.path)));
        options.recovery.database_paths = paths;
        let instance = Instance::open(options)?;
        let mut running = MaintenanceRun { request: self, instance: &instance, stop, progress };
        let results = running.run(&set, slots);
        Ok(MaintenanceReport::Instance(results, instance.shutdown()))
    }

    fn scan_copy(
        &self,
        vfs: &Arc<dyn Vfs>,
        directory: &Path,
        stop: &Cancellation,
        progress: &mut dyn FnMut(MaintenanceProgress<'_>),
    ) -> Result<MaintenanceReport> {
        let other = !self.defragmentations.is_empty() || self.shrink || self.trim;
        let Some(scan) = self.scan.as_ref().filter(|scan| !scan.zero && !other) else {
            return Err(MaintenanceError::OnlyScan(directory.to_path_buf()));
        };
        if self.window.is_some() {
            return Err(MaintenanceError::CopyWindow(directory.to_path_buf()));
        }
        let options = CopyScanOptions {
            batch_bytes: scan.batch_bytes,
            throttle: scan.throttle.clone(),
            interval: Duration::ZERO,
            events: Some(Arc::new(open_events(directory)?)),
            profile: self.event_profile,
            cancellation: stop.clone(),
        };
        let scan = scan_copy(vfs, directory, &options, &mut |database, last| {
            progress(MaintenanceProgress::Copy(database, last));
            true
        })?;
        Ok(MaintenanceReport::Copy(directory.to_path_buf(), scan))
    }
}

fn open_events(directory: &Path) -> Result<EventFile> {
    Ok(EventFile::open(directory, true).map_err(|error| with_path(&directory.join(EVENT_FILE), error))?)
}
