//! An open database. Python objects share it until one of them closes it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use jetcell_export::{ExportIssue, ExportIssues, ExportView, RenderingOptions, SourceDatabase};
use jetcell_vfs::{RealOptions, RealVfs, is_locked};

use crate::errors::LocatedError;
use crate::options::DamagePolicy;

/// Options with which a database is opened.
pub struct OpenOptions {
    pub rendering: RenderingOptions,
    pub damage: DamagePolicy,
    pub allow_dirty: bool,
    pub allow_in_use: bool,
}

/// Data that is read once when a database is opened.
pub struct OpenedDatabase {
    pub source: SourceDatabase,
    pub view: ExportView,
    /// Issues that were found while the catalog was read.
    pub issues: Vec<ExportIssue>,
    /// File system layer that runs the transfers of the file.
    _vfs: RealVfs,
}

/// A database that can be closed while tables and iterators still refer to it.
pub struct DatabaseHandle {
    pub path: PathBuf,
    pub damage: DamagePolicy,
    opened: RwLock<Option<Arc<OpenedDatabase>>>,
}

/// Returns the file system layer for one database. It uses the page cache and read-ahead, which help programs that
/// read a file repeatedly.
pub fn file_system(path: &Path) -> Result<RealVfs, LocatedError> {
    RealVfs::new(RealOptions { direct: false, ..RealOptions::default() })
        .map_err(|error| LocatedError::system(path, &error))
}

/// Fails if another process changes the file. A file that cannot be opened is reported later, when it is read.
pub fn refuse_in_use(path: &Path, allowed: bool) -> Result<(), LocatedError> {
    if !allowed && is_locked(path).unwrap_or(false) { Err(LocatedError::in_use(path)) } else { Ok(()) }
}

impl DatabaseHandle {
    /// Opens a database.
    pub fn open(path: PathBuf, options: OpenOptions) -> Result<DatabaseHandle, LocatedError> {
        refuse_in_use(&path, options.allow_in_use)?;
        let vfs = file_system(&path)?;
        let mut issues = ExportIssues::default();
        let source =
            SourceDatabase::open(&vfs, &path, &mut issues).map_err(LocatedError::from_check_error)?;
        let database = source.database();
        if !database.is_clean() && !options.allow_dirty {
            let header = &database.header;
            let generations = (header.gen_min_required.0, header.gen_max_required.0);
            return Err(LocatedError::dirty(&path, &format!("{:?}", header.state), generations));
        }
        if options.damage == DamagePolicy::Raise
            && let Some(issue) = issues.last_missing()
        {
            return Err(LocatedError::damaged(&path, issue));
        }
        let view = ExportView::new(&source, options.rendering)
            .map_err(|error| LocatedError::from_export_error(&path, error))?;
        let opened = OpenedDatabase { source, view, issues: issues.stored().to_vec(), _vfs: vfs };
        Ok(DatabaseHandle { path, damage: options.damage, opened: RwLock::new(Some(Arc::new(opened))) })
    }

    /// Returns the database if it is not closed.
    pub fn get(&self) -> Result<Arc<OpenedDatabase>, LocatedError> {
        let opened = self.opened.read().unwrap_or_else(PoisonError::into_inner);
        opened.clone().ok_or_else(|| LocatedError::closed(&self.path))
    }

    /// Closes the file. If a portion or batch is being read, the file is closed when the read completes.
    pub fn close(&self) {
        let opened = self.opened.write().unwrap_or_else(PoisonError::into_inner).take();
        drop(opened);
    }
}
