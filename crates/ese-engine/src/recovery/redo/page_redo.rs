//! The pages that a record changes, and the changes to each page.

use ese_format::compression::decompress;
use ese_format::log::record::ImageError;
use ese_format::log::record::{
    FlagInsertAndReplaceData, LogRecord, Merge, NodeChange, PageChangeFlags, Replace, Split,
};
use ese_format::page::{NodeFlags, Page, PageMut};
use ese_format::space::SpaceHeader;
use ese_format::{DbTime, PageNumber, PageSize};

use super::counters::CounterChange;
use crate::Corruption;
use crate::btree::change::undo_edit;
use crate::cache::{PageDelta, PageKey};
use crate::page_misfit::PageMisfit;
use crate::pages::apply::{self, split_type};
use crate::pages::merge::{PathEdit, merge_source_delta, merge_to_left, merge_to_right, merge_type};
use crate::pages::{page_move, scrub};
use crate::space::{convert_root_pages, create_root_pages, create_single_root};
use crate::transaction::VersionChange;

/// The role of a page in a record that changes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PageRole {
    /// The first page in the record.
    Main,
    /// The new page of a split.
    New,
    Right,
    Left,
    Parent,
    /// Root of a new space tree for owned extents.
    Owned,
    /// Root of a new space tree for available extents.
    Available,
    /// A page in a list, with its index in the list.
    Listed(u32),
    /// The page and line of the change for which a page was split.
    Operation(u16),
    /// The page and line of a split parent where a split child's separator is added.
    Separator(u16),
    /// An internal page above a merged leaf.
    Path(PathEdit),
    /// The page and line of a split parent that contain a split child's old entry.
    Pointer(u16),
    /// The page is compared with the state that the active side has logged.
    Check,
    /// The active side requests the page.
    Request,
}

impl PageRole {
    /// Returns whether the record changes the page.
    pub fn changes_page(self) -> bool {
        !matches!(self, PageRole::Check | PageRole::Request)
    }
}

/// A change that one record makes to one page.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageRedo {
    pub key: PageKey,
    pub after: DbTime,
    /// Index of the record in the window.
    pub record_index: u32,
    pub role: PageRole,
}

impl PageRedo {
    /// Returns whether a page whose database time is `page` lacks the change. If not, the page was written after the
    /// change.
    pub fn is_missing(&self, page: DbTime) -> bool {
        self.after > page || page.is_unwritten()
    }
}

/// The change that an Undo record undoes.
pub(super) enum UndoneChange {
    Change(VersionChange),
    /// A change to a counter, if its record has been read.
    Counter(Option<CounterChange>),
}

/// Returns the pages that a record changes.
pub(in crate::recovery) fn pages_changed(record: &LogRecord) -> impl Iterator<Item = PageNumber> + use<> {
    pages_of(record).0.into_iter().map(|(page, _)| page)
}

/// Returns the pages that a record changes, each with its role, and the change time that the record gives to all of
/// them.
pub(super) fn pages_of(record: &LogRecord) -> (Vec<(PageNumber, PageRole)>, DbTime) {
    let some = |page: Option<PageNumber>, role| page.map(|page| (page, role));
    let (pages, change) = match record {
        LogRecord::Split2(split) => {
            let pages = [
                some(split.new_page, PageRole::New),
                some(Some(split.change.page), PageRole::Main),
                some(split.right, PageRole::Right),
                some(split.parent, PageRole::Parent),
            ];
            (pages.into_iter().flatten().collect(), split.change)
        }
        LogRecord::Merge2(merge) => {
            let pages = [
                some(merge.right, PageRole::Right),
                some(merge.left, PageRole::Left),
                some(Some(merge.change.page), PageRole::Main),
            ];
            (pages.into_iter().flatten().collect(), merge.change)
        }
        LogRecord::EmptyTree(empty) => {
            let listed = (0..).zip(empty.entries());
            let mut pages: Vec<_> = listed
                .filter_map(|(at, entry)| some(PageNumber::new(entry.page), PageRole::Listed(at)))
                .collect();
            pages.push((empty.node.page.page, PageRole::Main));
            (pages, empty.node.page)
        }
        LogRecord::CreateMultiExtentFdp(create) => {
            let change = create.change;
            let pages = vec![
                (change.page, PageRole::Main),
                (create.owned_root, PageRole::Owned),
                (create.available_root, PageRole::Available),
            ];
            (pages, change)
        }
        LogRecord::CreateSingleExtentFdp(create) => {
            (vec![(create.change.page, PageRole::Main)], create.change)
        }
        LogRecord::NewPage(new) => return (vec![(new.page, PageRole::Main)], new.after),
        LogRecord::ConvertFdp2(convert) => {
            let change = convert.change;
            let pages = vec![
                (convert.owned_root, PageRole::Owned),
                (convert.available_root, PageRole::Available),
                (change.page, PageRole::Main),
            ];
            (pages, change)
        }
        LogRecord::PageMove(moved) => {
            let pages = [
                some(Some(moved.destination), PageRole::New),
                some(Some(moved.change.page), PageRole::Main),
                some(moved.left, PageRole::Left),
                some(moved.right, PageRole::Right),
                some(moved.parent, PageRole::Parent),
            ];
            (pages.into_iter().flatten().collect(), moved.change)
        }
        LogRecord::Insert(_)
        | LogRecord::FlagInsert(_)
        | LogRecord::FlagInsertAndReplaceData(_)
        | LogRecord::FlagDelete(_)
        | LogRecord::Replace(_)
        | LogRecord::ReplaceD(_)
        | LogRecord::Delta(_)
        | LogRecord::Delta64(_)
        | LogRecord::Scrub(_)
        | LogRecord::Delete(_)
        | LogRecord::Undo(_)
        | LogRecord::SetExternalHeader(_) => match record.node_change() {
            Some(node) => (vec![(node.page.page, PageRole::Main)], node.page),
            None => return (Vec::new(), DbTime(0)),
        },
        _ => return (Vec::new(), DbTime(0)),
    };
    (pages, change.after)
}

/// Returns whether the record formats the page completely, regardless of its content.
pub(super) fn formats(record: &LogRecord, role: PageRole) -> bool {
    match record {
        LogRecord::Split2(_) | LogRecord::PageMove(_) => role == PageRole::New,
        LogRecord::CreateMultiExtentFdp(_) | LogRecord::CreateSingleExtentFdp(_) | LogRecord::NewPage(_) => {
            true
        }
        LogRecord::ConvertFdp2(_) => role != PageRole::Main,
        _ => false,
    }
}

/// Returns the time that the page must have before the record is applied, if the change depends on it.
pub(super) fn required_time(record: &LogRecord, role: PageRole) -> Option<DbTime> {
    match (record, role) {
        _ if formats(record, role) => None,
        (LogRecord::Split2(split), PageRole::Right) => Some(split.right_before),
        (LogRecord::Split2(split), PageRole::Parent | PageRole::Separator(_) | PageRole::Pointer(_)) => {
            Some(split.parent_before)
        }
        (LogRecord::Merge2(merge), PageRole::Right) => Some(merge.right_before),
        (LogRecord::Merge2(merge), PageRole::Left) => Some(merge.left_before),
        (LogRecord::PageMove(moved), PageRole::Left) => Some(moved.left_before),
        (LogRecord::PageMove(moved), PageRole::Right) => Some(moved.right_before),
        (LogRecord::PageMove(moved), PageRole::Parent) => Some(moved.parent_before),
        (LogRecord::EmptyTree(empty), PageRole::Listed(at)) => {
            empty.entries().nth(at as usize).map(|entry| entry.before)
        }
        _ => record.page_change().map(|change| change.before),
    }
}

/// Returns whether the change needs the page image in the record.
fn needs_image(record: &LogRecord, role: PageRole) -> bool {
    match record {
        LogRecord::Split2(split) => role == PageRole::New && apply::moves_nodes(split),
        LogRecord::Merge2(merge) => match merge.merge_type {
            merge_type::FULL_RIGHT | merge_type::PARTIAL_RIGHT => role == PageRole::Right,
            merge_type::FULL_LEFT | merge_type::PARTIAL_LEFT => role == PageRole::Left,
            _ => false,
        },
        _ => false,
    }
}

/// Returns whether the record has a page image that the change does not need.
pub(super) fn has_needless_image(record: &LogRecord, role: PageRole) -> bool {
    matches!(record, LogRecord::Split2(_) | LogRecord::Merge2(_)) && !needs_image(record, role)
}

/// Returns whether the split page only loses its upper nodes.
fn is_cut(split: &Split) -> bool {
    split.new_page.is_some() && split.split_type == split_type::RIGHT && split.split_uncommitted <= 0
}

/// Returns the change as a delta if the record alone determines it. `key` receives a new node's key.
pub(super) fn delta_from_record<'a>(
    record: &'a LogRecord,
    role: PageRole,
    key: &'a mut Vec<u8>,
) -> Option<PageDelta<'a>> {
    let node = record.node_change();
    let added = node.map_or(NodeFlags::empty(), flags_added);
    let line = node.map_or(0, |node| usize::from(node.page.line));
    Some(match (record, role) {
        // The page's time shows that it is in its state before the split.
        (LogRecord::Split2(split), PageRole::Main) if is_cut(split) => apply::split_cut(split),
        (LogRecord::Split2(split), PageRole::Right) => apply::split_right(split),
        (LogRecord::Insert(insert), _) => {
            *key = insert.key();
            PageDelta::Insert { line, flags: added, key, data: &insert.data }
        }
        // An unversioned replace is applied to the page itself. This detects a page that belongs to another history.
        (LogRecord::Replace(Replace { data, .. }), _) if added == NodeFlags::VERSIONED => {
            PageDelta::ReplaceData { line, added, data }
        }
        (LogRecord::FlagDelete(_), _) if added == NodeFlags::VERSIONED => {
            PageDelta::SetFlags { line, flags: added | NodeFlags::DELETED }
        }
        (LogRecord::Delete(_), _) => PageDelta::Delete { line, end: line + 1 },
        _ => return None,
    })
}

/// Returns the change as a delta if it can be expressed as one. `undoes` is the change that an Undo record undoes, if
/// the undo is not complete. `key` receives a new node's key.
pub(super) fn delta_of<'a>(
    record: &'a LogRecord,
    role: PageRole,
    page: &Page<'_>,
    undoes: Option<&'a UndoneChange>,
    key: &'a mut Vec<u8>,
) -> Result<Option<PageDelta<'a>>, PageMisfit> {
    if let (LogRecord::Merge2(merge), PageRole::Main) = (record, role) {
        return merge_source_delta(merge, page.node_count());
    }
    if let (LogRecord::Split2(split), PageRole::Main) = (record, role)
        && split.new_page.is_some()
    {
        apply::check_split_lines(split, page.node_count())?;
    }
    if let Some(node) = record.node_change()
        && let Some(data) = changed_data(record, page, undoes)?
    {
        *key = data;
        let line = usize::from(node.page.line);
        return Ok(Some(PageDelta::ReplaceData { line, added: flags_added(node), data: key }));
    }
    if let known @ Some(_) = delta_from_record(record, role, key) {
        return Ok(known);
    }
    let Some(node) = record.node_change() else { return Ok(None) };
    let line = usize::from(node.page.line);
    let flags = apply::flags_of(page, line) | flags_added(node);
    let visible = flags - NodeFlags::DELETED;
    Ok(Some(match record {
        LogRecord::Replace(Replace { data, .. }) => PageDelta::Replace { line, flags, data },
        LogRecord::FlagInsert(_) => PageDelta::SetFlags { line, flags: visible },
        LogRecord::FlagInsertAndReplaceData(FlagInsertAndReplaceData { data, .. }) => {
            PageDelta::Replace { line, flags: visible, data }
        }
        LogRecord::FlagDelete(_) => PageDelta::SetFlags { line, flags: flags | NodeFlags::DELETED },
        LogRecord::Undo(_) => match undoes {
            Some(UndoneChange::Change(change)) => undo_edit(line, apply::flags_of(page, line), change)?,
            Some(UndoneChange::Counter(_)) | None => return Ok(None),
        },
        _ => return Ok(None),
    }))
}

/// Returns the node's data after a change that the record specifies relative to the data before it.
fn changed_data(
    record: &LogRecord,
    page: &Page<'_>,
    undoes: Option<&UndoneChange>,
) -> Result<Option<Vec<u8>>, PageMisfit> {
    let Some(node) = record.node_change() else { return Ok(None) };
    let line = usize::from(node.page.line);
    let old = || page.node(line).map(|node| node.data).ok_or(PageMisfit::NoNode);
    let counter = match (record, undoes) {
        (LogRecord::ReplaceD(replace), _) => {
            let data = replace.changed_data(old()?);
            return data.map(Some).map_err(|_| PageMisfit::Differences);
        }
        (LogRecord::Undo(_), Some(UndoneChange::Counter(Some(change)))) => change.reversed(),
        (LogRecord::Undo(_), Some(UndoneChange::Counter(None))) => {
            return Err(PageMisfit::NoCounterChange);
        }
        _ => match CounterChange::from_record(record) {
            Some(change) => change,
            None => return Ok(None),
        },
    };
    counter.changed(old()?).map(Some)
}

/// Makes a change that is not a delta.
pub(super) fn apply(
    record: &LogRecord,
    role: PageRole,
    page: PageNumber,
    bytes: &mut [u8],
    size: PageSize,
    key: Option<&[u8]>,
) -> Result<(), Corruption> {
    let image = |image: Result<Option<Vec<u8>>, ImageError>| {
        image.map(|image| image.unwrap_or_else(|| vec![0; size.bytes()]))
    };
    match (record, role) {
        (LogRecord::Split2(split), PageRole::New) => {
            let before = image(if needs_image(record, role) { split_image(split, size) } else { Ok(None) })?;
            let before = Page::new(&before, size);
            if needs_image(record, role) {
                apply::check_split_lines(split, before.node_count())?;
            }
            apply::split_new(bytes, size, &before, split, key)?;
        }
        // ESE logs this record for a parent only to update the parent's time.
        (LogRecord::Split2(Split { new_page: None, .. }), _) => {}
        (LogRecord::Split2(split), PageRole::Main) => {
            // The page's time shows that it is in its state before the split.
            apply::split_source(&mut PageMut::new(bytes, size), split)?;
        }
        (LogRecord::Split2(split), PageRole::Separator(line)) => {
            apply::insert_separator(&mut PageMut::new(bytes, size), line.into(), split)?;
        }
        (LogRecord::Split2(split), PageRole::Pointer(line)) => {
            apply::set_pointer(&mut PageMut::new(bytes, size), line.into(), split)?;
        }
        (LogRecord::Split2(split), _) => apply::split_parent(&mut PageMut::new(bytes, size), split)?,
        (LogRecord::Merge2(merge), PageRole::Right | PageRole::Left) => {
            let source = image(if needs_image(record, role) { merge_image(merge, size) } else { Ok(None) })?;
            let source = Page::new(&source, size);
            let mut page = PageMut::new(bytes, size);
            match role {
                PageRole::Right => merge_to_right(&mut page, &source, merge)?,
                _ => merge_to_left(&mut page, &source, merge)?,
            }
        }
        (LogRecord::Merge2(_), PageRole::Path(edit)) => {
            edit.apply(&mut PageMut::new(bytes, size), key.unwrap_or_default())?;
        }
        (LogRecord::Merge2(_), _) => apply::empty_page(&mut PageMut::new(bytes, size)),
        (LogRecord::PageMove(moved), PageRole::New) => {
            page_move::moved_page(bytes, size, moved)?;
            if let Some(owned) = key.and_then(|key| key.first_chunk()) {
                set_owned_root(&mut PageMut::new(bytes, size), u32::from_le_bytes(*owned))?;
            }
        }
        (LogRecord::PageMove(moved), PageRole::Left) => {
            PageMut::new(bytes, size).set_next(Some(moved.destination));
        }
        (LogRecord::PageMove(moved), PageRole::Right) => {
            PageMut::new(bytes, size).set_prev(Some(moved.destination));
        }
        (LogRecord::PageMove(moved), PageRole::Parent) => {
            page_move::move_pointer(&mut PageMut::new(bytes, size), moved)?;
        }
        (LogRecord::PageMove(_), _) => apply::empty_page(&mut PageMut::new(bytes, size)),
        (LogRecord::Scrub(record), _) => scrub::scrub(&mut PageMut::new(bytes, size), record)?,
        (LogRecord::EmptyTree(_), PageRole::Listed(_)) => apply::empty_page(&mut PageMut::new(bytes, size)),
        (LogRecord::EmptyTree(_), _) => apply::empty_root(&mut PageMut::new(bytes, size)),
        (LogRecord::CreateMultiExtentFdp(create), _) => {
            create_root_pages(bytes, size, page, create);
        }
        (LogRecord::CreateSingleExtentFdp(create), _) => {
            create_single_root(bytes, size, create);
        }
        (LogRecord::NewPage(new), _) => {
            PageMut::format_unused(bytes, size, new.page, new.tree);
        }
        (LogRecord::ConvertFdp2(convert), PageRole::Owned | PageRole::Available) => {
            convert_root_pages(bytes, size, page, convert);
        }
        (LogRecord::ConvertFdp2(convert), _) => {
            set_owned_root(&mut PageMut::new(bytes, size), convert.owned_root.get())?;
        }
        (LogRecord::SetExternalHeader(set), _) => {
            let mut page = PageMut::new(bytes, size);
            page.set_external_header(&set.data).map_err(|_| PageMisfit::NoRoomForHeader)?;
        }
        // An Undo record whose change has already been undone.
        _ => {}
    }
    Ok(())
}

/// Sets the root of the owned extents in the space header of a tree's root.
fn set_owned_root(page: &mut PageMut<'_>, owned_root_or_bitmap: u32) -> apply::ApplyResult {
    let mut external = page.as_page().external_header().to_vec();
    let header = SpaceHeader::decode(&external).map_err(|_| PageMisfit::NoSpaceHeader)?;
    SpaceHeader { multiple: true, owned_root_or_bitmap, ..header }.update(&mut external);
    page.set_external_header(&external).map_err(|_| PageMisfit::NoRoomForHeader)
}

/// Returns the image of the split page before the split.
fn split_image(split: &Split, size: PageSize) -> Result<Option<Vec<u8>>, ImageError> {
    split.before_page(size, |stored| decompress(stored, size.bytes()).ok())
}

/// Returns the image of the merged page before the merge.
fn merge_image(merge: &Merge, size: PageSize) -> Result<Option<Vec<u8>>, ImageError> {
    merge.before_page(size, |stored| decompress(stored, size.bytes()).ok())
}

pub(super) fn versioned(node: &NodeChange) -> bool {
    node.page.flags.contains(PageChangeFlags::VERSIONED)
}

/// Returns the flags that a change adds to its node. No record removes `VERSIONED`.
fn flags_added(node: &NodeChange) -> NodeFlags {
    if versioned(node) { NodeFlags::VERSIONED } else { NodeFlags::empty() }
}
