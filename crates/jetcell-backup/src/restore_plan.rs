//! Selects the logs that a restore replays, and the position at which the replay stops.

use std::path::{Path, PathBuf};

use ese_engine::{RecoveryPlan, RecoverySet};
use ese_format::{Generation, LogPosition};
use jetcell_sync::Arc;
use jetcell_vfs::Vfs;

use crate::chain::BackupChain;
use crate::error::{BackupError, Result};
use crate::planned_log::PlannedLog;
use crate::restore_options::RestoreOptions;
use crate::restore_window::RestoreWindow;
use crate::set_error::BackupSetError;

/// A restore plan: the logs to replay, in order.
pub struct RestorePlan {
    pub chain: BackupChain,
    pub logs: Vec<PlannedLog>,
    /// Position before which the replay stops.
    pub until: LogPosition,
    /// The recovery set that determines the file names of the logs.
    pub names: RecoverySet,
    /// The positions that the restore can reach.
    pub window: RestoreWindow,
    /// Whether the logs end before the requested end of the replay.
    pub ends_early: bool,
}

/// Returns the positions that a restore of these backups and surviving logs can reach.
///
/// # Errors
///
/// Returns an error in the cases listed for [`restore`](crate::restore), except for those about its directory.
pub fn restore_window(vfs: &Arc<dyn Vfs>, backups: &[PathBuf], logs: Option<&Path>) -> Result<RestoreWindow> {
    let options = RestoreOptions { logs: logs.map(Path::to_path_buf), ..RestoreOptions::default() };
    Ok(RestorePlan::new(vfs, BackupChain::load(&**vfs, backups)?, &options)?.window)
}

impl RestorePlan {
    /// Collects the logs from the backups and the surviving logs, and verifies all of them.
    pub fn new(vfs: &Arc<dyn Vfs>, chain: BackupChain, options: &RestoreOptions) -> Result<RestorePlan> {
        let mut logs: Vec<PlannedLog> = chain
            .logs()?
            .into_iter()
            .map(|(generation, log)| PlannedLog {
                generation: Generation(generation),
                path: log.directory.join(&log.stored.file),
                stored: Some(log.stored),
            })
            .collect();
        let behind_gap = match &options.logs {
            Some(directory) => add_surviving_logs(vfs, &chain, directory, &mut logs)?,
            None => None,
        };
        let paths: Vec<PathBuf> = logs.iter().map(|log| log.path.clone()).collect();
        let names = RecoverySet::find(vfs, &paths)?;
        if Some(names.signature) != chain.base.manifest.signature() {
            return Err(BackupSetError::OtherStreamInBackup(chain.base.directory).into());
        }
        let until = match options.until {
            Some(until) => until.position(vfs, &names)?,
            None => LogPosition::MAX,
        };
        if let Some(missing) = behind_gap.filter(|missing| until > LogPosition::new(missing.0, 0, 0)) {
            return Err(BackupSetError::LogMissing(missing.0).into());
        }
        let window = RestoreWindow::find(vfs, &chain, &logs, &names)?;
        // The earliest position is the greatest one if the backup lacks a log that it needs.
        if until < window.earliest || window.earliest == LogPosition::MAX {
            let RestoreWindow { earliest, earliest_time: time, .. } = window;
            return Err(BackupSetError::EndTooLow { earliest, time }.into());
        }
        let newest = logs.last().map_or(Generation(0), |log| log.generation);
        let ends_early = options.until.is_some_and(|end| window.ends_before(end, until, newest));
        logs.retain(|log| LogPosition::new(log.generation.0, 1, 0) < until);
        let planned = RecoveryPlan {
            logs: logs.iter().map(|log| (log.generation, log.path.clone())).collect(),
            required: None,
            missing: None,
            committed: None,
        };
        names.verify(vfs, &planned, until)?;
        Ok(RestorePlan { chain, logs, until, names, window, ends_early })
    }

    /// Returns the name of a log in the restored directory.
    pub fn log_name(&self, generation: Generation) -> String {
        let newest = self.logs.last().map_or(Generation(0), |log| log.generation);
        self.names.name_of(generation, newest)
    }
}

/// Adds the surviving logs that follow the logs from the backups. If there is a gap, returns the first missing
/// generation.
fn add_surviving_logs(
    vfs: &Arc<dyn Vfs>,
    chain: &BackupChain,
    directory: &Path,
    logs: &mut Vec<PlannedLog>,
) -> Result<Option<Generation>> {
    let files = vfs.list(directory).map_err(|error| BackupError::io(directory, &error))?;
    let is_log = |path: &PathBuf| {
        path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("log") || extension == "jtx")
    };
    let files: Vec<PathBuf> = files.into_iter().filter(is_log).collect();
    if files.is_empty() {
        return Err(BackupSetError::NoSurvivingLogs(directory.to_path_buf()).into());
    }
    let found = RecoverySet::find(vfs, &files)?;
    found.require_complete()?;
    if Some(found.signature) != chain.base.manifest.signature() {
        return Err(BackupSetError::OtherSurvivingLogs(directory.to_path_buf()).into());
    }
    let last = logs.last().map_or(Generation(0), |log| log.generation);
    // The last log may have been open when it was backed up, so a surviving log may contain more of its records.
    let open = chain.backups().last().is_some_and(|(_, manifest)| manifest.generations.last_is_open);
    if let Some(path) = found.logs.get(&last).filter(|_| open)
        && let Some(log) = logs.last_mut()
    {
        log.path.clone_from(path);
        log.stored = None;
    }
    let mut expected = last.next();
    for (generation, path) in found.logs.range(expected..) {
        if *generation != expected {
            return Ok(Some(expected));
        }
        logs.push(PlannedLog { generation: *generation, path: path.clone(), stored: None });
        expected = generation.next();
    }
    Ok(None)
}
