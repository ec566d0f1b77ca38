//! An attached database: its file, its open trees and tables, and its maintenance.

use jetcell_sync::Arc;
use std::path::Path;

use ese_format::header::DatabaseHeader;
use ese_format::{DbTime, PageSize};

use crate::btree::OpenTrees;
use crate::cache::AttachedFileId;
use crate::catalog::SystemTables;
use crate::defrag::{DefragKind, DefragPass, DefragProgress};
use crate::scan::{ScanPass, ScanProgress};
use crate::storage::DatabaseFile;
use crate::table::OpenTables;
use crate::task::MaintenanceTask;
use crate::transaction::Services;

/// A database that is attached to an instance. ESE: `JET_DBID`.
#[doc(alias = "JET_DBID")]
#[repr(align(128))]
pub struct Database {
    pub(crate) file: Arc<DatabaseFile>,
    pub(crate) trees: Arc<OpenTrees>,
    pub(crate) tables: OpenTables,
    pub(crate) system: Arc<SystemTables>,
    pub(crate) scan: MaintenanceTask<ScanPass>,
    compaction: MaintenanceTask<DefragPass>,
    layout: MaintenanceTask<DefragPass>,
}

impl Database {
    pub(crate) fn new(file: Arc<DatabaseFile>, services: &Arc<Services>) -> Database {
        let trees = Arc::new(OpenTrees::new(file.clone(), services.versions.clone()));
        let system = Arc::new(SystemTables::new(trees.clone()));
        Database {
            compaction: MaintenanceTask::new(file.clone(), services.clone()),
            layout: MaintenanceTask::new(file.clone(), services.clone()),
            tables: OpenTables::new(system.clone()),
            system,
            trees,
            scan: MaintenanceTask::new(file.clone(), services.clone()),
            file,
        }
    }

    /// Returns the path of the database file.
    pub fn path(&self) -> &Path {
        &self.file.path
    }

    /// Returns the header as it would be written now.
    pub fn header(&self) -> DatabaseHeader {
        self.file.header()
    }

    /// Returns the page size.
    pub fn page_size(&self) -> PageSize {
        self.file.page_size
    }

    /// Returns the id of the file in the cache.
    pub fn file_id(&self) -> AttachedFileId {
        self.file.file_id
    }

    /// Returns the id of the database in log records. ESE: `dbid`.
    pub fn log_id(&self) -> u8 {
        self.file.log_id
    }

    /// Returns the highest database time assigned so far.
    pub fn db_time(&self) -> DbTime {
        self.file.db_time()
    }

    /// Stops the scan and both kinds of defragmentation, and stores their progress.
    pub(crate) fn stop_maintenance(&self) {
        self.scan.stop();
        self.stop_defragmentation();
    }

    /// Stops both kinds of defragmentation, and stores their state.
    pub(crate) fn stop_defragmentation(&self) {
        self.compaction.stop();
        self.layout.stop();
    }

    /// Returns the task that performs defragmentation of the given kind.
    pub(crate) fn defragmentation(&self, kind: DefragKind) -> &MaintenanceTask<DefragPass> {
        match kind {
            DefragKind::Compaction => &self.compaction,
            DefragKind::SequentialLayout => &self.layout,
        }
    }

    /// Returns the length of the database file in bytes.
    pub fn file_bytes(&self) -> crate::Result<u64> {
        self.file.bytes()
    }

    /// Returns the progress of compaction, which merges sparse pages, since the database was attached.
    pub fn defrag_progress(&self) -> DefragProgress {
        self.compaction.progress()
    }

    /// Returns the progress of the sequential layout since the database was attached.
    pub fn layout_progress(&self) -> DefragProgress {
        self.layout.progress()
    }

    /// Returns the progress of the scan since the database was attached.
    pub fn scan_progress(&self) -> ScanProgress {
        self.scan.progress()
    }
}
