//! Recovery requests, and the selection and verification of the logs.

use std::io;
use std::path::{Path, PathBuf};

use ese_engine::{DiscoveredDatabase, Error, EventSink, RecoveryPlan, RecoverySet, VerifiedLogs};
use ese_format::header::DatabaseState;
use ese_format::recognise::has_database_or_log_extension;
use ese_format::{Generation, LogPosition};
use jetcell_sync::Arc;
use jetcell_vfs::{Vfs, files_at, is_locked, parent_directory};

use super::error::{RecoveryError, Result};
use super::replay_end::ReplayEnd;
use super::report::{LossReason, LostGenerations};
use crate::file_names::lock_file;

/// Files that a recovery changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecoveryTarget {
    /// The specified files. A trial run that changes nothing precedes the recovery.
    Originals,
    /// Copies in this directory, which must be empty or not exist. By default, the directory has the first specified
    /// path with `-recovered` appended to its name.
    Copies(Option<PathBuf>),
}

/// Request to recover databases.
#[derive(Clone, Debug)]
pub struct RecoveryRequest {
    /// Logs and databases, or directories that contain them.
    pub paths: Vec<PathBuf>,
    /// Files to change.
    pub target: RecoveryTarget,
    /// Paths in the log, and the databases or directories that replace them.
    pub map: Vec<(String, PathBuf)>,
    /// Point at which the replay ends. `None` means that all logs are replayed to the end.
    pub until: Option<ReplayEnd>,
    /// Whether to keep unfinished transactions instead of rolling them back. More logs can then be replayed later.
    pub keep_dirty: bool,
    /// Whether to accept missing and damaged logs if the databases are consistent without them. Databases that the logs
    /// change may then be missing, too.
    pub allow_loss: bool,
    /// Whether to verify the logs without replaying them.
    pub dry_run: bool,
}

/// Callback that opens the event sink in the directory of the copies.
pub type OpenEventsFn = dyn Fn(&Path) -> io::Result<Arc<dyn EventSink>>;

/// The files that were found, and the replay plan.
pub(super) struct PreparedRecovery {
    pub set: RecoverySet,
    pub plan: RecoveryPlan,
    pub until: LogPosition,
    pub lost: Vec<LostGenerations>,
    pub verified: VerifiedLogs,
}

impl RecoveryRequest {
    /// Finds the files, and verifies the logs.
    pub(super) fn prepare(&self, vfs: &Arc<dyn Vfs>) -> Result<PreparedRecovery> {
        let mut named = files_at(&self.paths, has_database_or_log_extension)?;
        RecoverySet::require_ese_files(vfs, &self.paths, &named)?;
        named.extend(self.map.iter().map(|(_, new)| new).filter(|new| new.is_file()).cloned());
        named.sort();
        named.dedup();
        let set = RecoverySet::find_nearby(vfs, &named)?;
        let logs = set.logs.values().next().map(|path| parent_directory(path).to_path_buf());
        match self.plan(vfs, &set) {
            Ok((plan, until, lost, verified)) => Ok(PreparedRecovery { set, plan, until, lost, verified }),
            // A running instance changes its files while they are read, so it may be the cause of any error.
            Err(error) => {
                let in_use = logs.and_then(|logs| check_not_in_use(&set, &logs).err());
                Err(in_use.map_or(error, RecoveryError::from))
            }
        }
    }

    /// Plans the replay, and verifies the logs.
    fn plan(
        &self,
        vfs: &Arc<dyn Vfs>,
        set: &RecoverySet,
    ) -> Result<(RecoveryPlan, LogPosition, Vec<LostGenerations>, VerifiedLogs)> {
        let until = match self.until {
            Some(until) => until.position(vfs, set)?,
            None => LogPosition::MAX,
        };
        let mut plan = set.plan(until);
        let mut lost = Vec::new();
        if let Some((path, first, last)) = plan.required.take() {
            return Err(Error::LogsMissing { path, required: (first, last) }.into());
        }
        let newest = |plan: &RecoveryPlan| plan.logs.last().map_or(Generation(0), |(newest, _)| *newest);
        let stored = set.logs.last_key_value().map_or(Generation(0), |(last, _)| *last);
        if let Some(generation) = plan.missing.take() {
            if !self.allow_loss || plan.logs.is_empty() {
                return Err(set.missing_log(&plan, generation).into());
            }
            lost.push(LostGenerations {
                first: generation.0,
                last: abandoned_generation(set, newest(&plan)).unwrap_or(stored).max(generation).0,
                why: LossReason::AfterGap,
            });
        } else if let Some(committed) = plan.committed.or_else(|| abandoned_generation(set, newest(&plan))) {
            let first = newest(&plan).next();
            if !self.allow_loss {
                let path = set.databases.first().map(|database| database.path.clone()).unwrap_or_default();
                return Err(Error::CommittedLogsMissing { path, committed: (first, committed) }.into());
            }
            lost.push(LostGenerations { first: first.0, last: committed.0, why: LossReason::Missing });
        }
        if !self.keep_dirty {
            set.check_stop(vfs, &plan, until)?;
        }
        let verified = loop {
            let error = match set.verify(vfs, &plan, until) {
                Ok(verified) => break verified,
                Err(error) => error,
            };
            let Error::Log { position, .. } = &error else { return Err(error.into()) };
            let bad = position.generation;
            let needed = |database: &DiscoveredDatabase| {
                database.header.state == DatabaseState::DirtyShutdown
                    && database.header.gen_max_required >= bad
            };
            let first = plan.logs.first().map_or(Generation(0), |(first, _)| *first);
            if !self.allow_loss || bad <= first || set.databases.iter().any(needed) {
                return Err(error.into());
            }
            lost.clear();
            lost.push(LostGenerations { first: bad.0, last: stored.0, why: error.into() });
            plan.logs.retain(|(generation, _)| *generation < bad);
        };
        if set.databases.is_empty() && !verified.creates_database() {
            let first = plan.logs.first().map(|(_, path)| path.clone()).unwrap_or_default();
            return Err(RecoveryError::NoDatabase(first));
        }
        if let Some(logged) = set.missing_databases(&verified).next()
            && !self.allow_loss
        {
            return Err(RecoveryError::MissingDatabase(logged.to_string()));
        }
        Ok((plan, until, lost, verified))
    }

    /// Returns the default directory of the copies.
    pub(super) fn default_directory(&self) -> PathBuf {
        let first = self.paths.first().map_or(Path::new("."), PathBuf::as_path);
        let first = std::path::absolute(first).unwrap_or_else(|_| first.to_path_buf());
        let mut name = first.file_name().unwrap_or_default().to_owned();
        name.push("-recovered");
        first.with_file_name(name)
    }
}

/// Returns the directory that contains the planned logs.
///
/// # Errors
/// Returns an error if there are no logs, or if they are in several directories.
pub fn log_directory(plan: &RecoveryPlan) -> Result<PathBuf> {
    let mut directories = plan.logs.iter().map(|(_, path)| parent_directory(path));
    let Some(directory) = directories.next() else { return Err(RecoveryError::NoLogs) };
    if directories.any(|other| other != directory) {
        return Err(RecoveryError::SeveralLogDirectories);
    }
    Ok(directory.to_path_buf())
}

/// Fails if another process uses the instance whose logs are in the directory, or one of its databases.
///
/// # Errors
/// Returns [`Error::InUse`] with the path that is in use.
pub fn check_not_in_use(set: &RecoverySet, directory: &Path) -> ese_engine::Result<()> {
    let lock = directory.join(lock_file(set.base_name));
    let mut paths = set.databases.iter().map(|database| &database.path).chain([&lock]);
    // A file that cannot be opened is skipped here. The error is reported later, when the file is read.
    match paths.find(|path| is_locked(path).unwrap_or(false)) {
        Some(path) => Err(Error::InUse { path: path.clone() }),
        None => Ok(()),
    }
}

/// Returns the newest generation that an interrupted earlier recovery discarded.
fn abandoned_generation(set: &RecoverySet, newest: Generation) -> Option<Generation> {
    let is_dirty = |database: &DiscoveredDatabase| database.header.state == DatabaseState::DirtyShutdown;
    let (first, last) = set.set_aside.filter(|_| set.databases.iter().any(is_dirty))?;
    (first > newest).then_some(last)
}
