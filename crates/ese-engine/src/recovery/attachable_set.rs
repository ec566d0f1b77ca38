//! Databases that an instance will attach, and their logs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use ese_format::header::{DatabaseHeader, DatabaseState};
use ese_format::recognise::EseFileKind;
use jetcell_sync::Arc;
use jetcell_vfs::{FileStem, Vfs, is_unfinished, parent_directory};

use super::recovery_set::{DiscoveredDatabase, RecoverySet, recognise};
use crate::log::LogNameFormat;
use crate::storage::check_format;
use crate::{Error, Result};

impl RecoverySet {
    /// Like [`RecoverySet::find`], for databases that an instance will attach. If none of the files is a log, searches
    /// the directories of the databases for their logs. Clean databases do not need logs: if there are none, the set is
    /// without logs.
    ///
    /// Returns an error if no database can be written, before anything is changed.
    pub fn find_attachable(vfs: &Arc<dyn Vfs>, files: &[PathBuf]) -> Result<RecoverySet> {
        let set = RecoverySet::find_with_logs_nearby(vfs, files)?;
        let checks = set.databases.iter().map(|database| {
            let DiscoveredDatabase { path, header } = database;
            check_format(path, header, header.page_size, false)
        });
        match checks.reduce(|first, next| if first.is_ok() { first } else { next.or(first) }) {
            Some(Err(error)) => Err(error),
            _ => Ok(set),
        }
    }

    fn find_with_logs_nearby(vfs: &Arc<dyn Vfs>, files: &[PathBuf]) -> Result<RecoverySet> {
        let mut databases = Vec::new();
        for path in files.iter().filter(|path| !is_unfinished(path)) {
            match recognise(&**vfs, path)? {
                Some((EseFileKind::Log, _)) => return RecoverySet::find(vfs, files),
                Some((EseFileKind::Database, start)) => {
                    if let Ok((header, _)) = DatabaseHeader::read_from_start(&start) {
                        databases.push(DiscoveredDatabase { path: path.clone(), header });
                    }
                }
                _ => {}
            }
        }
        let directories: BTreeSet<&Path> =
            databases.iter().map(|database| parent_directory(&database.path)).collect();
        let mut nearby = files.to_vec();
        for directory in directories {
            for path in vfs.list(directory).map_err(|e| Error::io(directory, &e))? {
                if matches!(recognise(&**vfs, &path)?, Some((EseFileKind::Log, _))) {
                    nearby.push(path);
                }
            }
        }
        let clean = databases.iter().all(|database| database.header.state == DatabaseState::CleanShutdown);
        let Some(first) = databases.first().filter(|_| clean && nearby.len() == files.len()) else {
            return RecoverySet::find(vfs, &nearby);
        };
        Ok(RecoverySet {
            base_name: FileStem::default(),
            signature: first.header.log_signature,
            logs: BTreeMap::new(),
            databases,
            set_aside: None,
            ignored: Vec::new(),
            log_names: LogNameFormat::default(),
            has_current: false,
        })
    }
}
