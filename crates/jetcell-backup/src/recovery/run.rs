//! The replay of the chosen logs on the databases or on copies.

use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use ese_engine::{
    DiscoveredDatabase, InstanceOptions, RecoverySet, RecoverySummary, ReplaySummary, Replayer,
    TornPageProtection,
};
use ese_format::LogPosition;
use jetcell_sync::Arc;
use jetcell_vfs::{OpenMode, OverlayVfs, Vfs, with_path};

use super::error::{RecoveryError, Result};
use super::report::{
    IgnoredFile, IgnoredFileReason, RecoveredDatabase, RecoveryPhase, RecoveryReport, RecoveryState,
    ReplayedGenerations, ReplayedPages,
};
use super::request::{
    OpenEventsFn, PreparedRecovery, RecoveryRequest, RecoveryTarget, check_not_in_use, log_directory,
};
use super::working_set::WorkingSet;

impl RecoveryRequest {
    /// Recovers the databases, and reports each step to `progress` when it begins.
    ///
    /// # Errors
    /// Returns an error if the logs or databases are insufficient, damaged or in use. Directories that were created for
    /// the copies are then removed. The specified files stay unchanged, unless an I/O error occurs while they are
    /// recovered.
    pub fn run(
        &self,
        vfs: &Arc<dyn Vfs>,
        open_events: &OpenEventsFn,
        progress: &dyn Fn(RecoveryPhase),
    ) -> Result<RecoveryReport> {
        if self.target == RecoveryTarget::Originals && self.until.is_some() && !self.keep_dirty {
            return Err(RecoveryError::TruncatesLog);
        }
        let prepared = self.prepare(vfs)?;
        let missing: Vec<IgnoredFile> = prepared
            .set
            .missing_databases(&prepared.verified)
            .map(|logged| IgnoredFile { path: logged.into(), why: IgnoredFileReason::MissingDatabase })
            .collect();
        let mut report = RecoveryReport {
            dry_run: self.dry_run,
            is_partial: !missing.is_empty() || prepared.set.left_out().next().is_some(),
            databases: prepared.set.databases.iter().map(describe_database).collect(),
            ignored: prepared
                .set
                .ignored
                .iter()
                .map(|(path, why)| IgnoredFile { path: path.clone(), why: why.clone().into() })
                .chain(missing)
                .collect(),
            ..RecoveryReport::default()
        };
        if let (Some((first, _)), Some((last, _))) = (prepared.plan.logs.first(), prepared.plan.logs.last()) {
            report.generations = ReplayedGenerations { first: first.0, last: last.0 };
        }
        if prepared.until != LogPosition::MAX {
            report.position = Some(prepared.until.to_string());
        }
        let replay = PlannedReplay { request: self, vfs, prepared: &prepared, progress };
        if self.dry_run {
            replay.check_target()?;
        } else {
            replay.run(open_events, &mut report)?;
        }
        report.lost = prepared.lost;
        Ok(report)
    }
}

/// The replay of a prepared recovery.
struct PlannedReplay<'a> {
    request: &'a RecoveryRequest,
    vfs: &'a Arc<dyn Vfs>,
    prepared: &'a PreparedRecovery,
    progress: &'a dyn Fn(RecoveryPhase),
}

impl PlannedReplay<'_> {
    /// Returns the error with which [`PlannedReplay::run`] would fail before it replays a record.
    fn check_target(&self) -> Result<()> {
        match &self.request.target {
            RecoveryTarget::Originals => {
                let directory = log_directory(&self.prepared.plan)?;
                check_not_in_use(&self.prepared.set, &directory)?;
                let trial = overlay(self.vfs, &directory)?;
                WorkingSet::in_place(&*trial, self.prepared, self.request).map(drop)
            }
            RecoveryTarget::Copies(directory) => {
                let directory = directory.clone().unwrap_or_else(|| self.request.default_directory());
                WorkingSet::check_copied(self.prepared, &directory)
            }
        }
    }

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
                (self.progress)(RecoveryPhase::Trial);
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
        // The files were changed, so a dangling link must not make the recovery fail.
        let mut after = vfs.list(&work.directory).map_err(|error| with_path(&work.directory, error))?;
        if !work.is_copy() {
            after.splice(0..0, set.databases.iter().map(|database| database.path.clone()));
        }
        report.databases = states(vfs, set, after)?;
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
            (self.progress)(RecoveryPhase::Replay(generation.0, number, logs));
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

fn describe_database(DiscoveredDatabase { path, header, .. }: &DiscoveredDatabase) -> RecoveredDatabase {
    let before = RecoveryState::from_header(header);
    RecoveredDatabase { path: path.clone(), before, after: RecoveryState::NotReplayed }
}

/// Returns the stream's databases after the recovery, with their previous states.
fn states(
    vfs: &Arc<dyn Vfs>,
    before: &RecoverySet,
    files: Vec<PathBuf>,
) -> ese_engine::Result<Vec<RecoveredDatabase>> {
    let after = match RecoverySet::find(vfs, &files) {
        // The files do not contain the databases of one stream.
        Err(ese_engine::Error::Usage(_)) => return Ok(Vec::new()),
        after => after?,
    };
    let mut databases: Vec<RecoveredDatabase> = Vec::new();
    for database in after.databases {
        if databases.iter().any(|known| known.path == database.path) {
            continue;
        }
        let name = database.path.file_name();
        let earlier = before.databases.iter().find(|one| one.path.file_name() == name);
        databases.push(RecoveredDatabase {
            before: earlier.map_or(RecoveryState::Absent, |one| RecoveryState::from_header(&one.header)),
            after: RecoveryState::from_header(&database.header),
            path: database.path,
        });
    }
    Ok(databases)
}
