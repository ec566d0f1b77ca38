//! An open database. Python objects share it until one of them closes it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use jetcell_export::{Issue, Issues, Rendering, Source, View};
use jetcell_vfs::{RealOptions, RealVfs, is_locked};

use crate::errors::Failure;
use crate::options::Damage;

/// Options with which a database is opened.
pub struct OpenOptions {
    pub rendering: Rendering,
    pub damage: Damage,
    pub allow_dirty: bool,
    pub allow_in_use: bool,
}

/// Data that is read once when a database is opened.
pub struct Opened {
    pub source: Source,
    pub view: View,
    /// Issues that were found while the catalog was read.
    pub issues: Vec<Issue>,
    /// File system layer that runs the transfers of the file.
    _vfs: RealVfs,
}

/// A database that can be closed while tables and iterators still refer to it.
pub struct Handle {
    pub path: PathBuf,
    pub damage: Damage,
    opened: RwLock<Option<Arc<Opened>>>,
}

/// Returns the file system layer for one database. It uses the page cache and read-ahead, which help programs that
/// read a file repeatedly.
pub fn file_system(path: &Path) -> Result<RealVfs, Failure> {
    RealVfs::new(RealOptions { direct: false, ..RealOptions::default() })
        .map_err(|error| Failure::system(path, &error))
}

/// Fails if another process changes the file. A file that cannot be opened is reported later, when it is read.
pub fn refuse_in_use(path: &Path, allowed: bool) -> Result<(), Failure> {
    if !allowed && is_locked(path).unwrap_or(false) { Err(Failure::in_use(path)) } else { Ok(()) }
}

impl Handle {
    /// Opens a database.
    pub fn open(path: PathBuf, options: OpenOptions) -> Result<Handle, Failure> {
        refuse_in_use(&path, options.allow_in_use)?;
        let vfs = file_system(&path)?;
        let mut issues = Issues::default();
        let source = Source::open(&vfs, &path, &mut issues).map_err(Failure::of_check)?;
        let database = source.database();
        if !database.is_clean() && !options.allow_dirty {
            let header = &database.header;
            let generations = (header.gen_min_required.0, header.gen_max_required.0);
            return Err(Failure::dirty(&path, &format!("{:?}", header.state), generations));
        }
        if options.damage == Damage::Raise
            && let Some(issue) = issues.last_missing()
        {
            return Err(Failure::damaged(&path, issue));
        }
        let view = View::new(&source, options.rendering).map_err(|error| Failure::of_export(&path, error))?;
        let opened = Opened { source, view, issues: issues.kept().to_vec(), _vfs: vfs };
        Ok(Handle { path, damage: options.damage, opened: RwLock::new(Some(Arc::new(opened))) })
    }

    /// Returns the database if it is not closed.
    pub fn get(&self) -> Result<Arc<Opened>, Failure> {
        let opened = self.opened.read().unwrap_or_else(PoisonError::into_inner);
        opened.clone().ok_or_else(|| Failure::closed(&self.path))
    }

    /// Closes the file. If a portion or batch is being read, the file is closed when the read completes.
    pub fn close(&self) {
        let opened = self.opened.write().unwrap_or_else(PoisonError::into_inner).take();
        drop(opened);
    }
}
