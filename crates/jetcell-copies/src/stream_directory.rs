//! The logs of a stream in one directory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ese_engine::internals::log::LogNames;
use ese_engine::{LogNameFormat, RecoverySet};
use ese_format::Generation;
use jetcell_sync::Arc;
use jetcell_vfs::{FileStem, Vfs};

use crate::error::{ContactError, CopyError, Result};

/// A directory that contains the logs of one stream.
#[derive(Clone)]
pub struct StreamDirectory {
    /// File system that contains the directory.
    pub vfs: Arc<dyn Vfs>,
    /// Names of the logs.
    pub names: LogNames,
}

impl StreamDirectory {
    /// Creates the description of a directory whose logs have this base name and format of names.
    pub fn new(vfs: &Arc<dyn Vfs>, directory: &Path, base: FileStem, form: LogNameFormat) -> StreamDirectory {
        let names = LogNames::new(directory, base).with_format_of(&[], form);
        StreamDirectory { vfs: vfs.clone(), names }
    }

    /// Returns the directory that contains the logs of a recovery set.
    pub fn from_set(vfs: &Arc<dyn Vfs>, set: &RecoverySet) -> Result<StreamDirectory> {
        let Some(directory) = set.logs.values().next().and_then(|path| path.parent()) else {
            return Err(CopyError::NoLogs);
        };
        if let Some(other) = set.logs.values().find(|path| path.parent() != Some(directory)) {
            return Err(CopyError::SeveralLogDirectories(directory.to_path_buf(), other.clone()));
        }
        Ok(StreamDirectory::new(vfs, directory, set.base_name, set.log_names))
    }

    /// Returns the directory that contains the logs. The other directories contain only databases, which are needed
    /// only for seeding. A single directory may be empty.
    ///
    /// # Errors
    /// Returns an error if several directories contain logs, or if none of several directories does.
    pub fn with_logs(directories: Vec<StreamDirectory>) -> Result<StreamDirectory> {
        if let [directory] = &directories[..] {
            return Ok(directory.clone());
        }
        let base = directories.first().map_or(FileStem::E00, |directory| directory.names.base());
        let mut found: Option<StreamDirectory> = None;
        for directory in directories {
            if directory.has_logs()?
                && let Some(other) = found.replace(directory.clone())
            {
                let (one, other) = (other.path().to_path_buf(), directory.path().to_path_buf());
                return Err(CopyError::SeveralLogDirectories(one, other));
            }
        }
        found.ok_or(CopyError::NoLogDirectory(base))
    }

    /// Returns the error for an active side with these logs that does not respond.
    pub(crate) fn unreachable(&self, error: ContactError) -> CopyError {
        CopyError::Unreachable { active: self.path().display().to_string(), error }
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        self.names.directory()
    }

    /// Returns the path of a closed log.
    pub fn archived(&self, generation: Generation) -> PathBuf {
        self.names.archived(generation)
    }

    /// Returns the paths of all closed logs, by generation.
    pub fn closed(&self) -> Result<BTreeMap<Generation, PathBuf>> {
        let files = self.vfs.list(self.path()).map_err(|error| CopyError::io(self.path(), &error))?;
        Ok(files.into_iter().filter_map(|path| Some((self.names.generation_of(&path)?, path))).collect())
    }

    /// Returns true if the directory contains a closed log or a log that is being written.
    pub fn has_logs(&self) -> Result<bool> {
        let current = self.names.current();
        let is_there = self.vfs.exists(&current).map_err(|error| CopyError::io(&current, &error))?;
        Ok(is_there || !self.closed()?.is_empty())
    }

    /// Makes the log names durable.
    pub fn sync(&self) -> Result<()> {
        self.vfs.sync_directory(self.path()).map_err(|error| CopyError::io(self.path(), &error))
    }
}
