//! Databases that an instance will attach, and their logs.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::PathBuf;

use ese_format::Signature;
use ese_format::header::{DatabaseHeader, DatabaseState};
use ese_format::log::log_directories;
use ese_format::recognise::EseFileKind;
use jetcell_sync::Arc;
use jetcell_vfs::{FileStem, Vfs, is_unfinished};

use super::recovery_set::{DiscoveredDatabase, RecoverySet, recognise};
use crate::log::LogNameFormat;
use crate::storage::check_format;
use crate::{Error, Result};

impl RecoverySet {
    /// Works like [`RecoverySet::find_nearby`], but for databases that an instance will attach. Clean databases do not
    /// need logs. If there are no logs, the set contains only the databases.
    ///
    /// Returns an error if none of the databases can be written. In that case, nothing has been changed.
    pub fn find_attachable(vfs: &Arc<dyn Vfs>, files: &[PathBuf]) -> Result<RecoverySet> {
        let (found, databases) = logs_nearby(vfs, files)?;
        let clean = databases.iter().all(|database| database.header.state == DatabaseState::CleanShutdown);
        let set = match databases.first().filter(|_| clean && found.len() == files.len()) {
            Some(first) => without_logs(first.header.log_signature, databases),
            None => RecoverySet::find(vfs, &found)?,
        };
        let checks = set.databases.iter().map(|database| {
            let DiscoveredDatabase { path, header } = database;
            check_format(path, header, header.page_size, false)
        });
        match checks.reduce(|first, next| if first.is_ok() { first } else { next.or(first) }) {
            Some(Err(error)) => Err(error),
            _ => Ok(set),
        }
    }

    /// Works like [`RecoverySet::find`]. If none of the files is a log, this also uses the logs in the
    /// [directories](log_directories) where the logs of these databases usually are.
    pub fn find_nearby(vfs: &Arc<dyn Vfs>, files: &[PathBuf]) -> Result<RecoverySet> {
        RecoverySet::find(vfs, &logs_nearby(vfs, files)?.0)
    }
}

/// Returns the files together with the logs near their databases, and the databases among the files. If one of the
/// files is a log, returns only the files.
fn logs_nearby(vfs: &Arc<dyn Vfs>, files: &[PathBuf]) -> Result<(Vec<PathBuf>, Vec<DiscoveredDatabase>)> {
    let (mut all, mut databases) = (files.to_vec(), Vec::new());
    for path in files.iter().filter(|path| !is_unfinished(path)) {
        match recognise(&**vfs, path)? {
            Some((EseFileKind::Log, _)) => return Ok((all, Vec::new())),
            Some((EseFileKind::Database, start)) => {
                if let Ok((header, _)) = DatabaseHeader::read_from_start(&start) {
                    databases.push(DiscoveredDatabase { path: path.clone(), header });
                }
            }
            _ => {}
        }
    }
    let directories: BTreeSet<PathBuf> =
        databases.iter().flat_map(|database| log_directories(&database.path)).collect();
    for directory in directories {
        let listed = match vfs.list(&directory) {
            // Most of the usual directories do not exist.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => continue,
            listed => listed.map_err(|error| Error::io(&directory, &error))?,
        };
        for path in listed {
            if matches!(recognise(&**vfs, &path)?, Some((EseFileKind::Log, _))) {
                all.push(path);
            }
        }
    }
    Ok((all, databases))
}

fn without_logs(signature: Signature, databases: Vec<DiscoveredDatabase>) -> RecoverySet {
    RecoverySet {
        base_name: FileStem::default(),
        signature,
        logs: BTreeMap::new(),
        databases,
        set_aside: None,
        ignored: Vec::new(),
        log_names: LogNameFormat::default(),
        has_current: false,
        signatures: Vec::new(),
    }
}
