//! Atomic changes to several pages. ESE: macro.
//!
//! A group latches each page that it touches, and keeps the latch until its records are in the log. The records are
//! contiguous. Each split and each merge is a macro, and everything else is logged record by record, as in ESE
//! ([`record_ranges`](super::record_ranges)). A mark in front of the ranges shows that they belong together.
//!
//! No page can be written before all records are in the log, and recovery applies a group only if it is complete. A
//! partial group is therefore never visible after a crash. If a group is dropped without a commit, its pages get
//! their old bytes back.
//!
//! The ranges get their database times when the group commits. At that point, the group holds all latches, so the new
//! times are later than those of its pages. Until then, each page keeps its previous time.
//!
//! Invariant: no I/O is done while latches are held. A page that is not in the cache ends the attempt. [`run`] then
//! reads the page without latches, keeps it pinned, and retries.

use jetcell_sync::Arc;

use ese_format::log::record::{
    DatabaseIdInLog, Delete, FlagDelete, Insert, LogRecord, Macro, NodeChange, PageChange, PageChangeFlags,
    Replace, SetExternalHeader,
};
use ese_format::page::{NodeFlags, Page, PageMut};
use ese_format::{DbTime, LogPosition, PageNumber};

use super::latched::LatchedPage;
use super::record_ranges::{NO_TIME, PageTimes, RecordRange, record_ranges};
use super::{TreeIdentity, apply};
use crate::cache::{PageDelta, PinnedPage, WriteLatch};
use crate::log::RecordBatch;
use crate::page_misfit::PageMisfit;
use crate::storage::DatabaseFile;
use crate::transaction::SYSTEM_PROCID;
use crate::{Error, InternalError, Result};

/// Why an attempt to execute a group was aborted.
pub(crate) enum GroupAbort {
    /// This page must be read before the attempt is retried.
    NotCached(PageNumber),
    /// The group fails with this error.
    Failed(Error),
}

impl From<Error> for GroupAbort {
    fn from(error: Error) -> GroupAbort {
        GroupAbort::Failed(error)
    }
}

/// Result type for operations inside a group.
pub(crate) type GroupResult<T> = std::result::Result<T, GroupAbort>;

/// An uncommitted change to several pages.
pub(crate) struct AtomicGroup {
    pub file: Arc<DatabaseFile>,
    procid: u16,
    privileged: bool,
    pages: Vec<LatchedPage>,
    /// Records that do not belong to a page. They precede all other records.
    prologue: Vec<LogRecord>,
    records: Vec<LogRecord>,
    on_commit: Vec<Box<dyn FnOnce()>>,
    committed: bool,
}

/// Runs `work` as one group and commits it. If `privileged` is set, the group may use the reserve logs when the disk is
/// full.
pub(crate) fn run<T>(
    file: &Arc<DatabaseFile>,
    privileged: bool,
    work: impl FnMut(&mut AtomicGroup) -> GroupResult<T>,
) -> Result<T> {
    run_for_session(file, SYSTEM_PROCID, privileged, work)
}

/// Works like [`run`], for a group that contains a change made by a session's transaction.
pub(crate) fn run_for_session<T>(
    file: &Arc<DatabaseFile>,
    procid: u16,
    privileged: bool,
    mut work: impl FnMut(&mut AtomicGroup) -> GroupResult<T>,
) -> Result<T> {
    let mut kept: Vec<PinnedPage> = Vec::new();
    loop {
        let mut group = AtomicGroup {
            file: file.clone(),
            procid,
            privileged,
            pages: Vec::new(),
            prologue: Vec::new(),
            records: Vec::new(),
            on_commit: Vec::new(),
            committed: false,
        };
        match work(&mut group) {
            Ok(value) => {
                group.commit()?;
                return Ok(value);
            }
            Err(GroupAbort::NotCached(page)) => {
                drop(group);
                kept.push(file.pin(page)?);
            }
            Err(GroupAbort::Failed(error)) => return Err(error),
        }
    }
}

impl AtomicGroup {
    /// Returns the current state of a page. The page stays latched until the group ends.
    pub fn page(&mut self, page: PageNumber) -> GroupResult<Page<'_>> {
        let slot = self.slot(page)?;
        Ok(Page::new(&self.pages[slot].latch, self.file.page_size))
    }

    /// Returns the current state of two pages, which are latched in this order.
    pub fn two_pages(&mut self, first: PageNumber, second: PageNumber) -> GroupResult<[Page<'_>; 2]> {
        let slots = [self.slot(first)?, self.slot(second)?];
        Ok(slots.map(|slot| Page::new(&self.pages[slot].latch, self.file.page_size)))
    }

    /// Returns a page for modification. Every change needs a record with the page's previous database time.
    pub fn page_mut(&mut self, page: PageNumber) -> GroupResult<PageMut<'_>> {
        let slot = self.slot(page)?;
        Ok(PageMut::new(self.pages[slot].bytes_mut(), self.file.page_size))
    }

    /// Returns a page for modification of its links only.
    pub fn links_mut(&mut self, page: PageNumber) -> GroupResult<PageMut<'_>> {
        let slot = self.slot(page)?;
        Ok(PageMut::new(self.pages[slot].header_mut(self.file.page_size), self.file.page_size))
    }

    /// Applies a delta. The caller adds the record that describes it.
    pub fn edit(&mut self, page: PageNumber, edit: &PageDelta<'_>) -> GroupResult<apply::ApplyResult> {
        let (slot, size) = (self.slot(page)?, self.file.page_size);
        Ok(self.pages[slot].edit(edit, size))
    }

    /// Returns the bytes of a page whose old content is not needed.
    pub fn new_page(&mut self, page: PageNumber) -> GroupResult<&mut [u8]> {
        let slot = match self.pages.iter().position(|latched| latched.page == page) {
            Some(slot) => slot,
            None => {
                let latch = self.file.pin_new(page)?.write();
                self.add(page, latch)
            }
        };
        Ok(self.pages[slot].bytes_mut())
    }

    /// Returns the bytes of a page whose old content is not needed, and the current state of another page.
    pub fn new_page_and_other(
        &mut self,
        page: PageNumber,
        new: PageNumber,
    ) -> GroupResult<(Page<'_>, &mut [u8])> {
        let size = self.file.page_size;
        self.new_page(new)?;
        let page = self.slot(page)?;
        let new = self.slot(new)?;
        match self.pages.get_disjoint_mut([page, new]) {
            Ok([page, new]) => Ok((Page::new(&page.latch, size), new.bytes_mut())),
            Err(_) => Err(GroupAbort::Failed(InternalError::SplitIntoItself.into())),
        }
    }

    /// Returns a copy of the page's bytes.
    pub fn copy_of(&mut self, page: PageNumber) -> GroupResult<Vec<u8>> {
        let slot = self.slot(page)?;
        Ok(self.pages[slot].latch.to_vec())
    }

    /// Returns the database time that the page had before the group.
    pub fn time_of(&mut self, page: PageNumber) -> GroupResult<DbTime> {
        Ok(self.page(page)?.db_time())
    }

    /// Returns the database time that the page had before the group, or [`NO_TIME`] for `None`.
    pub fn time_before(&mut self, page: Option<PageNumber>) -> GroupResult<DbTime> {
        page.map_or(Ok(NO_TIME), |page| self.time_of(page))
    }

    /// Registers `action` to run once the records are in the log, before the latches are released.
    pub fn on_commit(&mut self, action: impl FnOnce() + 'static) {
        self.on_commit.push(Box::new(action));
    }

    /// Logs the deferred before-images of `page`. This is necessary before its nodes move to another page.
    ///
    /// After the move, the two pages are written independently. When redo then processes an Undo record for a node on
    /// one page, the other page could already be in the undone state.
    pub fn log_deferred_undo(&mut self, page: PageNumber) -> GroupResult<()> {
        let slot = self.slot(page)?;
        for undo in self.pages[slot].latch.undo_to_share() {
            undo.log()?;
        }
        Ok(())
    }

    /// Returns true if the page has before-images that have not been logged yet.
    pub fn has_deferred_undo(&mut self, page: PageNumber) -> GroupResult<bool> {
        let slot = self.slot(page)?;
        Ok(!self.pages[slot].latch.undo_to_share().is_empty())
    }

    /// Returns the session number that the group's log records carry.
    pub fn procid(&self) -> u16 {
        self.procid
    }

    /// Adds a record that changes no page. It precedes the group's records and is not part of the atomic unit.
    pub fn record_before(&mut self, record: LogRecord) {
        self.prologue.push(record);
    }

    /// Adds a record whose changes have already been made to the latched pages. Its database time is set when the
    /// group commits.
    pub fn record(&mut self, record: LogRecord) {
        self.records.push(record);
    }

    /// Returns the leading fields of a record about `page`.
    pub fn change(
        &mut self,
        page: PageNumber,
        line: usize,
        flags: PageChangeFlags,
    ) -> GroupResult<PageChange> {
        Ok(PageChange {
            procid: self.procid,
            database: DatabaseIdInLog(self.file.log_id),
            page,
            after: DbTime(0),
            before: self.time_of(page)?,
            begin0: 0,
            level: 0,
            line: line as u16,
            flags,
        })
    }

    /// Returns the leading fields of a record about an unversioned node.
    pub fn node_change(
        &mut self,
        tree: &TreeIdentity,
        page: PageNumber,
        line: usize,
    ) -> GroupResult<NodeChange> {
        let change = self.change(page, line, tree.record_flags())?;
        Ok(NodeChange { page: change, rceid: 0, root: Some(tree.root), tree: tree.id })
    }

    /// Inserts an unversioned node.
    pub fn insert(
        &mut self,
        tree: &TreeIdentity,
        page: PageNumber,
        line: usize,
        key: &[u8],
        data: &[u8],
    ) -> GroupResult<()> {
        let node = self.node_change(tree, page, line)?;
        let [prefix, suffix] = cut_key(&self.page(page)?, key).map(<[u8]>::to_vec);
        let record = Insert { node, prefix, suffix, data: data.to_vec() };
        let (key, flags) = (record.key(), NodeFlags::empty());
        let applied = self.edit(page, &PageDelta::Insert { line, flags, key: &key, data })?;
        self.record_if_applied(page, applied, LogRecord::Insert(record))
    }

    /// Removes a node.
    pub fn delete(&mut self, tree: &TreeIdentity, page: PageNumber, line: usize) -> GroupResult<()> {
        let node = self.node_change(tree, page, line)?;
        let applied = self.edit(page, &PageDelta::Delete { line, end: line + 1 })?;
        self.record_if_applied(page, applied, LogRecord::Delete(Delete { node }))
    }

    /// Flags a node as deleted. Used when removing the node would leave a page empty.
    pub fn flag_delete(&mut self, tree: &TreeIdentity, page: PageNumber, line: usize) -> GroupResult<()> {
        let node = self.node_change(tree, page, line)?;
        let flags = self.flags_of(page, line)? | NodeFlags::DELETED;
        let applied = self.edit(page, &PageDelta::SetFlags { line, flags })?;
        self.record_if_applied(page, applied, LogRecord::FlagDelete(FlagDelete { node }))
    }

    /// Replaces the data of an unversioned node.
    pub fn replace(
        &mut self,
        tree: &TreeIdentity,
        page: PageNumber,
        line: usize,
        data: &[u8],
    ) -> GroupResult<()> {
        let node = self.node_change(tree, page, line)?;
        let old_len = self.page(page)?.node(line).map_or(0, |node| node.data.len()) as u16;
        let record =
            Replace { node, wide_diff: false, old_len, new_len: data.len() as u16, data: data.to_vec() };
        let flags = self.flags_of(page, line)?;
        let applied = self.edit(page, &PageDelta::Replace { line, flags, data })?;
        self.record_if_applied(page, applied, LogRecord::Replace(record))
    }

    /// Sets the external header of a root page.
    pub fn set_external_header(
        &mut self,
        tree: &TreeIdentity,
        page: PageNumber,
        header: &[u8],
    ) -> GroupResult<()> {
        let node = self.node_change(tree, page, 0)?;
        let mut target = self.page_mut(page)?;
        let applied = target.set_external_header(header).map_err(|_| PageMisfit::NoRoomForHeader);
        self.record_if_applied(
            page,
            applied,
            LogRecord::SetExternalHeader(SetExternalHeader { node, data: header.to_vec() }),
        )
    }

    fn flags_of(&mut self, page: PageNumber, line: usize) -> GroupResult<NodeFlags> {
        Ok(apply::flags_of(&self.page(page)?, line))
    }

    /// Adds the record for a change if it was applied, or fails if it did not fit the page.
    pub fn record_if_applied(
        &mut self,
        page: PageNumber,
        applied: apply::ApplyResult,
        record: LogRecord,
    ) -> GroupResult<()> {
        match applied {
            Ok(()) => {
                self.records.push(record);
                Ok(())
            }
            Err(misfit) => Err(GroupAbort::Failed(self.file.corrupt(page, misfit))),
        }
    }

    fn slot(&mut self, page: PageNumber) -> GroupResult<usize> {
        if let Some(slot) = self.pages.iter().position(|latched| latched.page == page) {
            return Ok(slot);
        }
        let pinned = self.file.resident(page).ok_or(GroupAbort::NotCached(page))?;
        let latch = pinned.write();
        Ok(self.add(page, latch))
    }

    fn add(&mut self, page: PageNumber, latch: WriteLatch) -> usize {
        self.pages.push(LatchedPage::new(page, latch, self.file.page_size));
        self.pages.len() - 1
    }

    /// Returns the records with their database times, and the new times of the pages.
    fn batch(&mut self) -> (RecordBatch, PageTimes) {
        let (mut batch, mut times) = (RecordBatch::new(), PageTimes::default());
        let pieces = record_ranges(&self.records);
        self.prologue.iter().for_each(|record| batch.push(record));
        let bracket =
            (self.procid == SYSTEM_PROCID).then(|| self.file.numbers.enclosing_records(SYSTEM_PROCID));
        if let Some([begin, _]) = &bracket {
            batch.push(begin);
        }
        if pieces.len() > 1 {
            batch.push(&LogRecord::group_mark(pieces.iter().map(RecordRange::record_count).sum()));
        }
        for RecordRange { records, in_macro } in pieces {
            let time = self.file.next_time();
            let records = &mut self.records[records];
            times.assign(records, time);
            let macro_record = Macro { procid: self.procid, db_time: time };
            if in_macro {
                batch.push(&LogRecord::MacroBegin(macro_record));
            }
            records.iter().for_each(|record| batch.push(record));
            if in_macro {
                batch.push(&LogRecord::MacroCommit(macro_record));
            }
        }
        if let Some([_, commit]) = &bracket {
            batch.push(commit);
        }
        (batch, times)
    }

    /// Appends the records to the log. After a successful append, the change is in effect.
    fn commit(&mut self) -> Result<LogPosition> {
        if self.records.is_empty() {
            self.committed = true;
            return Ok(LogPosition::MIN);
        }
        let (batch, times) = self.batch();
        let file = &self.file;
        // The pin prevents the checkpoint from advancing until the pages are dirty. Afterwards, the dirty pages do
        // so.
        let lower = file.log.tail();
        let pin = file.pins.pin(lower);
        let appended =
            if self.privileged { file.log.append_privileged(&batch) } else { file.log.append(&batch) };
        if let Ok(appended) = &appended {
            let scrubs = matches!(self.records[..], [LogRecord::Scrub(_)]);
            for page in &mut self.pages {
                let time = times.time_after_group(page.page);
                debug_assert!(time.is_some() || !page.is_changed(), "page {} has no record", page.page);
                page.set_logged(time.unwrap_or_default(), (lower, appended.end), scrubs, file.page_size);
            }
        }
        file.pins.release(pin);
        let appended = appended?;
        self.committed = true;
        for action in self.on_commit.drain(..) {
            action();
        }
        Ok(appended.end)
    }
}

impl Drop for AtomicGroup {
    fn drop(&mut self) {
        if self.committed {
            return;
        }
        self.pages.iter_mut().for_each(LatchedPage::undo_changes);
    }
}

/// Splits a key at the end of the page's shared prefix, in the form that Insert records require.
pub(crate) fn cut_key<'k>(page: &Page<'_>, key: &'k [u8]) -> [&'k [u8]; 2] {
    let common = page.prefix().iter().zip(key).take_while(|(a, b)| a == b).count();
    let cut = if common >= 3 { common } else { 0 };
    [&key[..cut], &key[cut..]]
}
