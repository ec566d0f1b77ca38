//! Replays a copy's logs into its databases and leaves the databases dirty.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ese_engine::internals::log::CheckpointFile;
use ese_engine::{
    AttachmentErrorKind, BackgroundThreads, CacheSource, DatabasePaths, Error, EventSink, ExchangedPage,
    InstanceOptions, LogErrorKind, ReplayFindings, Replayer, TornPageProtection,
};
use ese_format::header::DatabaseState;
use ese_format::log::has_log_extension;
use ese_format::{Generation, LogPosition, PageNumber, Signature};
use jetcell_sync::Arc;
use jetcell_vfs::Vfs;

use crate::copy_state::{CopyState, database_header, first_required};
use crate::error::{Refusal, Result};
use crate::log_end::read_log_header;
use crate::unfit_reason::UnfitReason;

/// Options for replaying a copy's logs.
#[derive(Clone)]
pub struct ReplayOptions {
    /// Whether to keep the replayer and its cache between batches. Exchange 2007 did not keep them; SP1 did.
    pub keep_instance: bool,
    /// Whether to also fetch the log that is being written, so that a failover loses less. ESE: block mode.
    #[doc(alias = "granular replication")]
    pub stream_log: bool,
    /// Minimum age of a completed generation before it is replayed.
    pub delay: Duration,
    /// Memory for the page cache, in bytes.
    pub cache_bytes: usize,
    /// Maximum number of log bytes that redo has to read after a stop.
    pub checkpoint_depth: u64,
    /// Protection of pages against torn writes.
    pub torn_page_protection: TornPageProtection,
    /// Whether to write pages from cache threads and to replay on several threads.
    pub threads: bool,
    /// Receiver of replay events.
    pub events: Option<Arc<dyn EventSink>>,
}

impl ReplayOptions {
    /// Returns how long a copy waits after a step without work: half a second, or a tenth of a second while a log is
    /// streamed.
    pub fn idle_wait(&self) -> Duration {
        Duration::from_millis(if self.stream_log { 100 } else { 500 })
    }
}

impl Default for ReplayOptions {
    /// Returns the defaults: the replayer is kept, only closed logs are fetched, there is no delay, the cache is 64
    /// MiB, and the checkpoint depth is 100 MiB, as for copies in Exchange 2013.
    fn default() -> ReplayOptions {
        ReplayOptions {
            keep_instance: true,
            stream_log: false,
            delay: Duration::ZERO,
            cache_bytes: 64 << 20,
            checkpoint_depth: 100 << 20,
            torn_page_protection: TornPageProtection::DoubleWrite,
            threads: true,
            events: None,
        }
    }
}

/// Result of trying to replay the next log.
pub(crate) enum ReplayAttempt {
    /// The generation was replayed.
    Done(Generation),
    /// There is no log to replay, or the next log must wait.
    Nothing,
    /// A generation's log file is damaged or no longer exists.
    BadLog(Generation),
    /// The databases cannot be replayed further.
    Unfit(UnfitReason, String),
}

/// Replays the logs of one copy.
pub(crate) struct LogReplayer {
    vfs: Arc<dyn Vfs>,
    directory: PathBuf,
    options: ReplayOptions,
    replayer: Option<Replayer>,
    /// Page images whose records have not been replayed yet.
    images: BTreeMap<LogPosition, ExchangedPage>,
}

impl LogReplayer {
    pub fn new(vfs: Arc<dyn Vfs>, directory: PathBuf, options: ReplayOptions) -> LogReplayer {
        LogReplayer { vfs, directory, options, replayer: None, images: BTreeMap::new() }
    }

    /// Returns the options for running an engine on the copy's databases.
    pub fn engine_options(&self, state: &CopyState) -> InstanceOptions {
        let mut options = InstanceOptions::with_vfs(self.vfs.clone(), self.directory.clone());
        options.log.base_name = state.base_name;
        options.log.names = state.log_name_form();
        options.cache = CacheSource::Own { bytes: self.options.cache_bytes };
        options.checkpoint.depth = self.options.checkpoint_depth;
        options.torn_page_protection = self.options.torn_page_protection;
        options.background = BackgroundThreads::own_if(self.options.threads);
        options.events.sink = self.options.events.clone();
        let mut paths = DatabasePaths::default();
        for database in &state.databases {
            paths.set_path(database.signature(), self.directory.join(&database.file));
        }
        // A database that the copy does not have must not be opened at its path on the active side.
        paths.search(&self.directory);
        options.recovery.database_paths = paths;
        options
    }

    /// Replays the next generation, if the copy has it and it is old enough.
    pub fn replay_next(&mut self, state: &CopyState) -> Result<ReplayAttempt> {
        let next = match &self.replayer {
            Some(replayer) => replayer.next(),
            // A new replayer would only repeat changes that the databases already have.
            None if state.replay_queue() == 0 => return Ok(ReplayAttempt::Nothing),
            None => redo_start(&self.vfs, &self.directory, state)?,
        };
        if next.0 >= state.next || self.must_wait(state, next)? {
            return Ok(ReplayAttempt::Nothing);
        }
        let path = state.logs(&self.vfs, &self.directory).archived(next);
        match self.replay(state, &path) {
            Ok(()) => Ok(ReplayAttempt::Done(next)),
            Err(error) => {
                // Replay cannot continue after an error. A new replayer starts at the position in the headers.
                self.replayer = None;
                classify_error(error, next)
            }
        }
    }

    fn replay(&mut self, state: &CopyState, path: &Path) -> ese_engine::Result<()> {
        if self.replayer.is_none() {
            let mut replayer = Replayer::open(self.engine_options(state), path)?;
            replayer.mark_as_copy();
            self.replayer = Some(replayer);
        }
        let Some(replayer) = &mut self.replayer else { return Ok(()) };
        // Images from generations that have already been replayed arrived too late.
        self.images.retain(|position, _| position.generation >= replayer.next());
        self.images.values().for_each(|image| replayer.supply_image(image.clone()));
        replayer.replay(path)
    }

    /// Stores a page image that arrived from the active side.
    pub fn supply_image(&mut self, image: ExchangedPage) {
        self.images.insert(image.position, image);
    }

    /// Returns the last replay's findings about pages, and the pages that it cannot replay any further.
    pub fn findings(&mut self) -> Result<(ReplayFindings, Vec<(Signature, PageNumber)>)> {
        let Some(replayer) = &mut self.replayer else { return Ok(Default::default()) };
        let findings = replayer.take_findings()?;
        let bad = replayer.bad_pages().into_iter().map(|bad| (bad.database, bad.page)).collect();
        Ok((findings, bad))
    }

    /// Returns true if the generation must wait for the replay delay. A generation counts as complete when the next
    /// one is created.
    fn must_wait(&self, state: &CopyState, generation: Generation) -> Result<bool> {
        if self.options.delay.is_zero() {
            return Ok(false);
        }
        let next = generation.next();
        if next.0 >= state.next {
            return Ok(true);
        }
        let path = state.logs(&self.vfs, &self.directory).archived(next);
        let ended = read_log_header(&*self.vfs, &path)?.created.unix_ms().unwrap_or(0);
        let age = self.vfs.clock().unix_ms().saturating_sub(ended);
        Ok(u128::try_from(age).unwrap_or(0) < self.options.delay.as_millis())
    }

    /// Returns a database that the log attaches but the copy does not have.
    pub fn missing_database(&self) -> Option<String> {
        match self.replayer.as_ref()?.check_complete() {
            Err(Error::Attachment {
                path,
                fault: AttachmentErrorKind::NotFound | AttachmentErrorKind::OtherDatabase,
            }) => Some(path.display().to_string()),
            _ => None,
        }
    }

    /// Replays at least the logs that the headers require, so that the databases are consistent when the replayer
    /// stops.
    pub fn replay_again(&mut self, state: &CopyState) -> Result<()> {
        if self.replayer.is_some() {
            return Ok(());
        }
        let logs = state.logs(&self.vfs, &self.directory);
        for generation in redo_start(&self.vfs, &self.directory, state)?.0..state.next {
            self.replay(state, &logs.archived(Generation(generation)))?;
        }
        Ok(())
    }

    /// Ends a batch. The replayer is either kept, or stopped together with its cache.
    pub fn end_batch(&mut self) -> Result<()> {
        if self.options.keep_instance { Ok(()) } else { self.stop() }
    }

    /// Stops the replayer and leaves the databases dirty.
    pub fn stop(&mut self) -> Result<()> {
        match self.replayer.take() {
            Some(replayer) => Ok(replayer.stop().map(|_| ())?),
            None => Ok(()),
        }
    }
}

/// Translates an error from replaying a generation into its consequence for the copy.
fn classify_error(error: Error, generation: Generation) -> Result<ReplayAttempt> {
    let reseed =
        |error: &Error| format!("{error} ({} {}); reseed the copy", error.jet_name(), error.jet_code());
    match &error {
        Error::Log { fault: LogErrorKind::Damaged(_), .. } => Ok(ReplayAttempt::BadLog(generation)),
        Error::Io { kind: std::io::ErrorKind::NotFound, path, .. } if has_log_extension(path) => {
            Ok(ReplayAttempt::BadLog(generation))
        }
        Error::Log { fault: LogErrorKind::UnknownRecord(_) | LogErrorKind::RefusedRecord(..), .. } => {
            Ok(ReplayAttempt::Unfit(UnfitReason::BadLog, reseed(&error)))
        }
        Error::Log { .. } => Ok(ReplayAttempt::Unfit(UnfitReason::Diverged, reseed(&error))),
        Error::PageTime { .. }
        | Error::Corrupt { .. }
        | Error::EarlierVersion { .. }
        | Error::LogsMissing { .. }
        | Error::Attachment { .. } => Ok(ReplayAttempt::Unfit(UnfitReason::BadDatabase, reseed(&error))),
        _ => Err(error.into()),
    }
}

/// Returns the generation at which a new replayer starts. This is the generation of the checkpoint, or an older one
/// that a header requires.
pub(crate) fn redo_start(vfs: &Arc<dyn Vfs>, directory: &Path, state: &CopyState) -> Result<Generation> {
    let checkpoint =
        CheckpointFile::new(vfs.clone(), directory, state.base_name, state.log_name_form()).read()?;
    let checkpoint = checkpoint.filter(|checkpoint| checkpoint.log_signature == state.stream());
    let mut needed = Vec::new();
    for database in &state.databases {
        let header = database_header(&**vfs, &directory.join(&database.file))?;
        // A clean database already has all changes before the checkpoint.
        if checkpoint.is_none() || header.state != DatabaseState::CleanShutdown {
            needed.push(first_required(&header));
        }
    }
    needed.extend(checkpoint.map(|checkpoint| checkpoint.position.generation));
    needed.into_iter().min().ok_or_else(|| Refusal::NoDatabases.at(directory))
}
