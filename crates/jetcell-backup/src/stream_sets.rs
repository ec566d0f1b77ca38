//! Sets of backups: one backup for each log stream of the source, in subdirectories of one directory.
//!
//! The file `streams.json` is written before the first backup. It names the subdirectories, so a set with a missing
//! backup is not mistaken for a complete set.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ese_engine::RecoverySet;
use jetcell_input::bounded_list;
use jetcell_sync::Arc;
use jetcell_vfs::{FileName, NameError, Vfs, is_unfinished, parent_directory};
use serde::{Deserialize, Serialize};

use crate::error::{BackupError, Result};
use crate::file_names::STREAMS_FILE;
use crate::manifest::BackupManifest;
use crate::set_error::{BackupSetError, DirectoryContent};
use crate::text_file;

/// Maximum number of log streams in a set.
const MAX_STREAMS: usize = 1024;
/// Maximum length of the file `streams.json` in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// The backup of one log stream: its files, and the directory that receives the backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamBackup {
    /// Logs and databases of the stream.
    pub files: Vec<PathBuf>,
    /// Directory of the backup.
    pub directory: PathBuf,
}

/// Content of the file `streams.json`.
#[derive(Serialize, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
struct StreamList {
    /// Names of the subdirectories, at most 1024.
    #[serde(deserialize_with = "bounded_list::<_, _, MAX_STREAMS>")]
    backups: Vec<FileName>,
}

/// Plans one backup for each log stream of the files. A single stream is backed up into the directory `to` itself.
/// Several streams make `to` a set of backups, whose list of streams is durable when this function returns.
///
/// # Errors
///
/// Returns an error if a file cannot be read, or if there are several streams and the directory contains other files
/// or the set of other streams (-504).
pub fn plan_stream_backups(vfs: &Arc<dyn Vfs>, files: &[PathBuf], to: &Path) -> Result<Vec<StreamBackup>> {
    let streams = RecoverySet::split_streams(vfs, files)?;
    if streams.len() < 2 {
        let directory = to.to_path_buf();
        return Ok(streams
            .into_iter()
            .map(|files| StreamBackup { files, directory: directory.clone() })
            .collect());
    }
    let list = StreamList { backups: stream_names(vfs, &streams)? };
    begin_set(vfs, to, &list)?;
    let backups = streams.into_iter().zip(list.backups);
    Ok(backups.map(|(files, name)| StreamBackup { files, directory: to.join(name) }).collect())
}

/// Returns the directory, within a set, of the backup of the log stream of `files`. Returns `None` if the set has no
/// such backup. If `directory` is not a set, returns `directory`.
///
/// # Errors
/// Returns an error if the list of the set or the files cannot be read.
pub fn find_stream_backup(
    vfs: &Arc<dyn Vfs>,
    directory: &Path,
    files: &[PathBuf],
) -> Result<Option<PathBuf>> {
    let Some(members) = read_stream_set(&**vfs, directory)? else { return Ok(Some(directory.to_path_buf())) };
    let stream = RecoverySet::find(vfs, files)?.signature.to_hex();
    let mut unreadable = None;
    for member in members {
        match BackupManifest::read(&**vfs, &member) {
            Ok(found) if found.log_signature == stream => return Ok(Some(member)),
            Ok(_) => {}
            Err(error) => unreadable = Some(error),
        }
    }
    unreadable.map_or(Ok(None), Err)
}

/// Returns the directories of the backups in a set, or `None` if the directory is not a set.
///
/// # Errors
/// Returns an error if the list of the set cannot be read.
pub(crate) fn read_stream_set(vfs: &dyn Vfs, directory: &Path) -> Result<Option<Vec<PathBuf>>> {
    let list = read_list(vfs, directory)?;
    Ok(list.map(|list| list.backups.iter().map(|name| directory.join(name)).collect()))
}

fn read_list(vfs: &dyn Vfs, directory: &Path) -> Result<Option<StreamList>> {
    let path = directory.join(STREAMS_FILE);
    let Some(text) = text_file::read_at_most(vfs, &path, MAX_BYTES)? else { return Ok(None) };
    let list: StreamList = serde_json::from_str(&text).map_err(|error| {
        BackupError::changed(&path, crate::file_damage::FileDamage::Manifest(Arc::new(error)))
    })?;
    Ok(Some(list))
}

/// Marks a directory as a set. If it already is a set of the same streams, that set is continued.
fn begin_set(vfs: &Arc<dyn Vfs>, to: &Path, list: &StreamList) -> Result<()> {
    let exists = vfs.exists(to).map_err(|error| BackupError::io(to, &error))?;
    if exists && read_list(&**vfs, to)?.as_ref() == Some(list) {
        return Ok(());
    }
    vfs.create_directory(to).map_err(|error| BackupError::io(to, &error))?;
    let files = vfs.list(to).map_err(|error| BackupError::io(to, &error))?;
    if files.iter().any(|path| !is_unfinished(path)) {
        let content = DirectoryContent::Files;
        return Err(BackupSetError::NotEmpty { directory: to.to_path_buf(), content }.into());
    }
    text_file::write_json(&**vfs, &to.join(STREAMS_FILE), list)
}

/// Removes the list of a set in which no backup was begun, and its directory if it is then empty.
pub fn discard_empty_set(vfs: &Arc<dyn Vfs>, to: &Path) {
    // A backup that cannot be examined is assumed to exist.
    let is_empty = |members: Vec<PathBuf>| !members.iter().any(|member| member.try_exists().unwrap_or(true));
    if read_stream_set(&**vfs, to).is_ok_and(|members| members.is_some_and(is_empty)) {
        let _ = text_file::remove(&**vfs, &to.join(STREAMS_FILE));
        let _ = std::fs::remove_dir(to);
    }
}

/// Returns a name for each stream: the name of its log directory, or else the base name of its logs, or else its
/// signature. All streams of a set are named by the same rule.
fn stream_names(vfs: &Arc<dyn Vfs>, streams: &[Vec<PathBuf>]) -> Result<Vec<FileName>> {
    let sets: Vec<RecoverySet> =
        streams.iter().map(|files| Ok(RecoverySet::find(vfs, files)?)).collect::<Result<_>>()?;
    let by_directory = sets.iter().map(|set| {
        let directory = parent_directory(set.logs.values().next()?).file_name()?.to_str()?;
        FileName::new(directory).ok()
    });
    let by_base = sets.iter().map(|set| FileName::new(set.base_name.as_str()).ok());
    let candidates: [Option<Vec<FileName>>; 2] = [by_directory.collect(), by_base.collect()];
    let are_distinct = |names: &Vec<FileName>| names.iter().collect::<BTreeSet<_>>().len() == names.len();
    match candidates.into_iter().flatten().find(are_distinct) {
        Some(names) => Ok(names),
        None => Ok(sets
            .iter()
            .map(|set| FileName::new(set.signature.to_hex()))
            .collect::<std::result::Result<_, NameError>>()?),
    }
}
