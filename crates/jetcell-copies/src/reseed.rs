//! Incremental reseed: brings a side whose history has diverged back to the history of the other side. To do so, it
//! copies the pages that the logs changed.
//!
//! ```text
//!  reseed.json ──> header: reseed in progress (state 6) ──> pages patched ──> diverged logs put aside
//!    ──> logs of the other side fetched ──> its header ──> copy.json: following ──> reseed.json removed
//! ```
//!
//! **Selected pages.** The reseed copies all pages that the diverged logs changed. It also copies the pages changed
//! by the other side's logs between the redo start positions of this database and the other one. The other side has
//! all changes before its own redo start on disk. After the reseed, each page in this database is in the same state
//! as in the other database, or in a later one. Redo from the other side's logs then makes the database consistent.
//! The selected pages include every page on this side that a power failure may have torn.
//!
//! **Interruption.** The page list is stored before anything changes, and every step can be repeated. While the
//! header states that a reseed is in progress, no engine opens the database. If the other side removes needed logs
//! before the reseed completes, the next call fails, and only a full reseed is possible.

use std::path::{Path, PathBuf};

use ese_engine::{CopyEvent, DiscoveredDatabase, Error, EventSink, LogChanges, RecoverySet, VerifiedLog};
use ese_format::header::{DatabaseHeader, DatabaseState};
use ese_format::{Generation, PageNumber};
use jetcell_backup::text_file;
use jetcell_sync::Arc;
use jetcell_vfs::{DirectoryLock, File, IoReason, OpenMode, Vfs, remove_if_exists};

use crate::copy_events::CopyEvents;
use crate::copy_state::{CopiedDatabase, CopyPhase, CopyState, database_header, first_required};
use crate::directory_source::DirectorySource;
use crate::error::{CopyError, FullReseedReason, Refusal, Result};
use crate::file_names::RESEED_FILE;
use crate::incoming::{is_not_found, part_path, store_log};
use crate::log_fetcher::LogFetcher;
use crate::log_history::{HistoryRelation, LogHistory};
use crate::log_source::LogSource;
use crate::reseed_files::{read_page, write_header};
use crate::reseed_record::{ReseedDatabase, ReseedRecord};
use crate::stream_directory::StreamDirectory;
use crate::streamed_log::remove_streamed;
use crate::unfinished_states::remove_unfinished_states;
use crate::unfit_reason::UnfitReason;

/// Name of the directory for diverged logs, which are kept because they contain commits that exist nowhere else.
pub(crate) const DIVERGED_DIRECTORY: &str = "diverged";

/// The plan for an incremental reseed, or its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReseedPlan {
    /// First generation that differs between the two sides; `None` if none does.
    pub first_diverged: Option<Generation>,
    /// Number of transactions committed in this side's diverged logs. These transactions are lost.
    pub discarded_commits: u64,
    /// Number of pages to be patched in all databases.
    pub pages: u64,
    /// Size of these pages in bytes.
    pub bytes: u64,
    /// True if this call continues an interrupted one.
    pub is_resumed: bool,
}

/// An incremental reseed in progress: its plan, source and target.
pub struct Reseed {
    vfs: Arc<dyn Vfs>,
    source: RecoverySet,
    source_logs: StreamDirectory,
    target: RecoverySet,
    directory: PathBuf,
    stored: ReseedRecord,
    events: CopyEvents,
    plan: ReseedPlan,
    _locks: Vec<Box<dyn DirectoryLock>>,
}

impl Reseed {
    /// Determines which pages to patch on the side in `directory` so that it can follow the side that has the files
    /// `source`. Changes nothing.
    ///
    /// The side in `directory` must be stopped. The other side may be running.
    ///
    /// # Errors
    ///
    /// Returns an error in these cases:
    /// - A file of the side in `directory` is in use.
    /// - The sides have different log streams.
    /// - Only a full reseed is possible, because logs are missing or damaged, or the other side lacks a database.
    pub fn plan(vfs: &Arc<dyn Vfs>, source: &[PathBuf], directory: &Path) -> Result<Reseed> {
        let list = |directory: &Path| vfs.list(directory).map_err(|error| CopyError::io(directory, &error));
        let source = RecoverySet::find(vfs, source)?;
        source.require_complete()?;
        let source_logs = StreamDirectory::from_set(vfs, &source)?;
        if vfs.same_file(source_logs.path(), directory) {
            return Err(Refusal::ReseedFromItself.at(directory));
        }
        let files = list(directory)?;
        let stored = ReseedRecord::read(&**vfs, directory)?;
        let target = RecoverySet::find(vfs, &files);
        let target = match (target, &stored) {
            (Ok(target), _) => target,
            // The interrupted call has already moved this side's logs.
            (Err(_), Some(_)) => {
                let mut empty = source.clone();
                empty.logs.clear();
                empty.databases.clear();
                empty
            }
            (Err(error), None) => return Err(error.into()),
        };
        let known = CopyState::read(&**vfs, directory)?;
        if known.as_ref().is_some_and(|state| state.phase == CopyPhase::Seeding) {
            return Err(FullReseedReason::SeedingIncomplete.into());
        }
        // The logs do not show which pages are damaged.
        if let Some(CopyPhase::Unfit { reason: UnfitReason::BadDatabase, what }) =
            known.as_ref().map(|state| &state.phase)
        {
            return Err(FullReseedReason::BadDatabase(what.clone()).into());
        }
        let locks = lock_all(vfs, directory, &target, known.as_ref())?;
        // Another process may have changed the listed files before the locks were acquired.
        let files = list(directory)?;
        let target = match RecoverySet::find(vfs, &files) {
            Ok(found) => found,
            Err(_) if stored.is_some() => target,
            Err(error) => return Err(error.into()),
        };
        let known = CopyState::read(&**vfs, directory)?;
        let mut reseed = Reseed {
            vfs: vfs.clone(),
            source,
            source_logs,
            target,
            directory: directory.to_path_buf(),
            stored: ReseedRecord::default(),
            events: CopyEvents::disabled(),
            plan: ReseedPlan {
                first_diverged: None,
                discarded_commits: 0,
                pages: 0,
                bytes: 0,
                is_resumed: stored.is_some(),
            },
            _locks: locks,
        };
        reseed.stored = match stored {
            Some(stored) => stored,
            None => reseed.pages_changed_on_target(&files, known.as_ref())?,
        };
        reseed.add_pages_changed_on_source()?;
        reseed.update_plan();
        Ok(reseed)
    }

    /// Sets the event receiver.
    pub fn set_event_sink(&mut self, sink: Arc<dyn EventSink>) {
        self.events = CopyEvents::new(&*self.vfs, &self.directory, Some(sink));
    }

    /// Returns the plan of the reseed.
    pub fn current_plan(&self) -> &ReseedPlan {
        &self.plan
    }

    /// Collects the pages changed by this side's diverged logs.
    fn pages_changed_on_target(&self, files: &[PathBuf], known: Option<&CopyState>) -> Result<ReseedRecord> {
        let (vfs, target) = (&self.vfs, &self.target);
        let theirs = LogHistory::from_set(vfs, &self.source);
        let ours = LogHistory::from_files(vfs, files)?.with_part(&self.directory)?;
        let relation = ours.compare(&theirs)?;
        let first = match relation {
            HistoryRelation::Equal | HistoryRelation::Behind(_) => None,
            HistoryRelation::OtherContent(first) => Some(first),
            HistoryRelation::ForeignPast(first) => Some(Generation(first.0.saturating_sub(1))),
            HistoryRelation::Ahead(more) if more > 0 => {
                Some(Generation(ours.newest().0.saturating_sub(more).saturating_add(1)))
            }
            HistoryRelation::Ahead(_) => Some(ours.newest()),
            HistoryRelation::OtherStream => {
                return Err(FullReseedReason::OtherStream.into());
            }
            HistoryRelation::NoCommonLog => {
                return Err(FullReseedReason::NoCommonLog.into());
            }
        };
        let changes = match first {
            Some(first) => {
                ours.changes_from(first, &theirs).map_err(|error| FullReseedReason::Log(Box::new(error)))?
            }
            None => LogChanges::default(),
        };
        if changes.unnamed_pages > 0 {
            return Err(FullReseedReason::UnnamedDatabase.into());
        }
        let databases = self.target_databases(known)?;
        let mut stored = ReseedRecord {
            first_diverged: first.map(|first| first.0),
            commits_given_up: changes.commits,
            id: known.map_or_else(|| format!("{:08x}", target.signature.random), |state| state.id.clone()),
            redo_from: u32::MAX,
            databases: Vec::new(),
        };
        for (path, header) in databases {
            let changed = changes.pages.iter().find(|(signature, _)| *signature == header.signature);
            let pages = changed.map(|(_, pages)| pages.iter().map(|page| page.get()).collect());
            stored.redo_from = stored.redo_from.min(first_required(&header).0);
            stored.databases.push(ReseedDatabase {
                path,
                signature: header.signature.to_hex(),
                page_bytes: header.page_size.bytes() as u32,
                pages: pages.unwrap_or_default(),
            });
        }
        let first = stored.first_diverged.unwrap_or(u32::MAX);
        stored.redo_from = stored.redo_from.min(first);
        Ok(stored)
    }

    /// Returns this side's databases with their headers.
    fn target_databases(&self, known: Option<&CopyState>) -> Result<Vec<(PathBuf, DatabaseHeader)>> {
        let mut found: Vec<(PathBuf, DatabaseHeader)> = self
            .target
            .databases
            .iter()
            .map(|DiscoveredDatabase { path, header }| (path.clone(), header.clone()))
            .collect();
        // A side that was active may have databases in other directories.
        for database in known.map_or(&[][..], |state| &state.databases) {
            let path = self.directory.join(&database.file);
            if found.iter().all(|(known, _)| *known != path) {
                let header = database_header(&*self.vfs, &path)?;
                found.push((path, header));
            }
        }
        if found.is_empty() {
            return Err(FullReseedReason::NoDatabase.into());
        }
        Ok(found)
    }

    fn source_database(&self, signature: &str) -> Result<&DiscoveredDatabase> {
        let has_signature = |database: &&DiscoveredDatabase| database.header.signature.to_hex() == *signature;
        let found = self.source.databases.iter().find(has_signature);
        found.ok_or(FullReseedReason::OtherDatabases.into())
    }

    /// Adds the pages changed by the other side's logs before its redo start.
    fn add_pages_changed_on_source(&mut self) -> Result<()> {
        let theirs = LogHistory::from_set(&self.vfs, &self.source);
        let mut redo_there = u32::MAX;
        for database in &self.stored.databases {
            let header = database_header(&*self.vfs, &self.source_database(&database.signature)?.path)?;
            if !matches!(header.state, DatabaseState::CleanShutdown | DatabaseState::DirtyShutdown) {
                return Err(FullReseedReason::SourceState.into());
            }
            redo_there = redo_there.min(first_required(&header).0);
        }
        let from = self.stored.redo_from;
        if from > redo_there {
            return Ok(());
        }
        // Records that end in the first generation may start in the previous one.
        let first = from.saturating_sub(1);
        let wanted = |generation: &u32| {
            let there = theirs.logs().get(&Generation(*generation));
            let here = self.target.logs.get(&Generation(*generation));
            let common = self.stored.first_diverged.is_none_or(|first| *generation < first);
            there.or(here.filter(|_| common)).map(|path| (Generation(*generation), path.clone()))
        };
        let mut logs = Vec::new();
        for generation in first..=redo_there {
            match wanted(&generation) {
                Some(log) => logs.push(log),
                None if generation == first => {}
                None => return Err(FullReseedReason::LogRemoved(Generation(generation)).into()),
            }
        }
        let last_is_open = logs.last().is_some_and(|(last, _)| *last == theirs.newest());
        let changes = LogChanges::from_logs(&self.vfs, &logs, Generation(from), last_is_open)
            .map_err(|error| FullReseedReason::Log(Box::new(error)))?;
        if changes.unnamed_pages > 0 {
            return Err(FullReseedReason::UnnamedSourceDatabase.into());
        }
        for database in &mut self.stored.databases {
            let changed =
                changes.pages.iter().find(|(signature, _)| signature.to_hex() == database.signature);
            let pages = changed.map(|(_, pages)| pages.iter().map(|page| page.get()));
            database.pages.extend(pages.into_iter().flatten());
        }
        Ok(())
    }

    fn update_plan(&mut self) {
        let ReseedRecord { first_diverged, commits_given_up, databases, .. } = &self.stored;
        self.plan.first_diverged = first_diverged.map(Generation);
        self.plan.discarded_commits = *commits_given_up;
        self.plan.pages = databases.iter().map(|database| database.pages.len() as u64).sum();
        self.plan.bytes = databases
            .iter()
            .map(|database| database.pages.len() as u64 * u64::from(database.page_bytes))
            .sum();
    }

    /// Patches the pages and makes this side a copy that follows the other side. Calls `progress` with the number of
    /// pages patched so far.
    pub fn run(&self, progress: &mut dyn FnMut(u64)) -> Result<CopyState> {
        let vfs = &*self.vfs;
        let mut state = self.state()?;
        // From now on the other side keeps all logs that it has. The first generation that this side needs is known
        // only after its pages are patched.
        let oldest = self.source.logs.keys().next().map_or(0, |oldest| oldest.0);
        self.register(&CopyState { next: oldest, ..state.clone() })?;
        text_file::write_json_line(vfs, &self.directory.join(RESEED_FILE), &self.stored)?;
        remove_streamed(vfs, &self.directory)?;
        state.store(vfs, &self.directory)?;
        let (mut done, mut headers) = (0, Vec::new());
        let clock = vfs.clock();
        for database in &self.stored.databases {
            let begun = clock.monotonic();
            headers.push(self.patch(database, &mut done, progress)?);
            let page = |page: Option<&u32>| page.and_then(|page| PageNumber::new(*page));
            self.events.report(CopyEvent::Patched {
                database: database.path.clone(),
                pages: database.pages.len() as u64,
                range: page(database.pages.first()).zip(page(database.pages.last())),
                seconds: (clock.monotonic() - begun).as_secs_f64(),
            });
        }
        let newest = self.store_partial_log(&headers)?;
        self.move_diverged_logs()?;
        let first = headers.iter().map(|header| first_required(header).0).min().unwrap_or(u32::MAX);
        state.next = first;
        state.end = LogHistory::from_set(&self.vfs, &self.source)
            .log_end(Generation(first.saturating_sub(1)))
            .ok()
            .flatten();
        state.replayed = first.saturating_sub(1);
        state.phase = CopyPhase::Following;
        self.fetch_logs(&mut state, newest)?;
        state.record_contact(oldest, vfs.clock().unix_ms());
        for (database, header) in self.stored.databases.iter().zip(&headers) {
            let file = self.open(&database.path, OpenMode::Write)?;
            write_header(&*file, header)?;
        }
        // The registration comes first: without it, the other side could remove logs before this side follows it.
        self.register(&state)?;
        state.store(vfs, &self.directory)?;
        text_file::remove(vfs, &self.directory.join(RESEED_FILE))?;
        Ok(state)
    }

    /// Reports to the other side which logs this side needs.
    fn register(&self, state: &CopyState) -> Result<()> {
        let source = DirectorySource::new(self.source_logs.clone());
        source.register(&state.registration(&self.directory, self.vfs.clock().unix_ms()))
    }

    /// Returns the state of the copy while its pages are patched.
    fn state(&self) -> Result<CopyState> {
        let source = self.source_logs.path().display().to_string();
        let stored = &self.stored;
        let mut state = CopyState::new_seeding(
            stored.id.clone(),
            source.clone(),
            &self.source_logs,
            self.source.signature,
        );
        for database in &stored.databases {
            let inside = database.path.strip_prefix(&self.directory).unwrap_or(&database.path);
            state.databases.push(CopiedDatabase {
                file: inside.to_string_lossy().into_owned(),
                signature: database.signature.clone(),
                source: self.source_database(&database.signature)?.path.clone(),
            });
        }
        let log = self.source.logs.values().next();
        let log = log.map(|path| self.open(path, OpenMode::Read)).transpose()?;
        state.log_bytes = log
            .map_or(Ok(0), |log| log.len())
            .map_err(|error| CopyError::io(self.source_logs.path(), &error))?;
        state.phase = CopyPhase::Unfit {
            reason: UnfitReason::Reseeding,
            what: format!("an incremental reseed from {source} was interrupted; repeat it"),
        };
        Ok(state)
    }

    /// Patches the pages of one database. Returns the header that the database will have after the reseed.
    fn patch(
        &self,
        database: &ReseedDatabase,
        done: &mut u64,
        progress: &mut dyn FnMut(u64),
    ) -> Result<DatabaseHeader> {
        let vfs = &*self.vfs;
        let from = self.source_database(&database.signature)?;
        let source = self.open(&from.path, OpenMode::Read)?;
        let target = self.open(&database.path, OpenMode::Write)?;
        let io_error = |error: std::io::Error| CopyError::io(&database.path, &error);
        let before = database_header(vfs, &from.path)?;
        let mut header = database_header(vfs, &database.path)?;
        header.state = DatabaseState::IncrementalReseedInProgress;
        write_header(&*target, &header)?;
        let size = before.page_size;
        let (there, here) = (source.len().map_err(io_error)?, target.len().map_err(io_error)?);
        if here < there {
            target.grow(there).map_err(io_error)?;
        }
        for &page in &database.pages {
            let Some(page) = PageNumber::new(page) else { continue };
            let image = read_page(&*source, size, page, &*self.vfs)?;
            let offset = size.offset_of(page);
            if offset + size.bytes() as u64 <= here.max(there) {
                target.write_at(offset, &image, IoReason::Backup).map_err(io_error)?;
            }
            *done += 1;
            progress(*done);
        }
        target.sync(IoReason::Backup).map_err(io_error)?;
        let after = database_header(vfs, &from.path)?;
        if (before.state, before.attach_position, before.consistent_position)
            != (after.state, after.attach_position, after.consistent_position)
        {
            return Err(Refusal::SourceChanged.at(&from.path));
        }
        // Redo starts where it would have started before the pages were read. It must reach at least the newest
        // change in these pages.
        let mut last = after.clone();
        last.gen_min_required = before.gen_min_required;
        last.gen_min_consistent = before.gen_min_required;
        (last.flush_signature, last.flush_map_signature) = Default::default();
        Ok(last)
    }

    /// Stores the part of the newest log whose changes are in the copied pages. With this part, the copy can detect
    /// that a new active side lacks these changes. Returns the log's generation.
    fn store_partial_log(&self, headers: &[DatabaseHeader]) -> Result<Generation> {
        let newest = headers.iter().map(|header| match header.state {
            DatabaseState::CleanShutdown => header.consistent_position.generation,
            _ => header.gen_max_required,
        });
        let newest = newest.max().unwrap_or(Generation(0));
        let archived = self.source_logs.archived(newest);
        let current = self.source_logs.names.current();
        let mut found = None;
        for path in [&archived, &current] {
            let log = match VerifiedLog::read(&self.vfs, path, false) {
                Err(error) if is_not_found(&error) => continue,
                read => read?,
            };
            // Make the log durable: this side must not keep bytes that the other side could still lose in a power
            // failure. A log that has since been closed is already durable.
            match self.vfs.open(path, OpenMode::Read).and_then(|file| file.sync(IoReason::LogRead)) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                synced => synced.map_err(|error| CopyError::io(path, &error))?,
            }
            found = found.or((log.generation == newest).then_some(log));
        }
        let Some(log) = found else {
            return Err(Refusal::LogMissing(newest).at(self.source_logs.path()));
        };
        store_log(&*self.vfs, &part_path(&self.directory), &log.bytes)?;
        Ok(newest)
    }

    /// Fetches the closed logs before the newest log whose changes are in the pages.
    ///
    /// If the other side later loses these logs, this side's copies of them identify the pages that contain changes
    /// from the abandoned history.
    fn fetch_logs(&self, state: &mut CopyState, newest: Generation) -> Result<()> {
        let source = DirectorySource::new(self.source_logs.clone());
        let (vfs, directory) = (&self.vfs, &*self.directory);
        let events = &self.events;
        let mut copier = LogFetcher { vfs, directory, source: &source, streamed: &mut None, events };
        copier.fetch_logs(state, Generation(newest.0.saturating_sub(1)), u32::MAX)?;
        if state.next >= newest.0 {
            return Ok(());
        }
        Err(Refusal::LogUnusable(Generation(state.next)).at(self.source_logs.path()))
    }

    /// Moves the diverged history's logs to another directory and removes the other files that belong to it.
    fn move_diverged_logs(&self) -> Result<()> {
        let vfs = &*self.vfs;
        let aside = self.directory.join(DIVERGED_DIRECTORY);
        let io_error = |error: std::io::Error| CopyError::io(&self.directory, &error);
        let first = Generation(self.stored.first_diverged.unwrap_or(u32::MAX));
        vfs.create_directory(&aside).map_err(io_error)?;
        let form = self.target.log_names;
        for (generation, path) in &self.target.logs {
            if *generation >= first && !self.is_fetched(*generation, path) {
                let name = form.archived(self.source.base_name, *generation);
                vfs.rename(path, &aside.join(name)).map_err(io_error)?;
            } else {
                remove_if_exists(vfs, path).map_err(io_error)?;
            }
        }
        vfs.sync_directory(&aside).map_err(io_error)?;
        vfs.sync_directory(&self.directory).map_err(io_error)?;
        let base = self.source.base_name;
        for path in vfs.list(&self.directory).map_err(io_error)? {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let ending = path.extension().unwrap_or_default().to_string_lossy().into_owned();
            let side_file = matches!(&*ending, "jdw" | "jfm" | "jrs");
            let of_stream =
                name.starts_with(base.as_str()) && matches!(&*ending, "log" | "jtx" | "chk" | "jcp");
            if side_file || of_stream {
                remove_if_exists(vfs, &path).map_err(io_error)?;
            }
        }
        vfs.sync_directory(&self.directory).map_err(io_error)
    }

    /// Returns true if an interrupted call has fetched this log.
    fn is_fetched(&self, generation: Generation, path: &Path) -> bool {
        if !self.plan.is_resumed {
            return false;
        }
        let read = |path: &Path| VerifiedLog::read(&self.vfs, path, true).ok();
        let both = read(path).zip(read(&self.source_logs.archived(generation)));
        both.is_some_and(|(ours, theirs)| *ours.bytes == *theirs.bytes)
    }

    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn File>> {
        self.vfs.open(path, mode).map_err(|error| CopyError::io(path, &error))
    }
}

/// Locks all files of this side.
fn lock_all(
    vfs: &Arc<dyn Vfs>,
    directory: &Path,
    target: &RecoverySet,
    known: Option<&CopyState>,
) -> Result<Vec<Box<dyn DirectoryLock>>> {
    let mut paths: Vec<PathBuf> =
        vec![directory.join(format!("{}.lock", target.base_name)), directory.join("copy.lock")];
    paths.extend(target.databases.iter().map(|database| database.path.clone()));
    let elsewhere = known.map_or(&[][..], |state| &state.databases).iter();
    paths.extend(elsewhere.map(|database| directory.join(&database.file)));
    paths.sort();
    paths.dedup();
    let mut locks = Vec::new();
    for path in paths {
        // Acquiring a lock must not create a file.
        if vfs.exists(&path).map_err(|error| CopyError::io(&path, &error))? {
            locks.push(vfs.lock(&path).map_err(|error| match error.kind() {
                std::io::ErrorKind::WouldBlock => Error::InUse { path: path.clone() }.into(),
                _ => CopyError::io(&path, &error),
            })?);
        }
    }
    remove_unfinished_states(&**vfs, directory);
    Ok(locks)
}
