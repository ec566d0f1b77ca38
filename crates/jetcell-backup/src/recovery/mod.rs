//! Recovers databases with their logs: chooses and verifies the logs, and replays them on the databases or on copies.

mod error;
mod replay_end;
mod report;
mod working_set;

use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use ese_engine::{
    DiscoveredDatabase, Error, EventSink, InstanceOptions, RecoveryPlan, RecoverySet, RecoverySummary,
    ReplaySummary, Replayer, TornPageProtection,
};
use ese_format::header::{DatabaseHeader, DatabaseState};
use ese_format::{Generation, LogPosition};
use jetcell_sync::Arc;
use jetcell_vfs::{OpenMode, OverlayVfs, Vfs, files_at, is_locked, parent_directory, with_path};

pub use self::error::RecoveryError;
pub use self::replay_end::ReplayEnd;
pub use self::report::{
    IgnoredFile, LostGenerations, RecoveredDatabase, RecoveryReport, ReplayedGenerations, ReplayedPages,
};
use self::working_set::WorkingSet;
use crate::file_names::lock_file;

type Result<T> = std::result::Result<T, RecoveryError>;

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
    /// Whether unfinished transactions are not rolled back. More logs can then be replayed later.
    pub keep_dirty: bool,
    /// Whether missing and damaged logs are accepted if the databases are consistent without them.
    pub allow_loss: bool,
    /// Whether the logs are only verified.
    pub dry_run: bool,
}

/// Opens the receiver of the recovery events in the directory of the copies.
pub type OpenEventsFn = dyn Fn(&Path) -> io::Result<Arc<dyn EventSink>>;

/// The files that were found, and the replay plan.
struct PreparedRecovery {
    set: RecoverySet,
    plan: RecoveryPlan,
    until: LogPosition,
    lost: Vec<LostGenerations>,
}

impl RecoveryRequest {
    /// Recovers the databases, and reports each step to `progress` when it begins.
    ///
    /// # Errors
    /// The logs or databases are not sufficient, damaged or in use. Directories that were created for the copies are
    /// removed. The specified files are not changed, except after an I/O error while they are recovered.
    pub fn run(
        &self,
        vfs: &Arc<dyn Vfs>,
        open_events: &OpenEventsFn,
        progress: &dyn Fn(&str),
    ) -> Result<RecoveryReport> {
        if self.target == RecoveryTarget::Originals && self.until.is_some() && !self.keep_dirty {
            return Err(RecoveryError::TruncatesLog);
        }
        let prepared = self.prepare(vfs)?;
        let mut report = RecoveryReport {
            dry_run: self.dry_run,
            databases: prepared.set.databases.iter().map(describe_database).collect(),
            ignored: prepared
                .set
                .ignored
                .iter()
                .map(|(path, why)| IgnoredFile { path: path.clone(), why: why.to_string() })
                .collect(),
            ..RecoveryReport::default()
        };
        if let (Some((first, _)), Some((last, _))) = (prepared.plan.logs.first(), prepared.plan.logs.last()) {
            report.generations = ReplayedGenerations { first: first.0, last: last.0 };
        }
        if prepared.until != LogPosition::MAX {
            report.position = Some(prepared.until.to_string());
        }
        if !self.dry_run {
            let replay = PlannedReplay { request: self, vfs, prepared: &prepared, progress };
            replay.run(open_events, &mut report)?;
        }
        report.lost = prepared.lost;
        Ok(report)
    }

    /// Finds the files, and verifies the logs.
    fn prepare(&self, vfs: &Arc<dyn Vfs>) -> Result<PreparedRecovery> {
        let mut named = files_at(&self.paths)?;
        named.extend(self.map.iter().map(|(_, new)| new).filter(|new| new.is_file()).cloned());
        named.sort();
        named.dedup();
        let set = RecoverySet::find(vfs, &named)?;
        let until = match self.until {
            Some(until) => until.position(vfs, &set)?,
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
                let path = self.paths.first().cloned().unwrap_or_default();
                let missing = Error::LogMissing { path, generation };
                return Err(foreign_log(&set, &plan, generation).unwrap_or(missing.into()));
            }
            lost.push(LostGenerations {
                first: generation.0,
                last: abandoned_generation(&set, newest(&plan)).unwrap_or(stored).max(generation).0,
                why: "missing, or after a gap".into(),
            });
        } else if let Some(committed) = plan.committed.or_else(|| abandoned_generation(&set, newest(&plan))) {
            let first = newest(&plan).next();
            if !self.allow_loss {
                let path = set.databases.first().map(|database| database.path.clone()).unwrap_or_default();
                return Err(Error::CommittedLogsMissing { path, committed: (first, committed) }.into());
            }
            lost.push(LostGenerations { first: first.0, last: committed.0, why: "missing".into() });
        }
        if !self.keep_dirty {
            set.check_stop(vfs, &plan, until)?;
        }
        let creates = loop {
            let error = match set.verify(vfs, &plan, until) {
                Ok(creates) => break creates,
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
            lost.push(LostGenerations { first: bad.0, last: stored.0, why: error.to_string() });
            plan.logs.retain(|(generation, _)| *generation < bad);
        };
        if set.databases.is_empty() && !creates {
            let first = plan.logs.first().map(|(_, path)| path.clone()).unwrap_or_default();
            return Err(RecoveryError::NoDatabase(first));
        }
        Ok(PreparedRecovery { set, plan, until, lost })
    }

    /// Returns the default directory of the copies.
    fn default_directory(&self) -> PathBuf {
        let first = self.paths.first().map_or(Path::new("."), PathBuf::as_path);
        let first = std::path::absolute(first).unwrap_or_else(|_| first.to_path_buf());
        let mut name = first.file_name().unwrap_or_default().to_owned();
        name.push("-recovered");
        first.with_file_name(name)
    }
}

/// The replay of a prepared recovery.
struct PlannedReplay<'a> {
    request: &'a RecoveryRequest,
    vfs: &'a Arc<dyn Vfs>,
    prepared: &'a PreparedRecovery,
    progress: &'a dyn Fn(&str),
}

impl PlannedReplay<'_> {
    fn run(&self, open_events: &OpenEventsFn, report: &mut RecoveryReport) -> Result<()> {
        let (vfs, set) = (self.vfs, &self.prepared.set);
        let mut work = match &self.request.target {
            RecoveryTarget::Originals => {
                let directory = log_directory(&self.prepared.plan)?;
                check_not_in_use(set, &directory)?;
                // Only redo can detect a page that does not match the logs. Redo is therefore first tried on an
                // overlay, which leaves the files unchanged.
                let trial = overlay(vfs, &directory)?;
                let work = WorkingSet::in_place(&*trial, self.prepared, self.request)?;
                (self.progress)("running a trial recovery without changes");
                self.replay(&trial, &work)?;
                WorkingSet::in_place(&**vfs, self.prepared, self.request)?
            }
            RecoveryTarget::Copies(directory) => {
                let directory = directory.clone().unwrap_or_else(|| self.request.default_directory());
                WorkingSet::copied(vfs, self.prepared, self.request, &directory, open_events)?
            }
        };
        let (replayed, recovery) = self.replay(vfs, &work)?;
        work.keep(set.base_name)?;
        report.directory = Some(work.directory.clone());
        report.position = Some(replayed.position.to_string());
        report.records.clone_from(&replayed.records);
        report.pages = ReplayedPages {
            read: replayed.pages_read,
            changes: replayed.changed,
            written: replayed.pages_written,
        };
        report.undone = recovery.rolled_back;
        report.incomplete_macros = replayed.incomplete_macros;
        let mut after = files_at(std::slice::from_ref(&work.directory))?;
        if !work.is_copy() {
            after.splice(0..0, set.databases.iter().map(|database| database.path.clone()));
        }
        report.databases = states(vfs, set, after);
        Ok(())
    }

    fn replay(&self, vfs: &Arc<dyn Vfs>, work: &WorkingSet) -> Result<(ReplaySummary, RecoverySummary)> {
        let PreparedRecovery { set, until, .. } = self.prepared;
        let mut options = InstanceOptions::with_vfs(vfs.clone(), work.directory.clone());
        options.log.base_name = set.base_name;
        options.recovery.database_paths = work.paths.clone();
        options.log.names = set.log_names;
        options.recovery.accept_lost_logs = self.request.allow_loss || *until != LogPosition::MAX;
        options.events.sink.clone_from(&work.events);
        if work.is_copy() {
            // Torn pages need no protection, because an interrupted recovery starts again with a new copy.
            options.torn_page_protection = TornPageProtection::Off;
        }
        let Some((_, first)) = work.logs.first() else { return Err(RecoveryError::NoLogs) };
        let mut replayer = Replayer::open(options, first)?;
        let logs = work.logs.len();
        for (number, (generation, path)) in (1..).zip(&work.logs) {
            (self.progress)(&format!("replaying generation {:X} ({number} of {logs})", generation.0));
            if number == logs {
                replayer.replay_until(path, *until)?;
            } else {
                replayer.replay(path)?;
            }
        }
        let keep_dirty = self.request.keep_dirty;
        Ok(if keep_dirty { (replayer.stop()?, RecoverySummary::default()) } else { replayer.finish()? })
    }
}

/// Returns the directory that contains the planned logs.
///
/// # Errors
/// There are no logs, or they are in several directories.
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
    // A file that cannot be opened is reported when it is read.
    match paths.find(|path| is_locked(path).unwrap_or(false)) {
        Some(path) => Err(Error::InUse { path: path.clone() }),
        None => Ok(()),
    }
}

/// Creates a file system that stores all changes in an unnamed file in `directory`.
fn overlay(vfs: &Arc<dyn Vfs>, directory: &Path) -> io::Result<Arc<dyn Vfs>> {
    let open = || {
        let scratch = tempfile::tempfile_in(directory)?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", scratch.as_raw_fd()));
        vfs.open(&path, OpenMode::Write)
    };
    let opened = open().map_err(|error| with_path(directory, error))?;
    Ok(Arc::new(OverlayVfs::new(vfs.clone(), opened)))
}

/// Returns the newest generation that an interrupted earlier recovery discarded.
fn abandoned_generation(set: &RecoverySet, newest: Generation) -> Option<Generation> {
    let is_dirty = |database: &DiscoveredDatabase| database.header.state == DatabaseState::DirtyShutdown;
    let (first, last) = set.set_aside.filter(|_| set.databases.iter().any(is_dirty))?;
    (first > newest).then_some(last)
}

/// Returns an error if the file that has the name of a missing generation belongs to another log stream.
fn foreign_log(set: &RecoverySet, plan: &RecoveryPlan, generation: Generation) -> Option<RecoveryError> {
    let newest = plan.logs.last().map_or(Generation(0), |(newest, _)| *newest);
    let names = [set.name_of(generation, generation), set.name_of(generation, newest)];
    let is_named = |path: &&PathBuf| {
        path.file_name().is_some_and(|name| names.iter().any(|wanted| **wanted == *name.to_string_lossy()))
    };
    let path = set.ignored.iter().map(|(path, _)| path).find(is_named)?.clone();
    let position = LogPosition { generation, segment: 0, offset: 0 };
    Some(RecoveryError::ForeignLog { path, position })
}

fn state(header: &DatabaseHeader) -> String {
    match header.state {
        DatabaseState::CleanShutdown => "clean".to_string(),
        DatabaseState::DirtyShutdown => format!(
            "dirty, needs generations {:X} to {:X}",
            header.gen_min_required.0, header.gen_max_required.0
        ),
        other => format!("{other:?}"),
    }
}

fn describe_database(database: &DiscoveredDatabase) -> RecoveredDatabase {
    RecoveredDatabase { path: database.path.clone(), before: state(&database.header), after: String::new() }
}

/// Returns the stream's databases after the recovery, with their previous states.
fn states(vfs: &Arc<dyn Vfs>, before: &RecoverySet, files: Vec<PathBuf>) -> Vec<RecoveredDatabase> {
    let Ok(after) = RecoverySet::find(vfs, &files) else { return Vec::new() };
    let mut databases: Vec<RecoveredDatabase> = Vec::new();
    for database in after.databases {
        if databases.iter().any(|known| known.path == database.path) {
            continue;
        }
        let name = database.path.file_name();
        let earlier = before.databases.iter().find(|one| one.path.file_name() == name);
        databases.push(RecoveredDatabase {
            before: earlier.map_or("absent".to_string(), |one| state(&one.header)),
            after: state(&database.header),
            path: database.path,
        });
    }
    databases
}
