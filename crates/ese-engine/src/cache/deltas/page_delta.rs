//! A compact encoding of a change to one page.
//!
//! ```text
//!  0   kind      u8      4  key length   u16      8  dbtime after the change               u64
//!  1   flags     u8      6  data length  u16     16  dbtime before it, 0: not checked      u64
//!  2   line      u16                             24  key, data
//! ```
//!
//! The encoding exists in memory only; the log on disk contains the same changes. Invariant: the same function makes
//! a change and replays it. A page that is read again and replayed is therefore identical to the evicted page.

use ese_format::page::{NodeFlags, Page, PageFlags, PageMut};
use ese_format::{DbTime, PageNumber, PageSize};

use crate::page_misfit::PageMisfit;
use crate::{Corruption, PageTimeMismatch};

/// A change to one page.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PageDelta<'a> {
    /// Inserts a node at `line`.
    Insert { line: usize, flags: NodeFlags, key: &'a [u8], data: &'a [u8] },
    /// Replaces the data and flags of the node at `line`.
    Replace { line: usize, flags: NodeFlags, data: &'a [u8] },
    /// Replaces the data of the node at `line` and adds flags to its flags.
    ReplaceData { line: usize, added: NodeFlags, data: &'a [u8] },
    /// Sets the flags of the node at `line`.
    SetFlags { line: usize, flags: NodeFlags },
    /// Removes the nodes from `line` to `end` (exclusive).
    Delete { line: usize, end: usize },
    /// Sets the left sibling.
    SetPrev(Option<PageNumber>),
    /// Cuts off the upper part of a page in a split. The nodes before `line` remain, with a new prefix. A leaf gets
    /// `next` as its right sibling.
    Cut { line: usize, prefix: &'a [u8], next: Option<PageNumber> },
}

const HEADER: usize = 24;

impl PageDelta<'_> {
    /// Applies the change to the page. The delta must have been made for this page in exactly this state.
    pub fn apply(&self, page: &mut PageMut<'_>) -> Result<(), PageMisfit> {
        match *self {
            PageDelta::Insert { line, flags, key, data } => {
                page.insert_node(line, flags, key, data).map_err(|_| PageMisfit::NoRoom)?;
            }
            PageDelta::Replace { line, flags, data } => {
                page.replace_data(line, data).map_err(|_| PageMisfit::NoRoom)?;
                page.set_node_flags(line, flags);
            }
            PageDelta::ReplaceData { line, added, data } => {
                page.replace_data(line, data).map_err(|_| PageMisfit::NoRoom)?;
                let flags = page.as_page().node(line).map_or(added, |node| node.flags | added);
                page.set_node_flags(line, flags);
            }
            PageDelta::SetFlags { line, flags } => page.set_node_flags(line, flags),
            PageDelta::Delete { line, end } => page.delete_nodes(line..end),
            PageDelta::SetPrev(prev) => page.set_prev(prev),
            PageDelta::Cut { line, prefix, next } => {
                page.truncate_nodes(line, prefix).map_err(|_| PageMisfit::NoRoom)?;
                page.set_uncommitted_free(0);
                if page.as_page().is_leaf() {
                    page.set_next(next);
                }
            }
        }
        // ESE marks pages on which deleted data has been overwritten. Any later change removes the mark.
        let flags = page.as_page().flags();
        if flags.contains(PageFlags::SCRUBBED) {
            page.set_flags(flags - PageFlags::SCRUBBED);
        }
        Ok(())
    }

    /// Appends the delta to `deltas`, with the page's dbtime after the change. Returns `None` if the delta cannot be
    /// encoded.
    pub fn encode(&self, after: DbTime, deltas: &mut Vec<u8>) -> Option<()> {
        self.encode_for_unread(DbTime(0), after, deltas)
    }

    /// Appends the delta to `deltas` for a page that has not been read, with the dbtimes before and after the change.
    /// The page on disk has the dbtime `before`, or it already contains this change. Returns `None` if the delta
    /// cannot be encoded.
    pub fn encode_for_unread(&self, before: DbTime, after: DbTime, deltas: &mut Vec<u8>) -> Option<()> {
        let number = |page: Option<PageNumber>| page.map_or(0, PageNumber::get).to_le_bytes();
        let link;
        let (kind, line, flags, key, data): (u8, usize, NodeFlags, &[u8], &[u8]) = match *self {
            PageDelta::Insert { line, flags, key, data } => (0, line, flags, key, data),
            PageDelta::Replace { line, flags, data } => (1, line, flags, &[], data),
            PageDelta::SetFlags { line, flags } => (2, line, flags, &[], &[]),
            PageDelta::Delete { line, end } => {
                link = (u32::try_from(end).ok()?).to_le_bytes();
                (3, line, NodeFlags::empty(), &[], &link)
            }
            PageDelta::SetPrev(prev) => {
                link = number(prev);
                (4, 0, NodeFlags::empty(), &[], &link)
            }
            PageDelta::Cut { line, prefix, next } => {
                link = number(next);
                (5, line, NodeFlags::empty(), prefix, &link)
            }
            PageDelta::ReplaceData { line, added, data } => (6, line, added, &[], data),
        };
        let [line, key_len, data_len] = [line, key.len(), data.len()].map(u16::try_from);
        let (line, key_len, data_len) = (line.ok()?, key_len.ok()?, data_len.ok()?);
        deltas.reserve(HEADER + key.len() + data.len());
        deltas.extend_from_slice(&[kind, flags.bits()]);
        deltas.extend_from_slice(&line.to_le_bytes());
        deltas.extend_from_slice(&key_len.to_le_bytes());
        deltas.extend_from_slice(&data_len.to_le_bytes());
        deltas.extend_from_slice(&after.0.to_le_bytes());
        deltas.extend_from_slice(&before.0.to_le_bytes());
        deltas.extend_from_slice(key);
        deltas.extend_from_slice(data);
        Some(())
    }

    /// Sets the dbtime after the change to `after` in each encoded delta.
    pub fn set_times(mut deltas: &mut [u8], after: DbTime) {
        while let Some((header, rest)) = deltas.split_at_mut_checked(HEADER) {
            header[8..16].copy_from_slice(&after.0.to_le_bytes());
            let len = |at: usize| usize::from(u16::from_le_bytes([header[at], header[at + 1]]));
            let content = len(4) + len(6);
            deltas = rest.get_mut(content..).unwrap_or_default();
        }
    }

    /// Decodes the next delta. Returns the delta, the dbtime before it (if it is to be checked), and the dbtime after
    /// it.
    fn decode<'a>(deltas: &mut &'a [u8]) -> Option<(PageDelta<'a>, Option<DbTime>, DbTime)> {
        let mut take = |count: usize| {
            let (taken, rest) = deltas.split_at_checked(count)?;
            *deltas = rest;
            Some(taken)
        };
        let (header, times) = take(HEADER)?.split_first_chunk::<8>()?;
        let [kind, flags, l0, l1, k0, k1, d0, d1] = *header;
        let (after, before) = times.split_first_chunk::<8>()?;
        let [after, before] = [*after, before.try_into().ok()?].map(|time| DbTime(u64::from_le_bytes(time)));
        let [line, key_len, data_len] =
            [[l0, l1], [k0, k1], [d0, d1]].map(|n| usize::from(u16::from_le_bytes(n)));
        let (key, data) = (take(key_len)?, take(data_len)?);
        let flags = NodeFlags::from_bits_retain(flags);
        let number = || Some(u32::from_le_bytes(data.try_into().ok()?));
        let delta = match kind {
            0 => PageDelta::Insert { line, flags, key, data },
            1 => PageDelta::Replace { line, flags, data },
            2 => PageDelta::SetFlags { line, flags },
            3 => PageDelta::Delete { line, end: number()? as usize },
            4 => PageDelta::SetPrev(PageNumber::new(number()?)),
            5 => PageDelta::Cut { line, prefix: key, next: PageNumber::new(number()?) },
            6 => PageDelta::ReplaceData { line, added: flags, data },
            _ => return None,
        };
        Some((delta, (before != DbTime(0)).then_some(before), after))
    }
}

/// Applies `deltas` to a page that is in the state before the first delta. The page may already contain some of the
/// deltas that were encoded with [`PageDelta::encode_for_unread`]; these are skipped.
pub(in crate::cache) fn replay(
    mut deltas: &[u8],
    bytes: &mut [u8],
    size: PageSize,
) -> Result<(), Corruption> {
    let found = Page::new(bytes, size).db_time();
    while !deltas.is_empty() {
        let (delta, before, after) = PageDelta::decode(&mut deltas).ok_or(Corruption::Deltas)?;
        let mut page = PageMut::new(bytes, size);
        if let Some(before) = before {
            if after <= found && !found.is_unwritten() {
                continue;
            }
            let time = page.as_page().db_time();
            if before != time {
                return Err(PageTimeMismatch::new(time, before).into());
            }
        }
        delta.apply(&mut page)?;
        page.set_db_time(after);
    }
    Ok(())
}

/// Returns a digest of a page's contents that does not depend on their offsets within the page. Used to check a
/// replay.
#[cfg(debug_assertions)]
pub(in crate::cache) fn digest(bytes: &[u8], size: PageSize) -> u64 {
    use std::hash::{Hash, Hasher};
    let page = Page::new(bytes, size);
    let mut hasher = twox_hash::XxHash3_64::new();
    let flags = page.flags() - PageFlags::FLUSH_TYPE - PageFlags::NEW_CHECKSUM;
    (page.db_time().0, page.prev(), page.next(), page.tree().0, flags.bits()).hash(&mut hasher);
    (page.external_header(), page.free_bytes(), page.uncommitted_free()).hash(&mut hasher);
    for node in page.nodes() {
        (node.flags.bits(), node.key_len(), node.data.len()).hash(&mut hasher);
        [node.prefix, node.suffix, node.data].iter().for_each(|part| hasher.write(part));
    }
    hasher.finish()
}
