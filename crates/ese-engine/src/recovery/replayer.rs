//! Replays a log stream that another engine writes, one generation after another. ESE: passive copy.
//!
//! ```text
//!  closed generation ──> verified, continues the previous ──> headers name it ──> redo ──> checkpoint advances
//! ```
//!
//! A generation is verified, and redo must know all its records, before anything is changed.
//!
//! **Nothing is written into the log.** An uncommitted change may need a before-image that is not in the received
//! part of the log. In that case, the engine that wrote the log had not yet written the page; otherwise the
//! before-image would be in the log. Replay does not write the page either: the page stays in memory until the
//! transaction ends, and holds the checkpoint at its first change. A stop that leaves the databases dirty drops these
//! pages. The headers name the generations from which redo repeats the changes. If a log ends before its engine
//! removed a deleted node, the node can remain on its page, flagged deleted.
//!
//! **Unfinished transactions** hold the checkpoint at their start. A later replay can therefore undo them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ese_format::attachment::Attachment;
use ese_format::log::header::LogHeader;
use ese_format::log::record::LogRecord;
use ese_format::{Generation, LogPosition, LogTime, PageSize};
use jetcell_sync::Arc;
use jetcell_vfs::{DirectoryLock, OpenMode};

use super::attach::{Attacher, RecoveredLog};
use super::redo::{Redo, UndoInfos, redoable};
use super::replay::Replay;
use super::replay_window::ReplayWindow;
use super::{MIN_WINDOW_BYTES, redo_threads};
use crate::core::Core;
use crate::events::EventKind;
use crate::log::{CheckpointFile, LogChain, LogNames, LogReader, LogStream, LogStreamOptions, ReceivedLog};
use crate::maintenance::checkpoint::Checkpointer;
use crate::maintenance::cleanup;
use crate::options::InstanceOptions;
use crate::storage::CheckpointPin;
use crate::{Corruption, Error, InternalError, Result};

/// Divisor of the cache size that gives the memory for the log during replay.
const LOG_SHARE_OF_CACHE: usize = 8;

/// Statistics and results of a [`Replayer`].
#[derive(Clone, Debug, Default)]
pub struct ReplaySummary {
    /// First and last generations whose records were replayed.
    pub generations: Option<(Generation, Generation)>,
    /// Position up to which all records were replayed.
    pub position: LogPosition,
    /// Number of records replayed, by record type name.
    pub records: BTreeMap<&'static str, u64>,
    /// Number of page changes that were missing and were redone.
    pub changed: u64,
    /// Number of pages read from databases.
    pub pages_read: u64,
    /// Number of pages written to databases.
    pub pages_written: u64,
    /// Number of torn pages restored from page images.
    pub torn_pages: usize,
    /// Number of macros whose end is not in the log. Their records were not replayed.
    pub incomplete_macros: usize,
    /// Paths, on this host, of the databases that are attached at this position in the log.
    pub attached: Vec<PathBuf>,
}

/// Updates databases by replaying another engine's logs. More logs can be replayed later.
///
/// ```
/// use ese_engine::*;
///
/// # fn main() -> Result<()> {
/// # let root = std::env::temp_dir().join(format!("ese-engine-replay-{}", std::process::id()));
/// # let [active, passive] = ["active", "passive"].map(|name| root.join(name));
/// # [&active, &passive].iter().for_each(|directory| std::fs::create_dir_all(directory).unwrap());
/// let mut options = InstanceOptions::new(&active)?;
/// options.log.file_size = 64 << 10;
/// let instance = Instance::open(options)?;
/// let database = instance.create_database(&active.join("data.edb"), &DatabaseOptions::default())?;
/// instance.detach(&database)?;
/// drop(database);
/// // The copy starts out as a copy of the database file.
/// std::fs::copy(active.join("data.edb"), passive.join("data.edb")).unwrap();
///
/// let mut options = InstanceOptions::new(&passive)?;
/// options.recovery.database_paths.search(&passive);
/// let mut replayer = Replayer::open(options, &active.join("E00.log"))?;
/// // From now on, replay each generation of the active engine when it is closed.
/// instance.attach(&active.join("data.edb"), 256)?;
/// instance.core().log().roll_over()?;
/// replayer.replay(&active.join("E0000000001.log"))?;
/// assert_eq!(replayer.next().0, 2);
/// assert_eq!(replayer.summary().attached, [passive.join("data.edb")]);
/// // The database stays dirty, and the next replayer continues.
/// replayer.stop()?;
/// # instance.shutdown()?;
/// # std::fs::remove_dir_all(&root).unwrap();
/// # Ok(())
/// # }
/// ```
pub struct Replayer {
    pub(super) core: Arc<Core>,
    options: InstanceOptions,
    reader: Arc<LogReader>,
    pub(super) replay: Replay,
    chain: LogChain,
    /// Header of the first generation to be replayed, until its replay begins.
    first: Option<LogHeader>,
    /// Generation where replay begins.
    oldest: Generation,
    position: LogPosition,
    /// Newest generation that was replayed up to its current end.
    complete: Generation,
    generations: Option<(Generation, Generation)>,
    checkpointer: Checkpointer,
    /// Pin that keeps the checkpoint before incomplete transactions and macros.
    pin: Option<CheckpointPin>,
    window_bytes: usize,
    /// Error that prevents the replay from continuing.
    failed: Option<Error>,
    _lock: Box<dyn DirectoryLock>,
}

impl Replayer {
    /// Prepares to replay a stream, starting with the generation in the file `first`. The databases listed in that
    /// generation's header must be in their state at its beginning, or in a newer state.
    ///
    /// `options` contains the directory of the checkpoint file
    /// ([`CheckpointOptions::directory`](crate::CheckpointOptions::directory)) and the paths of the databases
    /// ([`RecoveryOptions::database_paths`](crate::RecoveryOptions::database_paths)). The page size is taken from the
    /// log.
    ///
    /// Returns an error if the file cannot be read or is not a log, or if another instance or replayer uses the
    /// directory. Nothing is changed.
    pub fn open(options: InstanceOptions, first: &Path) -> Result<Replayer> {
        let vfs = options.vfs.clone();
        let names = LogNames::new(&options.log.directory, options.log.base_name);
        let reader = Arc::new(LogReader::received(vfs.clone(), names.clone()));
        let header = reader.header_at(first)?;
        let page_size = match header.database_page_size {
            0 => PageSize::KIB_4,
            size => PageSize::new(u32::from(size))
                .ok_or_else(|| Error::corrupt(first, Corruption::LogPageSize(size)))?,
        };
        let mut options = options.page_size(page_size);
        options.recovery.accept_newer_formats = true;
        let lock = options.lock()?;
        let core =
            Core::new(vfs.clone(), options.open_cache()?, options.version_store_bytes, options.reporter());
        let file = vfs.open(first, OpenMode::Read).map_err(|e| Error::io(first, &e))?;
        let log_options = LogStreamOptions {
            vfs: vfs.clone(),
            names,
            file_size: 0,
            page_size: page_size.get(),
            circular: false,
            retained_files: 0,
            copy_lag_limit: options.copies.lag_limit,
            waypoint_latency: 0,
            accept_lost_logs: false,
            begin_generation: false,
        };
        core.open_log(Arc::new(LogStream::received(log_options, &header, file)));
        let oldest = header.generation;
        let position = LogPosition::new(oldest.0, 1, 0);
        *core.checkpoint.lock() = position;
        let checkpointer = Checkpointer {
            depth: options.checkpoint.depth,
            file: CheckpointFile::new(
                vfs,
                &options.checkpoint.directory,
                options.log.base_name,
                options.log.names,
            ),
            signature: header.signature,
            circular: false,
        };
        let window_bytes =
            (core.cache.counters().max_bytes as usize / LOG_SHARE_OF_CACHE).max(MIN_WINDOW_BYTES);
        let grant = core.cache.grant_memory(0);
        let redo = Redo::new(core.clone(), reader.clone(), redo_threads(&options), UndoInfos::new(), grant);
        let log = RecoveredLog {
            signature: header.signature,
            oldest_without_checkpoint: Some(header.generation),
            newest: Generation(u32::MAX),
            end: LogPosition::MAX,
            received: true,
        };
        let replay =
            Replay::new(reader.clone(), redo, Attacher::new(&core, &options, log), None, core.events.clone());
        Ok(Replayer {
            core,
            options,
            reader,
            replay,
            chain: LogChain::default(),
            first: Some(header),
            position,
            complete: Generation(0),
            oldest,
            generations: None,
            checkpointer,
            pin: None,
            window_bytes,
            failed: None,
            _lock: lock,
        })
    }

    /// Returns the generation that must be replayed next. It may already have been partly replayed.
    pub fn next(&self) -> Generation {
        self.chain.next().unwrap_or(self.oldest)
    }

    /// Returns the position up to which all records were replayed.
    pub fn position(&self) -> LogPosition {
        self.position
    }

    /// Replays all records of a closed generation.
    ///
    /// Returns [`Error::LogMissing`] if it is not the next generation. Returns [`Error::Log`] if it is damaged, does
    /// not continue the previous generation, or has a record that cannot be redone; in this case no record of it was
    /// replayed. After other errors, the databases stay dirty, and can be replayed again starting with the
    /// generations that their headers name.
    pub fn replay(&mut self, log: &Path) -> Result<()> {
        self.replay_part(log, false, LogPosition::MAX)
    }

    /// Replays a generation, which may still be open, up to its end or up to `until`, whichever comes first. The next
    /// call continues with the same generation if more records may have been added to it.
    pub fn replay_until(&mut self, log: &Path, until: LogPosition) -> Result<()> {
        self.replay_part(log, true, until)
    }

    /// Returns the first position in a log at which records may be later than `time`, or `None` if the whole log is
    /// older. ESE stores in each segment the time when the segment was begun.
    pub fn position_after(&self, log: &Path, time: LogTime) -> Result<Option<LogPosition>> {
        let generation = self.reader.header_at(log)?.generation;
        self.reader.add(generation, log);
        Ok(self.reader.receive(generation, &LogChain::default(), true)?.first_segment_after(time))
    }

    fn replay_part(&mut self, path: &Path, newest: bool, until: LogPosition) -> Result<()> {
        if let Some(failed) = &self.failed {
            return Err(failed.clone());
        }
        let generation = self.reader.header_at(path)?.generation;
        if generation != self.next() {
            return Err(Error::LogMissing {
                path: self.options.log.directory.clone(),
                generation: self.next(),
            });
        }
        self.reader.add(generation, path);
        let log = self.reader.receive(generation, &self.chain, newest)?;
        let (chain, infos) = self.verify(&log, until)?;
        let upto = log.end().min(until);
        if upto <= self.position && !newest {
            // The generation was still open during an earlier call, and was already replayed up to its end.
            (self.chain, self.complete) = (chain, generation);
            return Ok(());
        }
        // From here on, the databases change. After an error, redo can be repeated but not continued.
        let result = self.redo(&log, upto, infos);
        if let Err(error) = &result {
            self.failed = Some(error.clone());
            return result;
        }
        self.generations = Some((self.generations.map_or(generation, |(first, _)| first), generation));
        // More records may be added to an open generation.
        if until >= log.end() || until.generation > generation {
            self.complete = generation;
        }
        if !newest && until > log.end() {
            self.chain = chain;
        }
        if self.replay.attacher.check_consistent(self.complete).is_ok()
            && let Err(error) = self.replay.redo.check_readable()
        {
            self.failed = Some(error.clone());
            return Err(error);
        }
        self.maintain()
    }

    /// Checks that redo knows all records to be replayed, and collects the before-images among them.
    fn verify(&self, log: &ReceivedLog, until: LogPosition) -> Result<(LogChain, UndoInfos)> {
        let mut infos = UndoInfos::new();
        let chain = self.reader.visit_received(log, &self.chain, |stored| {
            if stored.end <= self.position || stored.start >= until {
                return Ok(());
            }
            if let LogRecord::UndoInfo(info) = redoable(&self.reader, &stored)? {
                infos.insert(info.node.rceid, info);
            }
            Ok(())
        })?;
        Ok((chain, infos))
    }

    fn redo(&mut self, log: &ReceivedLog, upto: LogPosition, infos: UndoInfos) -> Result<()> {
        let header = log.header();
        let created = header.created;
        // The header must name the generation before any page with changes from it is written.
        for database in self.core.databases() {
            database.file.enter_generation(header.generation, created)?;
        }
        self.core.log().receive(upto, header);
        if let Some(first) = self.first.take() {
            let list = Attachment::decode_list(&first.attachment_list).unwrap_or_default();
            self.replay.attacher.attach_listed(&list, self.position)?;
        }
        self.replay.redo.transactions().add_undo_infos(infos);
        let (position, limit) = (self.position, self.window_bytes);
        let (replay, mut end) = (&mut self.replay, upto);
        let mut window = ReplayWindow::new(limit);
        self.reader.visit_received(log, &self.chain, |stored| {
            // A record that began in the previous generation only becomes complete here.
            if stored.end <= position || stored.start >= upto {
                return Ok(());
            }
            end = end.max(stored.end);
            match window.push(stored) {
                Ok(()) => Ok(()),
                Err(stored) => {
                    replay.replay(std::mem::replace(&mut window, ReplayWindow::new(limit)))?;
                    window.push(stored).map_err(|_| InternalError::ReplayWindow.into())
                }
            }
        })?;
        replay.replay(window)?;
        replay.redo.transactions().finish_part();
        replay.report_last();
        self.position = end.max(position);
        Ok(())
    }

    /// Advances the checkpoint as in normal operation, and frees memory.
    fn maintain(&mut self) -> Result<()> {
        self.pin_incomplete();
        // The trees can be searched only when the databases are consistent.
        let consistent = self.replay.attacher.check_consistent(self.complete).is_ok();
        if consistent && !self.core.ended.is_empty() {
            self.without_bad_pages(cleanup::drop_removed_deletions(&self.core))?;
        }
        self.core.cache.clean_step()?;
        let checkpointed = self.checkpointer.step(&self.core, usize::MAX).map(drop);
        self.without_bad_pages(checkpointed)?;
        self.reader.remove_below(self.core.checkpoint.lock().generation.min(self.next()));
        Ok(())
    }

    /// On a copy, ignores errors about unreadable pages. Such a page waits for its repair, and keeps the checkpoint
    /// at the position that redo needs.
    fn without_bad_pages(&self, result: Result<()>) -> Result<()> {
        match result {
            Err(Error::Corrupt { page: Some(_), .. }) if self.replay.redo.is_copy() => Ok(()),
            result => result,
        }
    }

    fn pin_incomplete(&mut self) {
        let needed_from = self.replay.redo.needed_from().into_iter().chain(self.chain.pending_from()).min();
        let pin = needed_from.map(|from| self.core.pins.pin(from));
        if let Some(old) = std::mem::replace(&mut self.pin, pin) {
            self.core.pins.release(old);
        }
    }

    /// Writes all pages that can be written, and advances the checkpoint to the latest possible position. Returns the
    /// position at which redo would start.
    pub fn checkpoint(&mut self) -> Result<LogPosition> {
        if let Some(failed) = &self.failed {
            return Err(failed.clone());
        }
        self.pin_incomplete();
        for database in self.core.databases() {
            let flushed = self.core.cache.flush_possible(database.file.file_id);
            self.without_bad_pages(flushed)?;
        }
        self.checkpointer.advance(&self.core)
    }

    /// Returns the statistics and results so far.
    pub fn summary(&self) -> ReplaySummary {
        let cache = self.core.cache.counters();
        ReplaySummary {
            generations: self.generations,
            position: self.position,
            records: self.replay.by_type.clone(),
            changed: self.replay.redo.applied + self.replay.redo.deferred,
            pages_read: cache.faults + cache.prereads,
            pages_written: cache.written_checkpoint + cache.written_eviction + cache.written_flush,
            torn_pages: self.replay.attacher.torn_pages,
            incomplete_macros: self.replay.redo.incomplete_macros(),
            attached: self.core.databases().iter().map(|database| database.path().to_path_buf()).collect(),
        }
    }

    /// Checks that enough of the log was replayed: the databases that it attaches were found, and are consistent
    /// apart from unfinished transactions.
    ///
    /// Returns [`Error::Attachment`] if a database was not found, and [`Error::LogsMissing`] if a database needs
    /// further generations.
    pub fn check_complete(&self) -> Result<()> {
        self.replay.attacher.check_no_missing_databases()?;
        self.replay.attacher.check_consistent(self.complete)
    }

    /// Ends the replay and leaves the databases dirty. Further logs can be replayed later. ESE:
    /// `JET_bitRecoveryWithoutUndo`, -579.
    #[doc(alias = "JET_bitRecoveryWithoutUndo")]
    pub fn stop(mut self) -> Result<ReplaySummary> {
        self.checkpoint()?;
        if self.replay.attacher.check_consistent(self.complete).is_ok() {
            self.replay.attacher.finish_restore()?;
        }
        let replayed = self.summary();
        let (generations, changed) = (replayed.generations, replayed.changed);
        self.core.events.report(EventKind::ReplayCompleted { generations, changed });
        Ok(replayed)
    }

    /// Returns the options with which the replayer was opened, but with the log's page size.
    pub(crate) fn options(&self) -> &InstanceOptions {
        &self.options
    }
}

impl Drop for Replayer {
    fn drop(&mut self) {
        self.core.abandon();
    }
}
