//! Crash recovery, which makes the databases usable after a crash.
//!
//! 1. Find the log and the checkpoint. If there is no log, create a stream.
//! 2. Analysis: read the log from the checkpoint to its end.
//! 3. Redo: repeat the changes that pages lack. The checkpoint and the log list the databases that were attached.
//! 4. Undo: roll back unfinished transactions and log the rollback. Then remove nodes flagged deleted.
//! 5. Leave the databases attached. Pages that redo changed are written as in normal operation. Until then, the
//!    checkpoint does not advance. ESE: `JET_bitKeepDbAttachedAtEndOfRecovery`.
//!
//! A crash during recovery, or soon after it, is handled like any other crash. The next recovery starts at the same
//! checkpoint, and also replays the records that this recovery logged.

mod attach;
mod attachable_set;
mod log_changes;
mod log_recovery;
mod recovery_set;
mod redo;
mod replay;
mod replay_findings;
mod replay_window;
mod replayer;
#[cfg(test)]
mod tests;

use std::num::NonZero;

use ese_format::log::record::LogRecord;
use ese_format::{Generation, LogPosition, Signature};
use jetcell_sync::Arc;

pub use self::log_changes::LogChanges;
use self::log_recovery::LogRecovery;
pub use self::recovery_set::{DiscoveredDatabase, RecoveryPlan, RecoverySet, SET_ASIDE};
pub use self::redo::ComparisonResult;
pub use self::replay_findings::{ExchangedPage, PageComparison, ReplayFindings, UnreplayedPage};
use self::replay_window::BufferedRecord;
pub use self::replayer::{ReplaySummary, Replayer};
use crate::cache::MemoryGrant;
use crate::core::Core;
use crate::log::{CheckpointFile, LogListener, LogNames, LogReader, LogStream, LogStreamOptions};
use crate::maintenance::checkpoint::generations_needed;
use crate::options::InstanceOptions;
use crate::{Corruption, Error, Result};

/// Minimum number of bytes of memory that redo uses for the log, even if the cache can spare none.
const MIN_WINDOW_BYTES: usize = 64 << 10;

/// Divisor of the cache size that gives the initial memory for the log: a third. The rest is for pages and for deltas
/// of evicted pages.
const LOG_SHARE_OF_CACHE: usize = 3;

/// Maximum number of redo threads. More threads would not help, because the device limits the speed of redo.
const MAX_REDO_THREADS: usize = 4;

/// Returns the number of threads that replay pages.
fn redo_threads(options: &InstanceOptions) -> usize {
    if options.background.has_threads() {
        jetcell_sync::thread::available_parallelism().map_or(1, NonZero::get).min(MAX_REDO_THREADS)
    } else {
        1
    }
}

/// Statistics about one recovery.
#[derive(Clone, Debug, Default)]
pub struct RecoverySummary {
    /// Whether recovery ran because the log had not ended cleanly.
    pub ran: bool,
    /// Number of log records that redo read.
    pub records: u64,
    /// Number of page changes that were missing and were redone.
    pub applied: u64,
    /// Number of page changes that redo left in memory without reading the page. When the page is read, it gets those
    /// changes that it lacks.
    pub deferred: u64,
    /// Number of transactions that were rolled back.
    pub rolled_back: usize,
    /// Number of torn pages that were restored from page images.
    pub torn_pages: usize,
    /// First and last missing generations that may have contained commits. Their loss was accepted.
    pub lost_generations: Option<(Generation, Generation)>,
    /// Number of databases that were left attached.
    pub left_attached: usize,
}

/// An open log, its checkpoint, and the recovery statistics.
pub(crate) struct OpenedLog {
    pub checkpoint_file: CheckpointFile,
    pub checkpoint: LogPosition,
    pub signature: Signature,
    pub summary: RecoverySummary,
}

/// Opens an instance's log. If the log did not end cleanly, first recovers the databases.
pub(crate) fn open_log(
    core: &Arc<Core>,
    options: &InstanceOptions,
    fresh: Signature,
    listener: Arc<dyn LogListener>,
) -> Result<OpenedLog> {
    let grant = core.cache.grant_memory(core.cache.counters().max_bytes as usize / LOG_SHARE_OF_CACHE);
    let memory = grant.bytes().max(MIN_WINDOW_BYTES);
    open_log_with(core, options, fresh, listener, grant, memory)
}

/// Opens the log like [`open_log`], with `memory` bytes for the replay window. `grant` is cache memory, which redo
/// returns when it needs less.
fn open_log_with(
    core: &Arc<Core>,
    options: &InstanceOptions,
    fresh: Signature,
    listener: Arc<dyn LogListener>,
    grant: MemoryGrant,
    memory: usize,
) -> Result<OpenedLog> {
    let directory = &options.log.directory;
    let files = options.vfs.list(directory).map_err(|e| Error::io(directory, &e))?;
    let names = LogNames::new(directory, options.log.base_name).with_format_of(&files, options.log.names);
    let log_options = LogStreamOptions {
        vfs: options.vfs.clone(),
        names: names.clone(),
        file_size: options.log.file_size,
        page_size: options.page_size.get(),
        circular: options.log.circular,
        retained_files: generations_needed(options.checkpoint.depth, options.log.file_size)
            + options.log.waypoint_latency as usize,
        copy_lag_limit: options.copies.lag_limit,
        waypoint_latency: options.log.waypoint_latency,
        accept_lost_logs: options.recovery.accept_lost_logs,
        // The files of lost generations may be found later, and must not be confused with new ones.
        begin_generation: options.recovery.begin_generation || options.recovery.accept_lost_logs,
    };
    let checkpoint_file = CheckpointFile::new(
        options.vfs.clone(),
        &options.checkpoint.directory,
        options.log.base_name,
        names.format(),
    );
    match LogReader::open_with(options.vfs.clone(), names, options.recovery.accept_lost_logs)? {
        Some(reader) => {
            let recovery = LogRecovery::new(core, options, Arc::new(reader), checkpoint_file)?;
            recovery.run(log_options, listener, grant, memory)
        }
        None => {
            let log = Arc::new(LogStream::create(log_options, fresh)?);
            let checkpoint = log.tail();
            start_log(core, log, listener);
            let summary = RecoverySummary::default();
            Ok(OpenedLog { checkpoint_file, checkpoint, signature: fresh, summary })
        }
    }
}

fn decode(log: &LogReader, buffered: &BufferedRecord) -> Result<LogRecord> {
    buffered.record().map_err(|error| {
        Error::corrupt(log.directory(), Corruption::LogRecord { position: buffered.start, error })
    })
}

fn start_log(core: &Core, log: Arc<LogStream>, listener: Arc<dyn LogListener>) {
    log.set_listener(listener);
    core.open_log(log);
}
