//! Replays a window's changes page by page: reads each page once and makes all changes that it lacks. Afterwards the
//! page is dirty, as in normal operation, and may be evicted without being written if it has few deltas.
//!
//! Before the crash, many changed pages had been evicted with their deltas, and are not needed now. If the records
//! alone determine all changes to a page, and redo needs no information from the page, redo does not read it. The
//! cache stores the changes as deltas of an evicted page. When the page is read later, the changes are applied, and
//! damage is detected.
//!
//! While redo changes the pages of one batch, the pages of the next batch are being read.

mod copy_pages;

use std::collections::{BTreeMap, BTreeSet};
use std::slice::Chunks;

use ese_format::log::record::LogRecord;
use ese_format::page::{Page, PageFlags, PageMut};
use ese_format::{DbTime, LogPosition};
use jetcell_sync::{Arc, Mutex};

use super::RedoRecord;
use super::comparison::ReceivedImages;
use super::copy_tasks::CopyOutcome;
use super::page_redo::{
    PageRedo, PageRole, apply, delta_from_record, delta_of, formats, has_needless_image, required_time,
};
use super::pending_before_images::{PendingBeforeImages, RecoveredVersion};
use crate::bulk::is_link;
use crate::cache::{MemoryGrant, PageDelta, PageKey, WriteLatch};
use crate::core::Core;
use crate::error::PageTimeMismatch;
use crate::log::{LogReader, RecordReads};
use crate::recovery::replay_window::Payloads;
use crate::storage::DatabaseFile;
use crate::{Corruption, Error, Result};

/// Maximum number of pages in a batch.
const BATCH_PAGES: usize = 256;

/// Changes to one page, in log order.
type PageChanges<'p> = &'p [PageRedo];

/// Replays the pages of one window in one thread.
pub(super) struct PageReplay<'a> {
    core: &'a Arc<Core>,
    records: &'a [RedoRecord],
    payloads: &'a Payloads,
    log: &'a LogReader,
    /// Cache memory that redo returns as it consumes payloads, and the number of bytes that redo keeps.
    memory: (&'a MemoryGrant, usize),
    /// Page images for a copy, by the position of the record that describes the same state.
    images: Option<&'a ReceivedImages>,
    /// Changed pages that cannot be evicted without being written.
    must_be_written: Vec<PageKey>,
    /// Records of the batch that were reread from the log.
    reread: BTreeMap<LogPosition, Vec<u8>>,
    pub outcome: ReplayOutcome,
}

/// Results of replaying a window.
#[derive(Default)]
pub(super) struct ReplayOutcome {
    /// Information about versioned changes that redo found on pages, by the index of the record in the window.
    pub recovered: BTreeMap<u32, RecoveredVersion>,
    /// Number of changes made.
    pub applied: u64,
    /// Number of changes left in memory for pages that were not read.
    pub deferred: u64,
    /// Pages that could not be read, with the error and the first record whose change they lack.
    pub unreadable: BTreeMap<PageKey, (Error, LogPosition)>,
    /// Pages that could not be read but were then formatted completely or replaced by an image.
    pub built: BTreeSet<PageKey>,
    /// Results of redo on a copy.
    pub copy: CopyOutcome,
}

impl ReplayOutcome {
    fn add(&mut self, other: ReplayOutcome) {
        self.recovered.extend(other.recovered);
        self.applied += other.applied;
        self.deferred += other.deferred;
        self.unreadable.extend(other.unreadable);
        self.built.extend(other.built);
        self.copy.add(other.copy);
    }
}

/// A batch of pages, and the reads in flight for it.
#[derive(Default)]
struct ReplayBatch<'p> {
    /// Changes to pages that need not be read.
    unread: Vec<PageChanges<'p>>,
    /// Changes to pages that must be read.
    read: Vec<PageChanges<'p>>,
    /// Reads of records whose payloads are no longer in memory.
    records: Option<RecordReads>,
}

impl<'a> PageReplay<'a> {
    pub fn new(
        core: &'a Arc<Core>,
        records: &'a [RedoRecord],
        payloads: &'a Payloads,
        log: &'a LogReader,
        memory: (&'a MemoryGrant, usize),
        images: Option<&'a ReceivedImages>,
    ) -> PageReplay<'a> {
        let (must_be_written, reread, outcome) = (Vec::new(), BTreeMap::new(), ReplayOutcome::default());
        PageReplay { core, records, payloads, log, memory, images, must_be_written, reread, outcome }
    }

    /// Replays all pages using the given number of threads. `pages` must be sorted by page, and the changes to each
    /// page must be in log order.
    pub fn run(&mut self, pages: &[PageRedo], threads: usize) -> Result<()> {
        let frames = self.core.cache.counters().frames as usize;
        let changes: Vec<PageChanges<'_>> = pages.chunk_by(|a, b| a.key == b.key).collect();
        let batches = Mutex::new(changes.chunks((frames / 16 / threads).clamp(1, BATCH_PAGES)));
        jetcell_sync::thread::scope(|scope| {
            let others: Vec<_> = (1..threads)
                .map(|_| {
                    let mut replay = PageReplay::new(
                        self.core,
                        self.records,
                        self.payloads,
                        self.log,
                        self.memory,
                        self.images,
                    );
                    let batches = &batches;
                    scope.spawn(move || {
                        replay.replay_batches(batches, frames / threads).map(|()| replay.outcome)
                    })
                })
                .collect();
            let mut result = self.replay_batches(&batches, frames / threads);
            for other in others {
                match other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)) {
                    Ok(outcome) => self.outcome.add(outcome),
                    Err(error) => result = result.and(Err(error)),
                }
            }
            result
        })
    }

    /// Replays batches until none is left.
    fn replay_batches<'p>(
        &mut self,
        batches: &Mutex<Chunks<'p, PageChanges<'p>>>,
        frames: usize,
    ) -> Result<()> {
        let next = || batches.lock().next();
        let mut current = ReplayBatch::default();
        while let Some(changes) = next() {
            let following = self.begin_reads(changes)?;
            self.replay(std::mem::replace(&mut current, following), frames)?;
        }
        self.replay(current, frames)
    }

    /// Starts to read the pages of a batch, and to reread the records that it needs.
    fn begin_reads<'p>(&self, changes: &'p [PageChanges<'p>]) -> Result<ReplayBatch<'p>> {
        let (unread, read): (Vec<_>, Vec<_>) =
            changes.iter().copied().partition(|changes| self.needs_no_read(changes));
        let mut dropped = Vec::new();
        for change in unread.iter().chain(&read).copied().flatten() {
            if let Some(record) = self.records.get(change.record_index as usize)
                && self.payloads.has_dropped_payload(&record.buffered)
                && !has_needless_image(&self.decode(change)?, change.role)
            {
                dropped.push((record.buffered.start, record.buffered.end));
            }
        }
        let records = (!dropped.is_empty()).then(|| self.log.begin_record_reads(&dropped)).transpose()?;
        self.core.cache.preread(&read.iter().map(|changes| changes[0].key).collect::<Vec<_>>());
        Ok(ReplayBatch { unread, read, records })
    }

    /// Returns whether the records alone determine all changes to the page and redo needs no information from the
    /// page. Such information is a before-image that undo may need, or the key of a deleted node that cleanup has to
    /// remove.
    fn needs_no_read(&self, changes: PageChanges<'_>) -> bool {
        let mut deleted: Vec<usize> = Vec::new();
        let mut is_determined = |change: &PageRedo| {
            let (Some(record), Ok(decoded)) =
                (self.records.get(change.record_index as usize), self.decode(change))
            else {
                return false;
            };
            let committed =
                record.transaction.as_ref().is_some_and(|transaction| transaction.committed().is_some());
            let mut key = Vec::new();
            match delta_from_record(&decoded, change.role, &mut key) {
                Some(PageDelta::Replace { .. } | PageDelta::ReplaceData { .. }) => return committed,
                Some(PageDelta::SetFlags { line, .. }) => deleted.push(line),
                Some(PageDelta::Insert { line, .. }) => {
                    deleted.iter_mut().filter(|at| **at >= line).for_each(|at| *at += 1);
                }
                Some(PageDelta::Delete { line, end }) => {
                    deleted.retain(|at| !(line..end).contains(at));
                    deleted.iter_mut().filter(|at| **at >= end).for_each(|at| *at -= end - line);
                }
                Some(PageDelta::Cut { line, .. }) => return deleted.iter().all(|at| *at < line),
                Some(PageDelta::SetPrev(_)) => {}
                None => return false,
            }
            true
        };
        self.core.cache.buffers_changes() && changes.iter().all(&mut is_determined) && deleted.is_empty()
    }

    fn replay(&mut self, batch: ReplayBatch<'_>, frames: usize) -> Result<()> {
        self.reread = batch.records.map(|reads| self.log.finish_record_reads(reads)).unwrap_or_default();
        for changes in batch.unread {
            self.defer(changes)?;
        }
        for changes in batch.read {
            self.change_page(changes, None)?;
        }
        self.core.cache.reserve_delta_memory();
        let (grant, reserved) = self.memory;
        grant.shrink(self.payloads.memory().max(reserved));
        if self.must_be_written.len() >= (frames / 8).max(1) {
            self.core.cache.write_behind(&std::mem::take(&mut self.must_be_written))?;
        }
        Ok(())
    }

    /// Leaves a page unread, and passes the changes to the cache instead. If the cache has no space for them, makes the
    /// changes on the page.
    fn defer(&mut self, changes: PageChanges<'_>) -> Result<()> {
        let records: Vec<_> = changes.iter().map(|change| self.record(change)).collect::<Result<_>>()?;
        let (mut deltas, mut reached) = (Vec::new(), None);
        let mut encode = |(change, record): (&PageRedo, &LogRecord)| {
            let mut key = Vec::new();
            let in_macro = reached.replace(change.after) == Some(change.after);
            let before = if in_macro {
                change.after
            } else {
                required_time(record, change.role).filter(|before| *before != DbTime(0))?
            };
            delta_from_record(record, change.role, &mut key)?.encode_for_unread(
                before,
                change.after,
                &mut deltas,
            )
        };
        let encoded = changes.iter().zip(&records).try_for_each(|change| encode(change).ok_or(())).is_ok();
        let redo_record = |change: &PageRedo| self.records.get(change.record_index as usize);
        if let (true, [first, ..], [.., last]) = (encoded, changes, changes)
            && let (Some(from), Some(until)) = (redo_record(first), redo_record(last))
            && self.core.cache.buffer_change(first.key, from.needs_from..until.needs_until, &deltas)
        {
            self.outcome.deferred += changes.len() as u64;
            return Ok(());
        }
        self.change_page(changes, Some(records))
    }

    /// Makes the changes that the page lacks. `records` contains the changes' records if they are already decoded.
    fn change_page(&mut self, changes: PageChanges<'_>, records: Option<Vec<LogRecord>>) -> Result<()> {
        let Some(first) = changes.iter().find(|change| change.role.changes_page()) else {
            return self.check_unchanged_page(changes);
        };
        let Some(database) = self.core.file(first.key.file) else { return Ok(()) };
        if let Some(at) = self.install_image(changes, &database)? {
            // The image contains the effects of the earlier records.
            return self.change_page(&changes[at + 1..], None);
        }
        let size = database.page_size;
        let number = first.key.page;
        let fetched = self.core.cache.fetch_tentatively(first.key).and_then(|pinned| {
            let removed = Page::new(&pinned.read(), size).db_time() == DbTime::SHRUNK;
            if removed && !formats(&self.decode(first)?, first.role) {
                return Err(database.corrupt(number, Corruption::RemovedPage));
            }
            Ok(pinned)
        });
        let pinned = match fetched {
            Ok(pinned) => pinned,
            // If the record formats the page completely, the old page need not be readable.
            Err(Error::Corrupt { .. }) if formats(&self.decode(first)?, first.role) => {
                self.outcome.built.insert(first.key);
                database.pin_new(number)?
            }
            // A later record may have returned the page to the file system. Otherwise, redo fails at its end.
            Err(Error::Corrupt { path, page, mut fault }) => {
                let of_load = is_link(&self.decode(first)?);
                if of_load {
                    fault = Corruption::BulkLoad(Box::new(fault));
                }
                let error = Error::Corrupt { path, page, fault };
                if of_load && !self.may_lack_link(first, &database) {
                    return Err(error);
                }
                self.record_missing_changes(changes, first, error);
                return Ok(());
            }
            Err(error @ Error::Io { .. }) if self.images.is_some() => {
                self.record_missing_changes(changes, first, error);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let time = Page::new(&pinned.read(), size).db_time();
        self.check_not_ahead(changes, time, &database)?;
        // The latch is released here because records may have to be read.
        let is_missing = |change: &&PageRedo| change.is_missing(time);
        let missing: Vec<(&PageRedo, LogRecord)> = match records {
            Some(records) => changes.iter().zip(records).filter(|(change, _)| is_missing(change)).collect(),
            None => changes
                .iter()
                .filter(is_missing)
                .map(|change| Ok((change, self.record(change)?)))
                .collect::<Result<_>>()?,
        };
        if missing.is_empty() {
            return Ok(());
        }
        let mut before_images = PendingBeforeImages::default();
        let mut latch = pinned.write();
        let result = missing.iter().try_for_each(|(change, record)| {
            if change.role.changes_page() {
                self.apply(change, record, &database, &mut latch, &mut before_images)
                    .map_err(|error| (**change, error))
            } else {
                self.compare_or_capture(change, record, &database, &latch);
                Ok(())
            }
        });
        let result = match result {
            Err((change, error @ Error::PageTime { fault: PageTimeMismatch::Older { .. }, .. }))
                if self.images.is_some()
                    && (!is_link(&self.decode(&change)?) || self.may_lack_link(&change, &database)) =>
            {
                self.record_missing_changes(&[], &change, error);
                Ok(())
            }
            result => result.map_err(|(_, error)| error),
        };
        if !self.core.cache.can_evict(latch.page()) {
            self.must_be_written.push(first.key);
        }
        self.outcome.recovered.extend(before_images.defer(&database, &mut latch));
        result
    }

    /// Returns an error if the page has a change from a generation that the database header does not name.
    fn check_not_ahead(&self, changes: PageChanges<'_>, time: DbTime, database: &DatabaseFile) -> Result<()> {
        let position = |change: &PageRedo| {
            self.records.get(change.record_index as usize).map(|record| record.buffered.start)
        };
        let ahead = changes.iter().filter(|change| !change.is_missing(time)).find_map(|change| {
            position(change).filter(|position| position.generation > database.newest_applied())
        });
        let (Some(position), Some(first)) = (ahead, changes.first()) else { return Ok(()) };
        Err(Error::PageTime {
            path: database.path.clone(),
            page: first.key.page,
            position,
            fault: PageTimeMismatch::BeyondHeader { found: time },
            bulk_load: false,
        })
    }

    /// Makes one change that the page lacks.
    fn apply(
        &mut self,
        change: &PageRedo,
        record: &LogRecord,
        database: &Arc<DatabaseFile>,
        latch: &mut WriteLatch,
        before_images: &mut PendingBeforeImages,
    ) -> Result<()> {
        let (size, number, index) = (database.page_size, change.key.page, change.record_index);
        let Some(redo_record) = self.records.get(index as usize) else { return Ok(()) };
        let time = Page::new(latch, size).db_time();
        let start = redo_record.buffered.start;
        let corrupt = |fault: Corruption| {
            database.corrupt(number, Corruption::Redo { position: start, fault: Box::new(fault) })
        };
        // If the page's time equals the time after the change, it already contains earlier changes of the same macro.
        let expected = required_time(record, change.role).filter(|_| time != change.after);
        if let Some(before) = expected.filter(|before| *before != time) {
            let (path, bulk_load) = (database.path.clone(), is_link(record));
            let fault = PageTimeMismatch::new(time, before);
            return Err(Error::PageTime { path, page: number, position: start, fault, bulk_load });
        }
        if let Some(node) = record.node_change() {
            let transaction = redo_record.transaction.as_ref();
            before_images.save(index, record, node, transaction, &Page::new(latch, size));
        }
        let mut key = Vec::new();
        let undoes = redo_record.undoes.as_ref();
        let delta = delta_of(record, change.role, &Page::new(latch, size), undoes, &mut key);
        match delta.map_err(|misfit| corrupt(misfit.into()))? {
            Some(delta) => {
                let applied = delta.apply(&mut PageMut::new(latch, size));
                applied.map_err(|misfit| corrupt(misfit.into()))?;
                latch.mark_dirty_by_delta(redo_record.needs_from);
                latch.record_delta(&delta, change.after);
            }
            None => {
                let key = redo_record.key.as_deref();
                apply(record, change.role, number, latch, size, key).map_err(corrupt)?;
                if !matches!(record, LogRecord::Scrub(_)) {
                    let flags = Page::new(latch, size).flags() - PageFlags::SCRUBBED;
                    PageMut::new(latch, size).set_flags(flags);
                }
                PageMut::new(latch, size).set_db_time(change.after);
                latch.mark_dirty(redo_record.needs_from);
            }
        }
        latch.set_last(redo_record.needs_until);
        self.outcome.applied += 1;
        Ok(())
    }

    /// Decodes the record of a change. If a page was split for the change, the result names the page and line on
    /// which the change is made.
    fn decode(&self, change: &PageRedo) -> Result<LogRecord> {
        let Some(record) = self.records.get(change.record_index as usize) else { return Ok(LogRecord::Nop) };
        let mut record = record.decode(self.log)?;
        if let (PageRole::Operation(line), Some(named)) = (change.role, record.page_change_mut()) {
            (named.page, named.line) = (change.key.page, line);
        }
        Ok(record)
    }

    /// Returns a change's record with its payload. The payload is omitted if it is an image that the change does not
    /// need.
    fn record(&self, change: &PageRedo) -> Result<LogRecord> {
        let mut record = self.decode(change)?;
        if !has_needless_image(&record, change.role)
            && let Some(redo_record) = self.records.get(change.record_index as usize)
        {
            self.payloads.restore(&redo_record.buffered, &mut record, self.log, &self.reread)?;
        }
        Ok(record)
    }
}
