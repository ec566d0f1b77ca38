//! Requests for maintenance, and their results.

use std::path::PathBuf;

use ese_engine::{
    DefragOptions, DefragProgress, EventProfile, MaintenanceWindow, ScanOptions, ScanProgress, ShrinkReport,
    TrimReport,
};
use jetcell_copies::{CopyScanProgress, ScannedDatabase};

use super::error::DatabaseFailure;

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
    /// Whether databases on the same disk are maintained concurrently instead of taking turns.
    pub parallel: bool,
    /// Profile that selects the event numbers.
    pub event_profile: EventProfile,
}

/// Progress of maintenance.
#[derive(Clone, Copy, Debug)]
pub enum MaintenanceProgress<'p> {
    /// Description of the current work on a database.
    Database(&'p str),
    /// Progress of the scan of a copy, and the last page of the database.
    Copy(&'p ScannedDatabase, u32),
    /// A failure occurred on a database, so no further tasks run on it.
    Failed(&'p DatabaseFailure),
}

/// Result of maintenance.
#[derive(Debug)]
pub enum MaintenanceReport {
    /// Scan of the copy in this directory.
    Copy(PathBuf, CopyScanProgress),
    /// Results for the databases of all instances.
    Instance(Vec<DatabaseMaintenanceResult>),
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
    /// True if the database's instance was not opened, either because the run was stopped first or because opening it
    /// failed.
    pub is_unopened: bool,
    /// Whether all requested tasks are complete.
    pub is_complete: bool,
    /// Reason why some tasks were not run.
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
