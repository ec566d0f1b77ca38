//! One pass over the pages that a window of the log changes, in their order: each is read once and brought forward by all
//! its records. It leaves memory as in normal operation: without being written, if its edits are few enough to stay.
//!
//! Where pages were written before they left, most of them had been before the crash. Of a large page the first block
//! tells that, which has a checksum of its own: the page is read only if a change is missing. While the pages of one
//! batch are changed, those of the next come in, and the first blocks of the one after.

use std::collections::BTreeMap;
use std::slice::Chunks;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, channel};

use ese_format::checksum::{first_block_len, time_of_first_block};
use ese_format::log::record::{LogRecord, NodeChange, PageChangeFlags};
use ese_format::page::{Page, PageFlags, PageMut};
use ese_format::{DbTime, LogPosition};
use parking_lot::Mutex;
use vfs::{IoBuffer, IoReason, Transfer, TransferKind};

use super::touch::{Touch, apply, edit_of, formats, has_needless_image, time_before, versioned};
use super::{Step, misfit};
use crate::btree::before_image::DeferredBeforeImage;
use crate::btree::group::Shape;
use crate::cache::{Lent, PageKey, WriteLatch};
use crate::core::Core;
use crate::database::Database;
use crate::log::{LogReader, Rereading};
use crate::recovery::stretch::Payloads;
use crate::versions::{Change, Transaction, Version};
use crate::{Error, Result};

/// Pages of one batch.
const BATCH: usize = 256;
/// First blocks are looked at while at least one of so many saves a page.
const WORTH_LOOKING: u32 = 4;

/// What a page told about a versioned change when it was made.
pub(super) struct Found {
    pub key: Vec<u8>,
    pub key_len: usize,
    pub change: Change,
    /// Hangs on the page until its before-image is logged or it is settled.
    pub version: Option<Arc<Version>>,
    /// The node was removed later on.
    pub gone: bool,
}

/// The changes of one page in the order of the log.
type Group<'t> = &'t [Touch];

pub(super) struct Pass<'a> {
    core: &'a Arc<Core>,
    steps: &'a [Step],
    payloads: &'a Payloads,
    log: &'a LogReader,
    /// Memory of the cache that goes back to it as payloads are used up, and how much of it stays.
    memory: (&'a Lent, usize),
    /// Pages changed and not written yet, that cannot go without.
    behind: Vec<PageKey>,
    /// Records of the batch that were read again.
    again: BTreeMap<LogPosition, Vec<u8>>,
    looked: u32,
    spared: u32,
    pub found: BTreeMap<u32, Found>,
    /// Changes that had to be made.
    pub applied: u64,
}

impl<'a> Pass<'a> {
    pub fn new(
        core: &'a Arc<Core>,
        steps: &'a [Step],
        payloads: &'a Payloads,
        log: &'a LogReader,
        memory: (&'a Lent, usize),
    ) -> Pass<'a> {
        let (behind, again, found) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
        Pass { core, steps, payloads, log, memory, behind, again, looked: 0, spared: 0, found, applied: 0 }
    }

    /// Brings all pages forward, with so many threads. `touches` are in the order of the pages, and of the log for each.
    pub fn run(&mut self, touches: &[Touch], threads: usize) -> Result<()> {
        let frames = self.core.cache.counters().frames as usize;
        let groups: Vec<Group<'_>> = touches.chunk_by(|a, b| a.key == b.key).collect();
        let batches = Mutex::new(groups.chunks((frames / 16 / threads).clamp(1, BATCH)));
        std::thread::scope(|scope| {
            let more: Vec<_> = (1..threads)
                .map(|_| {
                    let mut pass = Pass::new(self.core, self.steps, self.payloads, self.log, self.memory);
                    let batches = &batches;
                    scope.spawn(move || {
                        pass.work(batches, frames / threads).map(|()| (pass.found, pass.applied))
                    })
                })
                .collect();
            let mut outcome = self.work(&batches, frames / threads);
            for pass in more {
                match pass.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)) {
                    Ok((found, applied)) => {
                        self.found.extend(found);
                        self.applied += applied;
                    }
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
        self.again = coming.records.map(|reading| self.log.finish_again(reading)).unwrap_or_default();
        for group in coming.groups {
            self.page(group)?;
        }
        self.core.cache.make_room_for_edits();
        let (lent, reserved) = self.memory;
        lent.shrink(self.payloads.memory().max(reserved));
        if self.behind.len() >= (frames / 8).max(1) {
            self.core.cache.write_behind(&std::mem::take(&mut self.behind))?;
        }
        Ok(())
    }

    /// Starts reading the first blocks of those pages whose time is not known from memory.
    fn look<'t>(&mut self, groups: &'t [Group<'t>]) -> Looking<'t> {
        let (sender, blocks) = channel();
        let mut asked = 0;
        // Now and then in any case: it may be different in another part of the file.
        let worth =
            self.spared.saturating_mul(WORTH_LOOKING) >= self.looked || self.looked.is_multiple_of(16);
        self.looked += u32::from(!worth);
        for of_file in groups.chunk_by(|a, b| a[0].key.file == b[0].key.file).filter(|_| worth) {
            let Some(database) = of_file.first().and_then(|group| self.core.database(group[0].key.file))
            else {
                continue;
            };
            let Some(len) = first_block_len(database.page_size) else { continue };
            let transfers: Vec<Transfer> = of_file
                .iter()
                .filter(|group| !self.core.cache.holds(group[0].key))
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
        Looking { groups, blocks, asked }
    }

    /// Those of the pages that lack a change, or may, and what has to be read for that again of the log.
    fn lacking<'t>(&mut self, looking: Looking<'t>) -> Result<Coming<'t>> {
        let times: BTreeMap<PageKey, _> = looking.blocks.iter().take(looking.asked).collect();
        let lacks = |group: &&Group<'t>| {
            let time = times.get(&group[0].key).copied().flatten();
            group.iter().any(|touch| time.is_none_or(|time| time < touch.after))
        };
        let groups: Vec<_> = looking.groups.iter().filter(lacks).copied().collect();
        self.looked += looking.asked as u32;
        self.spared += (looking.groups.len() - groups.len()) as u32;
        let mut records = Vec::new();
        for touch in groups.iter().copied().flatten() {
            let missing = times.get(&touch.key).copied().flatten().is_none_or(|time| time < touch.after);
            if missing
                && let Some(step) = self.steps.get(touch.step as usize)
                && self.payloads.lacks(&step.kept)
                && !has_needless_image(&self.decode(touch)?, touch.part)
            {
                records.push((step.kept.start, step.kept.end));
            }
        }
        let records = (!records.is_empty()).then(|| self.log.begin_again(&records)).transpose()?;
        Ok(Coming { groups, records })
    }

    fn page(&mut self, touches: Group<'_>) -> Result<()> {
        let Some(first) = touches.first() else { return Ok(()) };
        let Some(database) = self.core.database(first.key.file) else { return Ok(()) };
        let size = database.page_size;
        let number = first.key.page;
        let pinned = match database.pin(number) {
            Ok(pinned) => pinned,
            // What an older page holds, or whether it can be read, is no matter if the page is built anew.
            Err(Error::Corrupt { .. }) if formats(&self.decode(first)?, first.part) => {
                database.pin_new(number)?
            }
            Err(error) => return Err(error),
        };
        let time = Page::new(&pinned.read(), size).db_time();
        // Without the latch: images may have to be read.
        let missing: Vec<(&Touch, LogRecord)> = touches
            .iter()
            .filter(|touch| touch.after > time)
            .map(|touch| Ok((touch, self.record(touch)?)))
            .collect::<Result<_>>()?;
        if missing.is_empty() {
            return Ok(());
        }
        let mut hanging = Hanging::default();
        let mut latch = pinned.write();
        let made = missing
            .iter()
            .try_for_each(|(touch, record)| self.make(touch, record, &database, &mut latch, &mut hanging));
        if !self.core.cache.can_go(latch.page()) {
            self.behind.push(first.key);
        }
        for (step, found) in hanging.hang(&database, &mut latch) {
            self.found.insert(step, found);
        }
        made
    }

    /// Makes one change, if the page still needs it.
    fn make(
        &mut self,
        touch: &Touch,
        record: &LogRecord,
        database: &Arc<Database>,
        latch: &mut WriteLatch,
        hanging: &mut Hanging,
    ) -> Result<()> {
        let (size, number) = (database.page_size, touch.key.page);
        let Some(step) = self.steps.get(touch.step as usize) else { return Ok(()) };
        let time = Page::new(latch, size).db_time();
        if time >= touch.after {
            return Ok(());
        }
        if let Some(before) = time_before(record, touch.part).filter(|before| *before != time) {
            let age = if time < before { "older" } else { "newer" };
            let what = format!(
                "dbtime {} is {age} than the log expects ({} before the change at {:?}): a write was lost or the \
                 file is from another moment than the log",
                time.0, before.0, step.kept.start
            );
            return Err(misfit(database, number, &what));
        }
        if let Some(node) = record.node_change() {
            hanging.note(touch.step, record, node, step.transaction.as_ref(), &Page::new(latch, size));
        }
        let failed =
            |what: &str| misfit(database, number, &format!("{what} (log record at {:?})", step.kept.start));
        let mut key = Vec::new();
        let edit = edit_of(record, touch.part, &Page::new(latch, size), step.undoes.as_ref(), &mut key);
        match edit.map_err(failed)? {
            Some(edit) => {
                edit.apply(&mut PageMut::new(latch, size)).map_err(failed)?;
                latch.mark_edited(step.needs_from);
                latch.edited(&edit, touch.after);
            }
            None => {
                apply(record, touch.part, number, latch, size).map_err(|what| failed(&what))?;
                PageMut::new(latch, size).set_db_time(touch.after);
                latch.mark_dirty(step.needs_from);
            }
        }
        latch.set_last(step.kept.end);
        self.applied += 1;
        Ok(())
    }

    fn decode(&self, touch: &Touch) -> Result<LogRecord> {
        self.steps.get(touch.step as usize).map_or(Ok(LogRecord::Nop), |step| step.decode(self.log))
    }

    /// The record, with its payload unless that is an image that the change does not need.
    fn record(&self, touch: &Touch) -> Result<LogRecord> {
        let mut record = self.decode(touch)?;
        if !has_needless_image(&record, touch.part)
            && let Some(step) = self.steps.get(touch.step as usize)
        {
            self.payloads.restore(&step.kept, &mut record, self.log, &self.again)?;
        }
        Ok(record)
    }
}

/// First blocks on their way.
struct Looking<'t> {
    groups: &'t [Group<'t>],
    blocks: Receiver<(PageKey, Option<DbTime>)>,
    asked: usize,
}

/// Pages that may lack changes, and the records that must be read again to make them.
#[derive(Default)]
struct Coming<'t> {
    groups: Vec<Group<'t>>,
    records: Option<Rereading>,
}

/// Before-images of the changes made to one page.
#[derive(Default)]
struct Hanging {
    images: Vec<BeforeImage>,
}

struct BeforeImage {
    step: u32,
    node: NodeChange,
    transaction: Arc<Transaction>,
    key: Vec<u8>,
    key_len: usize,
    change: Change,
    gone: bool,
}

impl Hanging {
    /// Notes what a change is about to hide, while the page still has it.
    fn note(
        &mut self,
        step: u32,
        record: &LogRecord,
        node: &NodeChange,
        transaction: Option<&Arc<Transaction>>,
        page: &Page<'_>,
    ) {
        let Some(stored) = page.node(usize::from(node.page.line)) else { return };
        let bookmark = || {
            let (mut key, data) = (stored.key_to_vec(), stored.data);
            let key_len = key.len();
            if !node.page.flags.contains(PageChangeFlags::UNIQUE) {
                key.extend_from_slice(data);
            }
            (key, key_len)
        };
        if let LogRecord::Delete(_) = record {
            if !self.images.is_empty() {
                let (key, _) = bookmark();
                let of_node =
                    self.images.iter_mut().filter(|image| image.key == key && image.node.root == node.root);
                of_node.for_each(|image| image.gone = image.transaction.committed().is_some());
            }
            return;
        }
        let Some(transaction) = transaction.filter(|_| versioned(node) && node.root.is_some()) else {
            return;
        };
        let (node, change) = match record {
            LogRecord::FlagDelete(_) => (*node, Change::FlagDelete),
            // Nothing takes back what is known to be committed.
            _ if transaction.committed().is_some() => return,
            LogRecord::Replace(_) => (*node, Change::Replace { before: stored.data.into() }),
            LogRecord::FlagInsertAndReplaceData(revive) => {
                let replaced = NodeChange { rceid: revive.replace_rceid, ..*node };
                (replaced, Change::Replace { before: stored.data.into() })
            }
            _ => return,
        };
        let (key, key_len) = bookmark();
        let transaction = transaction.clone();
        self.images.push(BeforeImage { step, node, transaction, key, key_len, change, gone: false });
    }

    /// Hangs them on the page, as they did when the changes were made first.
    fn hang(self, database: &Arc<Database>, latch: &mut WriteLatch) -> Vec<(u32, Found)> {
        let page = latch.key().page;
        let hang = |image: BeforeImage| {
            let BeforeImage { step, node, transaction, key, key_len, change, gone } = image;
            let version = node.root.filter(|_| !gone).map(|root| {
                let version = Arc::new(Version {
                    tree: (database.file_id, root),
                    bookmark: key.clone().into(),
                    key_len,
                    transaction,
                    id: node.rceid,
                    level: node.page.level,
                    change: change.clone(),
                    settled: AtomicBool::new(false),
                    undo_logged: Mutex::new(None),
                });
                let unique = node.page.flags.contains(PageChangeFlags::UNIQUE);
                let kind = if unique { PageFlags::empty() } else { PageFlags::NON_UNIQUE };
                let shape = Shape { root, id: node.tree, kind };
                let undo = DeferredBeforeImage::new(database, shape, version.clone(), page);
                latch.defer_undo(Arc::new(undo));
                version
            });
            (step, Found { key, key_len, change, version, gone })
        };
        self.images.into_iter().map(hang).collect()
    }
}
