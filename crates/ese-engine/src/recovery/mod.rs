//! Crash recovery: from what a crash left to databases that can be used.
//!
//! 1. Find the log and the checkpoint. No log: a new stream.
//! 2. Redo from the checkpoint to the end of the log; databases are attached as the checkpoint and the log say.
//! 3. Undo what had not committed, logging it, then remove nodes left flagged deleted.
//! 4. Leave the databases attached. What redo changed is written when normal operation would write it, so the checkpoint
//!    stays where it was until then. ESE: `JET_bitKeepDbAttachedAtEndOfRecovery`.
//!
//! A crash during recovery, or soon after it, is recovered like any other: from the same checkpoint, and through what
//! this recovery logged.

mod attach;
mod redo;
mod replay_window;
#[cfg(test)]
mod tests;

use std::num::NonZero;

use ese_format::attachment::Attachment;
use ese_format::checkpoint::Checkpoint;
use ese_format::log::record::{LogRecord, RecoveryUndo, Termination, kinds};
use ese_format::{LogPosition, LogTime, Signature};
use jetcell_sync::Arc;

use self::attach::{Attacher, Stream};
use self::redo::{Redo, UndoInfos};
use self::replay_window::{BufferedRecord, ReplayWindow};
use crate::cache::MemoryGrant;
use crate::core::Core;
use crate::log::{CheckpointFile, LogListener, LogNames, LogOptions, LogReader, LogStream};
use crate::maintenance::checkpoint::generations_needed;
use crate::maintenance::cleanup;
use crate::options::InstanceOptions;
use crate::{Error, Result};

/// More threads would not find more work than the device gives.
const REDO_THREADS: usize = 4;
/// Bytes of log that redo keeps in memory though the cache has none to spare.
const LEAST_MEMORY: usize = 64 << 10;

/// The part of the cache's memory that the log gets at first. The rest is for pages, and for edits of those that leave.
const SHARE_OF_LOG: usize = 3;

/// What recovery did.
#[derive(Clone, Debug, Default)]
pub struct RecoverySummary {
    /// The log had not ended cleanly, so recovery ran.
    pub ran: bool,
    /// Log records read.
    pub records: u64,
    /// Page changes that were missing and made.
    pub applied: u64,
    /// Page changes kept in memory for pages that were not read: made when the page is, if it lacks them.
    pub deferred: u64,
    /// Transactions rolled back.
    pub rolled_back: usize,
    /// Torn pages put back from side files.
    pub torn_pages: usize,
    /// Databases left attached.
    pub left_attached: usize,
}

/// An open log and what goes with it.
pub(crate) struct Opened {
    pub checkpoint_file: CheckpointFile,
    pub checkpoint: LogPosition,
    pub signature: Signature,
    pub summary: RecoverySummary,
}

/// Opens the log of an instance, recovering first if it did not end cleanly.
pub(crate) fn open_log(
    core: &Arc<Core>,
    options: &InstanceOptions,
    fresh: Signature,
    listener: Arc<dyn LogListener>,
) -> Result<Opened> {
    let grant = core.cache.grant_memory(core.cache.counters().max_bytes as usize / SHARE_OF_LOG);
    let memory = grant.bytes().max(LEAST_MEMORY);
    open_log_with(core, options, fresh, listener, grant, memory)
}

/// The same, with so many bytes of log in memory for redo. What the cache lent it gets back when redo is over.
fn open_log_with(
    core: &Arc<Core>,
    options: &InstanceOptions,
    fresh: Signature,
    listener: Arc<dyn LogListener>,
    grant: MemoryGrant,
    memory: usize,
) -> Result<Opened> {
    let names = LogNames::new(&options.log_directory, &options.base_name);
    let log_options = LogOptions {
        vfs: options.vfs.clone(),
        names: names.clone(),
        file_size: options.log_file_size,
        page_size: options.page_size.get(),
        circular: options.circular,
        retained_files: generations_needed(options.checkpoint_depth, options.log_file_size),
    };
    let checkpoint_file =
        CheckpointFile::new(options.vfs.clone(), &options.system_directory, &options.base_name);
    let reader = LogReader::open(options.vfs.clone(), names.clone())?;
    let mut summary = RecoverySummary::default();
    let Some(reader) = reader else {
        let log = Arc::new(LogStream::create(log_options, fresh)?);
        let checkpoint = log.tail();
        start_log(core, log, listener);
        return Ok(Opened { checkpoint_file, checkpoint, signature: fresh, summary });
    };

    // Where the log ends must be known before redo, which may have to add to it, and so must the before-images it
    // holds. What there is memory for is kept for redo, the rest is read a second time.
    let reader = Arc::new(reader);
    let (oldest, newest) = reader.range();
    let signature = reader.header_of(newest)?.signature;
    // A checkpoint of another stream, or beyond the logs, is as good as none.
    let checkpoint = checkpoint_file.read()?.filter(|checkpoint| {
        checkpoint.log_signature == signature
            && (oldest..=newest.next()).contains(&checkpoint.position.generation)
    });
    let start =
        checkpoint.as_ref().map_or(LogPosition::new(oldest.0, 1, 0), |checkpoint| checkpoint.position);
    let start = if start.generation > newest { LogPosition::new(newest.0, u16::MAX, 0) } else { start };
    let mut infos = UndoInfos::new();
    let mut window = ReplayWindow::new(memory);
    let mut rest = None;
    let tail = reader.read_from(start, |stored| {
        if stored.bytes.first() == Some(&kinds::UndoInfo)
            && let LogRecord::UndoInfo(info) = decode(&reader, &BufferedRecord::from(stored.clone()))?
        {
            infos.insert(info.node.rceid, info);
        }
        if rest.is_none() {
            rest = window.push(stored).err().map(|stored| stored.start);
        }
        Ok(())
    })?;
    reader.pin_tail(&tail)?;
    let retained_files = generations_needed(options.checkpoint_depth, LogStream::file_size_behind(&tail));
    let log = Arc::new(LogStream::resume(LogOptions { retained_files, ..log_options }, tail)?);
    start_log(core, log.clone(), listener);
    // Redo may log before-images behind it.
    let until = log.tail();
    let threads = match options.threads {
        true => jetcell_sync::thread::available_parallelism().map_or(1, NonZero::get).min(REDO_THREADS),
        false => 1,
    };
    // What the next windows will need is not given back before.
    let reserved = if rest.is_some() { grant.bytes() / 2 } else { 0 };
    let mut redo = Redo::new(core.clone(), reader.clone(), threads, infos, grant);
    redo.reserved = reserved;
    let begins = checkpoint.is_none().then_some(oldest);
    let mut attacher = Attacher::new(core, options, Stream { signature, begins, newest, until });
    match checkpoint.as_ref().and_then(|checkpoint| checkpoint.attachments()) {
        Some(Ok(list)) => attacher.attach_listed(&list, start)?,
        _ => {
            let list = Attachment::decode_list(&reader.header_of(start.generation)?.attachment_list);
            attacher.attach_listed(&list.unwrap_or_default(), start)?;
        }
    }
    // Where a shutdown or recovery ended cleanly, if nothing happened since.
    let mut clean_end = checkpoint.as_ref().map(|checkpoint| checkpoint.position);
    let mut apply = |redo: &mut Redo, window: ReplayWindow| {
        let ReplayWindow { records, payloads, .. } = window;
        for kept in records {
            let (start, record) = (kept.start, decode(&reader, &kept)?);
            clean_end = match &record {
                LogRecord::Term2(_) | LogRecord::RecoveryQuit2(_) => Some(start),
                LogRecord::Nop2(_) | LogRecord::Nop => clean_end,
                _ => None,
            };
            match &record {
                LogRecord::AttachDb(attach) => {
                    redo.run(&payloads)?;
                    attacher.attach(attach, start)?;
                }
                LogRecord::DetachDb(detach) => {
                    redo.run(&payloads)?;
                    attacher.detach(detach.database.0, start)?;
                }
                LogRecord::Term2(_) | LogRecord::RecoveryQuit2(_) => {
                    attacher.none_attached();
                    redo.record(kept, record, &payloads)?;
                }
                _ => redo.record(kept, record, &payloads)?,
            }
        }
        redo.run(&payloads)
    };
    apply(&mut redo, window)?;
    if let Some(rest) = rest {
        let memory = (memory / 2).max(LEAST_MEMORY.min(memory));
        let mut window = ReplayWindow::new(memory);
        reader.read_to_pinned_tail(rest, |stored| match window.push(stored) {
            Ok(()) => Ok(()),
            Err(stored) => {
                apply(&mut redo, std::mem::replace(&mut window, ReplayWindow::new(memory)))?;
                window.push(stored).map_err(|_| Error::Usage("a log record did not fit".to_string()))
            }
        })?;
        redo.reserved = 0;
        apply(&mut redo, window)?;
    }
    // Before anything is made to be rolled back: without all databases nothing may be.
    attacher.check_none_missed()?;
    summary.records = redo.records;
    summary.applied = redo.applied;
    summary.deferred = redo.deferred;
    summary.torn_pages = attacher.torn_pages;
    let leftovers = redo.finish()?;
    core.transactions.continue_from(leftovers.next_number);
    core.versions.ids_used(leftovers.newest_id);
    if let Some(clean_end) = clean_end.filter(|_| leftovers.unfinished.is_empty())
        && core.databases().is_empty()
    {
        // A crash may have come before the checkpoint was written; without it the log would ask for databases that
        // may be removed by now.
        if checkpoint.as_ref().is_none_or(|checkpoint| checkpoint.position < clean_end) {
            write_checkpoint(&checkpoint_file, clean_end, signature, &[])?;
        }
        return Ok(Opened { checkpoint_file, checkpoint: clean_end, signature, summary });
    }

    summary.ran = true;
    let redo_from = match &checkpoint {
        Some(checkpoint) if checkpoint.position <= until => checkpoint.position,
        // What is logged from now on may come before the end of what the file says, or the file may be of another log.
        _ => {
            let redo_from = start.min(until);
            write_checkpoint(&checkpoint_file, redo_from, signature, &core.attachments())?;
            redo_from
        }
    };
    let now = LogTime::from_unix_ms(options.vfs.clock().unix_ms());
    let (undo_from, _) = core.append(&[LogRecord::RecoveryUndo2(RecoveryUndo { time: now })])?;
    summary.rolled_back = leftovers.unfinished.len();
    for mut session in leftovers.unfinished {
        while session.level() > 0 {
            session.rollback()?;
        }
    }
    cleanup::clean_in_order(core)?;
    while !core.ended.is_empty() {
        log.flush(log.tail())?;
        cleanup::step(core, usize::MAX)?;
    }
    let databases = core.databases();
    summary.left_attached = databases.len();
    let quit = Termination { last: undo_from, redo_from, hard: 0, time: now };
    let record = match databases.is_empty() {
        true => LogRecord::RecoveryQuit2(quit),
        false => LogRecord::RecoveryQuitKeepAttachments(quit),
    };
    let (position, end) = core.append(&[record])?;
    log.flush(end)?;
    if databases.is_empty() {
        write_checkpoint(&checkpoint_file, position, signature, &[])?;
        return Ok(Opened { checkpoint_file, checkpoint: position, signature, summary });
    }
    Ok(Opened { checkpoint_file, checkpoint: redo_from, signature, summary })
}

/// Redo starts at `position`, with these databases attached.
fn write_checkpoint(
    file: &CheckpointFile,
    position: LogPosition,
    signature: Signature,
    attached: &[Attachment],
) -> Result<()> {
    let mut checkpoint = Checkpoint::new(position, signature);
    checkpoint.set_attachments(attached).map_err(|e| Error::Usage(format!("checkpoint: {e}")))?;
    file.write(&checkpoint)
}

fn decode(log: &LogReader, kept: &BufferedRecord) -> Result<LogRecord> {
    kept.record().map_err(|e| Error::Corrupt {
        path: log.directory().to_path_buf(),
        page: None,
        what: format!("log record at {:?}: {e}", kept.start),
    })
}

fn start_log(core: &Core, log: Arc<LogStream>, listener: Arc<dyn LogListener>) {
    log.set_listener(listener);
    core.open_log(log);
}
