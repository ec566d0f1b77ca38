//! Selects the logs that a restore replays, and the position at which the replay stops.

use std::path::{Path, PathBuf};

use ese_engine::{RecoveryPlan, RecoverySet, VerifiedLogReader};
use ese_format::{Generation, LogPosition};
use jetcell_sync::Arc;
use jetcell_vfs::{Vfs, parent_directory};

use crate::chain::{BackupChain, ChainLog};
use crate::damaged_log::DamagedLog;
use crate::error::{BackupError, Result};
use crate::manifest::StoredFile;
use crate::planned_log::PlannedLog;
use crate::restore_options::RestoreOptions;
use crate::restore_window::{RestoreReach, RestoreWindow};
use crate::set_error::BackupSetError;
use crate::surviving_logs::{LogGap, SurvivingLogs};
use crate::transfer_control::{TransferControl, TransferMeter};
use crate::verify::verify_file;

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
    /// Surviving logs with a damaged header.
    pub damaged_logs: Vec<DamagedLog>,
}

/// The logs of the backups and the surviving logs that follow them.
struct CollectedLogs {
    logs: Vec<PlannedLog>,
    gap: Option<LogGap>,
    damaged: Vec<DamagedLog>,
}

impl CollectedLogs {
    fn find(vfs: &Arc<dyn Vfs>, chain: &BackupChain, surviving: Option<&Path>) -> Result<CollectedLogs> {
        let planned = |(generation, log): (u32, ChainLog)| PlannedLog {
            generation: Generation(generation),
            path: log.directory.join(&log.stored.file),
            stored: Some(log.stored),
        };
        let mut logs: Vec<PlannedLog> = chain.logs()?.into_iter().map(planned).collect();
        let Some(directory) = surviving else {
            return Ok(CollectedLogs { logs, gap: None, damaged: Vec::new() });
        };
        let mut found = SurvivingLogs::find(vfs, chain, directory, &logs)?;
        let gap = found.append_to(vfs, chain, &mut logs)?;
        Ok(CollectedLogs { logs, gap, damaged: found.damaged })
    }
}

/// Returns the positions that a restore of these backups and surviving logs can reach. Verifies all logs.
///
/// # Errors
///
/// Returns an error in the cases listed for [`restore`](crate::restore), except for those about its directory. Missing
/// and damaged logs are not errors; the result lists them.
pub fn restore_window(vfs: &Arc<dyn Vfs>, backups: &[PathBuf], logs: Option<&Path>) -> Result<RestoreReach> {
    let chain = BackupChain::load(&**vfs, backups)?;
    let CollectedLogs { mut logs, gap, damaged } = CollectedLogs::find(vfs, &chain, logs)?;
    let mut problems = Vec::new();
    let gauge = TransferMeter::new(TransferControl::default(), vfs.clock());
    let mut sound = logs.len();
    for (index, log) in logs.iter().enumerate() {
        let Some(stored) = &log.stored else { continue };
        let file = StoredFile { name: &stored.file, bytes: stored.bytes, ranges: &stored.ranges };
        if let Err(error) = verify_file(&**vfs, parent_directory(&log.path), file, &gauge) {
            problems.push(error);
            sound = sound.min(index);
        }
    }
    let files = |logs: &[PlannedLog]| logs.iter().map(|log| (log.generation, log.path.clone())).collect();
    let all = logs.len();
    let is_open = sound == all;
    logs.truncate(sound);
    let mut reader = VerifiedLogReader::new(vfs.clone(), files(&logs), is_open);
    for index in 0..sound {
        if let Err(error) = reader.next_log() {
            problems.push(error.into());
            logs.truncate(index);
            break;
        }
    }
    problems.extend(gap.map(|gap| gap.error.into()));
    if logs.is_empty() {
        return Ok(RestoreReach { window: None, problems, damaged_logs: damaged });
    }
    let paths: Vec<PathBuf> = logs.iter().map(|log| log.path.clone()).collect();
    let names = RecoverySet::find(vfs, &paths)?;
    check_stream(&chain, &names)?;
    if let Err(error) = names.verify(vfs, &replayed(&logs), LogPosition::MAX) {
        problems.push(error.into());
    }
    let window = match RestoreWindow::find(vfs, &chain, &logs, &names) {
        Err(error @ BackupError::Set(BackupSetError::NeededLogMissing { .. })) => {
            problems.push(error);
            return Ok(RestoreReach { window: None, problems, damaged_logs: damaged });
        }
        window => window?,
    };
    let window = (window.earliest <= window.latest).then_some(window);
    Ok(RestoreReach { window, problems, damaged_logs: damaged })
}

/// Fails if the logs of the backups belong to a different stream than the manifest says.
fn check_stream(chain: &BackupChain, names: &RecoverySet) -> Result<()> {
    if Some(names.signature) == chain.base.manifest.signature() {
        return Ok(());
    }
    Err(BackupSetError::OtherStreamInBackup(chain.base.directory.clone()).into())
}

fn replayed(logs: &[PlannedLog]) -> RecoveryPlan {
    let logs = logs.iter().map(|log| (log.generation, log.path.clone())).collect();
    RecoveryPlan { logs, required: None, missing: None, committed: None }
}

impl RestorePlan {
    /// Collects the logs from the backups and the surviving logs, and verifies all of them.
    pub fn new(vfs: &Arc<dyn Vfs>, chain: BackupChain, options: &RestoreOptions) -> Result<RestorePlan> {
        let CollectedLogs { mut logs, gap, damaged } =
            CollectedLogs::find(vfs, &chain, options.logs.as_deref())?;
        let paths: Vec<PathBuf> = logs.iter().map(|log| log.path.clone()).collect();
        let names = RecoverySet::find(vfs, &paths)?;
        check_stream(&chain, &names)?;
        let until = match options.until {
            Some(until) => until.position(vfs, &names)?,
            None => LogPosition::MAX,
        };
        if let Some(gap) = gap.filter(|gap| until > gap.at) {
            return Err(gap.error.into());
        }
        let window = RestoreWindow::find(vfs, &chain, &logs, &names)?;
        if until < window.earliest {
            let RestoreWindow { earliest, earliest_time: time, .. } = window;
            return Err(BackupSetError::EndTooLow { earliest, time }.into());
        }
        let newest = logs.last().map_or(Generation(0), |log| log.generation);
        let ends_early = options.until.is_some_and(|end| window.ends_before(end, until, newest));
        logs.retain(|log| LogPosition::new(log.generation.0, 1, 0) < until);
        names.verify(vfs, &replayed(&logs), until)?;
        Ok(RestorePlan { chain, logs, until, names, window, ends_early, damaged_logs: damaged })
    }

    /// Returns the name of a log in the restored directory.
    pub fn log_name(&self, generation: Generation) -> String {
        let newest = self.logs.last().map_or(Generation(0), |log| log.generation);
        self.names.name_of(generation, newest)
    }
}
