//! One pass over the pages that a window of the log changes, in their order: each is read once and brought forward by all
//! its records. It leaves memory as in normal operation: without being written, if its edits are few enough to stay.
//!
//! In normal operation most pages with such edits had left memory when the crash came, and nobody waits for them now. So
//! where records alone say what they change, and the page need not tell anything about it, they are kept as edits of a
//! page that is away, and the page is not read: whoever fetches it brings it forward, and finds then if it is damaged.
//!
//! Where pages were written before they left, most of them had been before the crash. Of a large page the first block
//! tells that, which has a checksum of its own: the page is read only if a change is missing. While the pages of one
//! batch are changed, those of the next come in, and the first blocks of the one after.

use std::collections::BTreeMap;
use std::slice::Chunks;

use ese_format::checksum::{first_block_len, time_of_first_block};
use ese_format::log::record::LogRecord;
use ese_format::page::{Page, PageMut};
use ese_format::{DbTime, LogPosition};
use jetcell_sync::mpsc::{Receiver, channel};
use jetcell_sync::{Arc, Mutex};
use jetcell_vfs::{IoBuffer, IoReason, Transfer, TransferKind};

use super::page_redo::{PageRedo, apply, edit_of, edit_unseen, formats, has_needless_image, time_before};
use super::pending_before_images::{PendingBeforeImages, ReplayedVersion};
use super::{RedoRecord, corrupt_page};
use crate::cache::{DbTimeMismatch, MemoryGrant, PageDelta, PageKey, WriteLatch};
use crate::core::Core;
use crate::log::{LogReader, RecordReads};
use crate::recovery::replay_window::Payloads;
use crate::storage::DatabaseFile;
use crate::{Error, Result};

/// Pages of one batch.
const BATCH: usize = 256;
/// First blocks are looked at while so many of so many save a page: a look takes the device two thirds of the time of a
/// page of 32 KiB.
const WORTH_LOOKING: (u32, u32) = (2, 3);
/// Of so many batches one is looked at in any case: it may be different in another part of the file.
const SAMPLE: u32 = 16;

/// The changes of one page in the order of the log.
type Group<'t> = &'t [PageRedo];

pub(super) struct PageReplay<'a> {
    core: &'a Arc<Core>,
    steps: &'a [RedoRecord],
    payloads: &'a Payloads,
    log: &'a LogReader,
    /// Memory of the cache that goes back to it as payloads are used up, and how much of it stays.
    memory: (&'a MemoryGrant, usize),
    /// Pages changed and not written yet, that cannot go without.
    behind: Vec<PageKey>,
    /// Records of the batch that were read again.
    again: BTreeMap<LogPosition, Vec<u8>>,
    batches: u32,
    looked: u32,
    spared: u32,
    pub tally: ReplayOutcome,
}

/// What passes came to.
#[derive(Default)]
pub(super) struct ReplayOutcome {
    pub found: BTreeMap<u32, ReplayedVersion>,
    /// Changes that had to be made.
    pub applied: u64,
    /// Changes kept for pages that were not looked at.
    pub deferred: u64,
}

impl ReplayOutcome {
    fn add(&mut self, other: ReplayOutcome) {
        self.found.extend(other.found);
        self.applied += other.applied;
        self.deferred += other.deferred;
    }
}

impl<'a> PageReplay<'a> {
    pub fn new(
        core: &'a Arc<Core>,
        steps: &'a [RedoRecord],
        payloads: &'a Payloads,
        log: &'a LogReader,
        memory: (&'a MemoryGrant, usize),
    ) -> PageReplay<'a> {
        let (behind, again, tally) = (Vec::new(), BTreeMap::new(), ReplayOutcome::default());
        PageReplay {
            core,
            steps,
            payloads,
            log,
            memory,
            behind,
            again,
            batches: 0,
            looked: 0,
            spared: 0,
            tally,
        }
    }

    /// Brings all pages forward, with so many threads. `touches` are in the order of the pages, and of the log for each.
    pub fn run(&mut self, touches: &[PageRedo], threads: usize) -> Result<()> {
        let frames = self.core.cache.counters().frames as usize;
        let groups: Vec<Group<'_>> = touches.chunk_by(|a, b| a.key == b.key).collect();
        let batches = Mutex::new(groups.chunks((frames / 16 / threads).clamp(1, BATCH)));
        jetcell_sync::thread::scope(|scope| {
            let more: Vec<_> = (1..threads)
                .map(|_| {
                    let mut pass =
                        PageReplay::new(self.core, self.steps, self.payloads, self.log, self.memory);
                    let batches = &batches;
                    scope.spawn(move || pass.work(batches, frames / threads).map(|()| pass.tally))
                })
                .collect();
            let mut outcome = self.work(&batches, frames / threads);
            for pass in more {
                match pass.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)) {
                    Ok(tally) => self.tally.add(tally),
                    Err(error) => outcome = outcome.and(Err(error)),
                }
            }
            outcome
        })
    }

    /// Takes one batch after the other until none is left.
    fn work<'t>(&mut self, batches: &Mutex<Chunks<'t, Group<'t>>>, frames: usize) -> Result<()> {
        let next = || batches.lock().next();
        let mut look = next().map(|batch| self.look(batch));
        let mut ready = Coming::default();
        while let Some(looking) = look.take() {
            look = next().map(|batch| self.look(batch));
            let coming = self.lacking(looking)?;
            self.core.cache.preread(&coming.groups.iter().map(|group| group[0].key).collect::<Vec<_>>());
            self.change(std::mem::replace(&mut ready, coming), frames)?;
        }
        self.change(ready, frames)
    }

    fn change(&mut self, coming: Coming<'_>, frames: usize) -> Result<()> {
        self.again = coming.records.map(|reading| self.log.finish_record_reads(reading)).unwrap_or_default();
        for group in coming.unseen {
            self.keep(group)?;
        }
        for group in coming.groups {
            self.page(group, None)?;
        }
        self.core.cache.reserve_delta_memory();
        let (grant, reserved) = self.memory;
        grant.shrink(self.payloads.memory().max(reserved));
        if self.behind.len() >= (frames / 8).max(1) {
            self.core.cache.write_behind(&std::mem::take(&mut self.behind))?;
        }
        Ok(())
    }

    /// Starts reading the first blocks of those pages whose time is not known from memory.
    fn look<'t>(&mut self, groups: &'t [Group<'t>]) -> Looking<'t> {
        let (sender, blocks) = channel();
        let mut asked = 0;
        let (unseen, groups): (Vec<_>, Vec<_>) =
            groups.iter().copied().partition(|group| self.tells_nothing(group));
        let (of, all) = WORTH_LOOKING;
        let worth = self.spared.saturating_mul(all) >= self.looked.saturating_mul(of)
            || self.batches.is_multiple_of(SAMPLE);
        self.batches += 1;
        for of_file in groups.chunk_by(|a, b| a[0].key.file == b[0].key.file).filter(|_| worth) {
            let Some(database) = of_file.first().and_then(|group| self.core.file(group[0].key.file)) else {
                continue;
            };
            let Some(len) = first_block_len(database.page_size) else { continue };
            let transfers: Vec<Transfer> = of_file
                .iter()
                .filter(|group| !self.core.cache.contains(group[0].key))
                .map(|group| {
                    let (key, size, sender) = (group[0].key, database.page_size, sender.clone());
                    let done = move |result: std::io::Result<()>, block: IoBuffer| {
                        let time = result.ok().and_then(|()| time_of_first_block(&block, size, key.page));
                        // Nobody waits for it any more if that fails.
                        let _ = sender.send((key, time));
                    };
                    Transfer {
                        kind: TransferKind::Read,
                        offset: size.offset_of(key.page),
                        buffer: IoBuffer::zeroed(len),
                        reason: IoReason::Preread,
                        done: Box::new(done),
                    }
                })
                .collect();
            asked += transfers.len();
            database.file.submit(transfers);
        }
        Looking { unseen, groups, blocks, asked }
    }

    /// Whether records alone say all changes of the page, and nothing is to be learnt from it: not what a change has
    /// hidden that may be taken back, nor the key of a deleted node that cleanup has to remove.
    fn tells_nothing(&self, group: Group<'_>) -> bool {
        let mut deleted: Vec<usize> = Vec::new();
        let mut is_known = |touch: &PageRedo| {
            let (Some(step), Ok(record)) = (self.steps.get(touch.step as usize), self.decode(touch)) else {
                return false;
            };
            let committed = step.transaction.as_ref().is_some_and(|writer| writer.committed().is_some());
            let mut key = Vec::new();
            match edit_unseen(&record, touch.role, &mut key) {
                Some(PageDelta::Replace { .. }) => return committed,
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
        self.core.cache.buffers_changes() && group.iter().all(&mut is_known) && deleted.is_empty()
    }

    /// Those of the pages that lack a change, or may, and what has to be read for that again of the log.
    fn lacking<'t>(&mut self, looking: Looking<'t>) -> Result<Coming<'t>> {
        let times: BTreeMap<PageKey, _> = looking.blocks.iter().take(looking.asked).collect();
        let lacks = |group: &&Group<'t>| {
            let time = times.get(&group[0].key).copied().flatten();
            group.iter().any(|touch| time.is_none_or(|time| time < touch.after))
        };
        let Looking { unseen, groups: looked_at, .. } = looking;
        let groups: Vec<_> = looked_at.iter().filter(lacks).copied().collect();
        self.looked += looking.asked as u32;
        self.spared += (looked_at.len() - groups.len()) as u32;
        let mut records = Vec::new();
        for touch in unseen.iter().chain(&groups).copied().flatten() {
            let missing = times.get(&touch.key).copied().flatten().is_none_or(|time| time < touch.after);
            if missing
                && let Some(step) = self.steps.get(touch.step as usize)
                && self.payloads.lacks(&step.kept)
                && !has_needless_image(&self.decode(touch)?, touch.role)
            {
                records.push((step.kept.start, step.kept.end));
            }
        }
        let records = (!records.is_empty()).then(|| self.log.begin_record_reads(&records)).transpose()?;
        Ok(Coming { unseen, groups, records })
    }

    /// Keeps the changes of a page that tells nothing about them, or makes them if there is no room.
    fn keep(&mut self, touches: Group<'_>) -> Result<()> {
        let records: Vec<_> = touches.iter().map(|touch| self.record(touch)).collect::<Result<_>>()?;
        let mut edits = Vec::new();
        let mut say = |(touch, record): (&PageRedo, &LogRecord)| {
            let mut key = Vec::new();
            let before = time_before(record, touch.role).filter(|before| *before != DbTime(0))?;
            edit_unseen(record, touch.role, &mut key)?.encode_for_unread(before, touch.after, &mut edits)
        };
        let said = touches.iter().zip(&records).try_for_each(|change| say(change).ok_or(())).is_ok();
        let step = |touch: &PageRedo| self.steps.get(touch.step as usize);
        if let (true, [first, ..], [.., last]) = (said, touches, touches)
            && let (Some(from), Some(until)) = (step(first), step(last))
            && self.core.cache.buffer_change(first.key, from.needs_from..until.kept.end, &edits)
        {
            self.tally.deferred += touches.len() as u64;
            return Ok(());
        }
        self.page(touches, Some(records))
    }

    /// Makes the changes that the page lacks. `records` are those of the touches, if they have been taken apart already.
    fn page(&mut self, touches: Group<'_>, records: Option<Vec<LogRecord>>) -> Result<()> {
        let Some(first) = touches.first() else { return Ok(()) };
        let Some(database) = self.core.file(first.key.file) else { return Ok(()) };
        let size = database.page_size;
        let number = first.key.page;
        let pinned = match database.pin(number) {
            Ok(pinned) => pinned,
            // What an older page holds, or whether it can be read, is no matter if the page is built anew.
            Err(Error::Corrupt { .. }) if formats(&self.decode(first)?, first.role) => {
                database.pin_new(number)?
            }
            Err(error) => return Err(error),
        };
        let time = Page::new(&pinned.read(), size).db_time();
        // Without the latch: images may have to be read.
        let is_missing = |touch: &&PageRedo| touch.after > time;
        let missing: Vec<(&PageRedo, LogRecord)> = match records {
            Some(records) => touches.iter().zip(records).filter(|(touch, _)| is_missing(touch)).collect(),
            None => touches
                .iter()
                .filter(is_missing)
                .map(|touch| Ok((touch, self.record(touch)?)))
                .collect::<Result<_>>()?,
        };
        if missing.is_empty() {
            return Ok(());
        }
        let mut hanging = PendingBeforeImages::default();
        let mut latch = pinned.write();
        let made = missing
            .iter()
            .try_for_each(|(touch, record)| self.make(touch, record, &database, &mut latch, &mut hanging));
        if !self.core.cache.can_evict(latch.page()) {
            self.behind.push(first.key);
        }
        for (step, found) in hanging.hang(&database, &mut latch) {
            self.tally.found.insert(step, found);
        }
        made
    }

    /// Makes one change, if the page still needs it.
    fn make(
        &mut self,
        touch: &PageRedo,
        record: &LogRecord,
        database: &Arc<DatabaseFile>,
        latch: &mut WriteLatch,
        hanging: &mut PendingBeforeImages,
    ) -> Result<()> {
        let (size, number) = (database.page_size, touch.key.page);
        let Some(step) = self.steps.get(touch.step as usize) else { return Ok(()) };
        let time = Page::new(latch, size).db_time();
        if time >= touch.after {
            return Ok(());
        }
        if let Some(before) = time_before(record, touch.role).filter(|before| *before != time) {
            let what = format!(
                "{} (log record at {:?})",
                DbTimeMismatch { found: time, expected: before },
                step.kept.start
            );
            return Err(corrupt_page(database, number, &what));
        }
        if let Some(node) = record.node_change() {
            hanging.note(touch.step, record, node, step.transaction.as_ref(), &Page::new(latch, size));
        }
        let failed = |what: &str| {
            corrupt_page(database, number, &format!("{what} (log record at {:?})", step.kept.start))
        };
        let mut key = Vec::new();
        let edit = edit_of(record, touch.role, &Page::new(latch, size), step.undoes.as_ref(), &mut key);
        match edit.map_err(failed)? {
            Some(edit) => {
                edit.apply(&mut PageMut::new(latch, size)).map_err(failed)?;
                latch.mark_dirty_by_delta(step.needs_from);
                latch.record_delta(&edit, touch.after);
            }
            None => {
                apply(record, touch.role, number, latch, size).map_err(|what| failed(&what))?;
                PageMut::new(latch, size).set_db_time(touch.after);
                latch.mark_dirty(step.needs_from);
            }
        }
        latch.set_last(step.kept.end);
        self.tally.applied += 1;
        Ok(())
    }

    fn decode(&self, touch: &PageRedo) -> Result<LogRecord> {
        self.steps.get(touch.step as usize).map_or(Ok(LogRecord::Nop), |step| step.decode(self.log))
    }

    /// The record, with its payload unless that is an image that the change does not need.
    fn record(&self, touch: &PageRedo) -> Result<LogRecord> {
        let mut record = self.decode(touch)?;
        if !has_needless_image(&record, touch.role)
            && let Some(step) = self.steps.get(touch.step as usize)
        {
            self.payloads.restore(&step.kept, &mut record, self.log, &self.again)?;
        }
        Ok(record)
    }
}

/// First blocks on their way.
struct Looking<'t> {
    /// Of pages that are not looked at.
    unseen: Vec<Group<'t>>,
    groups: Vec<Group<'t>>,
    blocks: Receiver<(PageKey, Option<DbTime>)>,
    asked: usize,
}

/// Pages that may lack changes, and the records that must be read again to make them.
#[derive(Default)]
struct Coming<'t> {
    /// Of pages that are not looked at.
    unseen: Vec<Group<'t>>,
    groups: Vec<Group<'t>>,
    records: Option<RecordReads>,
}
