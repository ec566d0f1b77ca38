//! The phases of recovering one log: analysis, redo and undo.

use ese_format::attachment::Attachment;
use ese_format::checkpoint::Checkpoint;
use ese_format::log::record::{LogRecord, RecoveryUndo, Termination, kinds};
use ese_format::log::segment::RECORDS_AT;
use ese_format::{Generation, LogPosition, LogTime, Signature};
use jetcell_sync::Arc;

use super::attach::{Attacher, RecoveredLog};
use super::redo::{Redo, UndoInfos, UnfinishedTransactions};
use super::replay::Replay;
use super::replay_window::{BufferedRecord, ReplayWindow};
use super::{MIN_WINDOW_BYTES, OpenedLog, RecoverySummary, decode, redo_threads, start_log};
use crate::cache::MemoryGrant;
use crate::core::Core;
use crate::events::{EventKind, EventReporter};
use crate::log::{CheckpointFile, LogListener, LogReader, LogStream, LogStreamOptions, LogTail};
use crate::maintenance::checkpoint::generations_needed;
use crate::maintenance::cleanup;
use crate::options::InstanceOptions;
use crate::{InternalError, Result};

/// Recovers one log.
pub(super) struct LogRecovery<'a> {
    core: &'a Arc<Core>,
    options: &'a InstanceOptions,
    reader: Arc<LogReader>,
    checkpoint_file: CheckpointFile,
    /// Checkpoint, if its file belongs to this stream and its position is within the logs.
    checkpoint: Option<Checkpoint>,
    signature: Signature,
    oldest: Generation,
    newest: Generation,
    /// Position at which redo starts.
    start: LogPosition,
}

/// Results of analysis.
struct AnalysisResult {
    undo_infos: UndoInfos,
    /// Records from the start of redo, up to the memory limit.
    window: ReplayWindow,
    /// Start of the first record beyond the memory limit. Redo reads the log a second time from here.
    rest: Option<LogPosition>,
    tail: LogTail,
}

/// Results of redo.
struct RedoResult {
    unfinished: UnfinishedTransactions,
    /// Position of the record that marks a clean end of a shutdown or recovery, if it is the last relevant record.
    clean_end: Option<LogPosition>,
    summary: RecoverySummary,
}

impl<'a> LogRecovery<'a> {
    /// Reads the checkpoint and determines where redo starts.
    pub fn new(
        core: &'a Arc<Core>,
        options: &'a InstanceOptions,
        reader: Arc<LogReader>,
        checkpoint_file: CheckpointFile,
    ) -> Result<LogRecovery<'a>> {
        let (oldest, newest) = reader.range();
        let signature = reader.header_of(newest)?.signature;
        // A checkpoint that belongs to another stream or is outside the logs is ignored. The start of the next
        // generation is a valid position, even if that generation has not been entered yet.
        let end = LogPosition::new(newest.next().0, 1, RECORDS_AT as u16);
        let checkpoint = checkpoint_file.read()?.filter(|checkpoint| {
            checkpoint.log_signature == signature
                && checkpoint.position.generation >= oldest
                && checkpoint.position <= end
        });
        let start = match &checkpoint {
            Some(checkpoint) if checkpoint.attachments().is_some() => checkpoint.position,
            // The header of the checkpoint's generation lists the databases that were attached, so redo starts at
            // that header.
            Some(checkpoint) => LogPosition::new(checkpoint.position.generation.0, 1, 0),
            None => LogPosition::new(oldest.0, 1, 0),
        };
        let start = if start.generation > newest { LogPosition::new(newest.0, u16::MAX, 0) } else { start };
        Ok(LogRecovery {
            core,
            options,
            reader,
            checkpoint_file,
            checkpoint,
            signature,
            oldest,
            newest,
            start,
        })
    }

    /// Recovers the databases and opens the log.
    pub fn run(
        self,
        log_options: LogStreamOptions,
        listener: Arc<dyn LogListener>,
        grant: MemoryGrant,
        memory: usize,
    ) -> Result<OpenedLog> {
        let analysis = self.analyze(memory)?;
        // If the log ended cleanly, there is nothing to replay, and no event is reported.
        let is_change = |buffered: &BufferedRecord| {
            !matches!(
                buffered.record(),
                Ok(LogRecord::Nop | LogRecord::Nop2(_) | LogRecord::Term2(_) | LogRecord::RecoveryQuit2(_))
            )
        };
        let events = if analysis.window.records.iter().any(is_change) {
            self.core.events.clone()
        } else {
            EventReporter::discarding()
        };
        let (first, last) = (self.start.generation, self.newest);
        events.report(EventKind::RecoveryStarted { first, last });
        let log = self.resume(log_options, &analysis.tail, listener)?;
        // Redo may append before-images after this position.
        let end_of_log = log.tail();
        let redone = self.redo(analysis, grant, memory, end_of_log, &events)?;
        self.core.transactions.continue_from(redone.unfinished.next_number);
        self.core.versions.continue_ids_after(redone.unfinished.newest_id);
        let opened = match redone.clean_end {
            Some(clean_end)
                if redone.unfinished.transactions.is_empty() && self.core.databases().is_empty() =>
            {
                self.finish_clean(clean_end, redone.summary)
            }
            _ => self.finish_dirty(redone, &log, end_of_log),
        }?;
        let RecoverySummary { records, applied, rolled_back, torn_pages, .. } = opened.summary;
        let (rolled_back, torn_pages) = (rolled_back as u64, torn_pages as u64);
        events.report(EventKind::RecoveryCompleted { records, applied, rolled_back, torn_pages });
        Ok(opened)
    }

    /// Reads the log once before redo. Redo may append to the log, so its end must be known first. A record may also
    /// need a before-image that comes later in the log, so before-images are collected first.
    fn analyze(&self, memory: usize) -> Result<AnalysisResult> {
        let mut undo_infos = UndoInfos::new();
        let mut window = ReplayWindow::new(memory);
        let mut rest = None;
        let tail = self.reader.read_from(self.start, |stored| {
            if stored.bytes.first() == Some(&kinds::UndoInfo)
                && let LogRecord::UndoInfo(info) =
                    decode(&self.reader, &BufferedRecord::from(stored.clone()))?
            {
                undo_infos.insert(info.node.rceid, info);
            }
            if rest.is_none() {
                rest = window.push(stored).err().map(|stored| stored.start);
            }
            Ok(())
        })?;
        Ok(AnalysisResult { undo_infos, window, rest, tail })
    }

    /// Opens the log for appending after its tail.
    fn resume(
        &self,
        log_options: LogStreamOptions,
        tail: &LogTail,
        listener: Arc<dyn LogListener>,
    ) -> Result<Arc<LogStream>> {
        self.reader.pin_tail(tail)?;
        let file_size = LogStream::existing_file_size(tail);
        let retained_files = generations_needed(self.options.checkpoint.depth, file_size)
            + self.options.log.waypoint_latency as usize;
        let log =
            Arc::new(LogStream::resume(LogStreamOptions { retained_files, ..log_options }, tail.clone())?);
        start_log(self.core, log.clone(), listener);
        Ok(log)
    }

    /// Redoes the changes that pages lack.
    fn redo(
        &self,
        analysis: AnalysisResult,
        grant: MemoryGrant,
        memory: usize,
        end_of_log: LogPosition,
        events: &EventReporter,
    ) -> Result<RedoResult> {
        let AnalysisResult { undo_infos, window, rest, .. } = analysis;
        let threads = redo_threads(self.options);
        // If more windows follow, redo keeps half of the granted cache memory for them.
        let reserved = if rest.is_some() { grant.bytes() / 2 } else { 0 };
        let mut redo = Redo::new(self.core.clone(), self.reader.clone(), threads, undo_infos, grant);
        redo.reserved = reserved;
        let clean_end = self.checkpoint.as_ref().map(|checkpoint| checkpoint.position);
        let attacher = self.attach_listed(end_of_log)?;
        let mut replay = Replay::new(self.reader.clone(), redo, attacher, clean_end, events.clone());
        replay.replay(window)?;
        if let Some(rest) = rest {
            let memory = (memory / 2).max(MIN_WINDOW_BYTES.min(memory));
            let mut window = ReplayWindow::new(memory);
            self.reader.read_to_pinned_tail(rest, |stored| match window.push(stored) {
                Ok(()) => Ok(()),
                Err(stored) => {
                    replay.replay(std::mem::replace(&mut window, ReplayWindow::new(memory)))?;
                    window.push(stored).map_err(|_| InternalError::ReplayWindow.into())
                }
            })?;
            replay.redo.reserved = 0;
            replay.replay(window)?;
        }
        replay.report_last();
        replay.redo.check_readable()?;
        let Replay { redo, attacher, clean_end, .. } = replay;
        if let Some((first, last)) = attacher.lost {
            self.core.events.report(EventKind::CommittedLogsLost { first, last });
        }
        // This check must precede undo, which needs all databases.
        attacher.check_no_missing_databases()?;
        let summary = RecoverySummary {
            records: redo.records,
            applied: redo.applied,
            deferred: redo.deferred,
            torn_pages: attacher.torn_pages,
            lost_generations: attacher.lost,
            ..RecoverySummary::default()
        };
        Ok(RedoResult { unfinished: redo.finish()?, clean_end, summary })
    }

    /// Attaches the databases that were attached at the position where redo starts.
    fn attach_listed(&self, end_of_log: LogPosition) -> Result<Attacher> {
        let log = RecoveredLog {
            signature: self.signature,
            oldest_without_checkpoint: self.checkpoint.is_none().then_some(self.oldest),
            newest: self.newest,
            end: end_of_log,
            received: false,
        };
        let mut attacher = Attacher::new(self.core, self.options, log);
        #[allow(
            clippy::redundant_closure_for_method_calls,
            reason = "the method has no type that fits all lifetimes"
        )]
        let list = match self.checkpoint.as_ref().and_then(|checkpoint| checkpoint.attachments()) {
            Some(Ok(list)) => list,
            _ => {
                let header = self.reader.header_of(self.start.generation)?;
                Attachment::decode_list(&header.attachment_list).unwrap_or_default()
            }
        };
        attacher.attach_listed(&list, self.start)?;
        Ok(attacher)
    }

    /// Opens the log if no database is attached and no changes were made after the log ended cleanly at `clean_end`.
    fn finish_clean(self, clean_end: LogPosition, summary: RecoverySummary) -> Result<OpenedLog> {
        // A crash may have interrupted the shutdown before it wrote the checkpoint. Without a new checkpoint, the
        // next recovery would require databases that may have been removed by then.
        if self.checkpoint.as_ref().is_none_or(|checkpoint| checkpoint.position < clean_end) {
            self.write_checkpoint(clean_end, &[])?;
        }
        Ok(self.opened(clean_end, summary))
    }

    /// Performs undo, and logs the record that ends recovery.
    fn finish_dirty(self, redone: RedoResult, log: &LogStream, end_of_log: LogPosition) -> Result<OpenedLog> {
        let RedoResult { unfinished, mut summary, .. } = redone;
        summary.ran = true;
        let redo_from = self.checkpoint_for_undo(end_of_log)?;
        let now = LogTime::from_unix_ms(self.options.vfs.clock().unix_ms());
        let (undo_from, _) = self.core.append(&[LogRecord::RecoveryUndo2(RecoveryUndo { time: now })])?;
        summary.rolled_back = unfinished.transactions.len();
        self.undo(unfinished, log)?;
        let databases = self.core.databases();
        summary.left_attached = databases.len();
        let quit = Termination { last: undo_from, redo_from, hard: 0, time: now };
        let record = if databases.is_empty() {
            LogRecord::RecoveryQuit2(quit)
        } else {
            LogRecord::RecoveryQuitKeepAttachments(quit)
        };
        let (position, end) = self.core.append(&[record])?;
        log.flush(end)?;
        if databases.is_empty() {
            self.write_checkpoint(position, &[])?;
            return Ok(self.opened(position, summary));
        }
        if self.options.log.waypoint_latency > 0 {
            // If the generations that contain the cleanup are lost, recovery must read the deletions again.
            self.core.ended.retain_pin(self.core.pins.pin(redo_from), end);
        }
        Ok(self.opened(redo_from, summary))
    }

    /// Returns the checkpoint that is valid while undo appends to the log. Writes a checkpoint if the file has no
    /// valid one.
    fn checkpoint_for_undo(&self, end_of_log: LogPosition) -> Result<LogPosition> {
        match &self.checkpoint {
            Some(checkpoint) if checkpoint.position <= end_of_log => Ok(checkpoint.position),
            // The file may belong to another log, or its position may be after the end of this log. In the latter
            // case, records appended from now on would precede the checkpoint.
            _ => {
                let redo_from = self.start.min(end_of_log);
                self.write_checkpoint(redo_from, &self.core.attachments())?;
                Ok(redo_from)
            }
        }
    }

    /// Rolls back unfinished transactions and removes deleted nodes.
    fn undo(&self, unfinished: UnfinishedTransactions, log: &LogStream) -> Result<()> {
        for mut transaction in unfinished.transactions {
            while transaction.level() > 0 {
                transaction.rollback()?;
            }
        }
        cleanup::clean_in_order(self.core)?;
        let latency = self.options.log.waypoint_latency;
        while !self.core.ended.is_cleaned() || latency == 0 && !self.core.ended.is_empty() {
            log.flush(log.tail())?;
            cleanup::step(self.core, usize::MAX)?;
        }
        Ok(())
    }

    /// Writes a checkpoint at `position`, listing these attached databases.
    fn write_checkpoint(&self, position: LogPosition, attached: &[Attachment]) -> Result<()> {
        let mut checkpoint = Checkpoint::new(position, self.signature);
        checkpoint.set_attachments(attached).map_err(InternalError::from)?;
        self.checkpoint_file.write(&checkpoint)
    }

    fn opened(self, checkpoint: LogPosition, summary: RecoverySummary) -> OpenedLog {
        let LogRecovery { checkpoint_file, signature, .. } = self;
        OpenedLog { checkpoint_file, checkpoint, signature, summary }
    }
}
