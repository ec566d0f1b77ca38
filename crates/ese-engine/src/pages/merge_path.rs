//! Merges as ESE logs them: a Merge2 record for each page on the path that changes, from the root to the leaf that is
//! merged. Nodes that are flagged deleted do not move.
//!
//! Jetcell's own merges are one record each ([`apply`](super::apply)), and move such nodes, because snapshots may see them.

use std::ops::Range;

use ese_format::PageNumber;
use ese_format::log::record::{Merge, MergeFlags};
use ese_format::page::{NodeFlags, Page, PageMut};

use super::apply::{Applied, NO_ROOM, empty_page, merge_type, set_separator};

const LACKS_NODES: &str = "the image of the merged page lacks the nodes that move";

/// What a merge does to an internal page on the path to the merged leaf.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PathEdit {
    /// Its entry goes. If it was the last one and had no key, the entry before it loses its key.
    Delete(u16),
    /// Its entry gets the separator of the merge.
    SetKey(u16),
    /// Its entry leads to the left page, and the entry before it goes.
    LeadToLeft(u16, PageNumber),
    /// It leaves the tree.
    Empty,
    /// Nothing but its time of change.
    None,
}

impl PathEdit {
    /// The effect of the record of an internal page. `leaf` is the record of the merged leaf.
    pub fn of(record: &Merge, leaf: &Merge) -> Result<PathEdit, &'static str> {
        let (line, flags) = (record.change.line, record.flags);
        let [deletes, changes] = [MergeFlags::DELETE_NODE, MergeFlags::KEY_CHANGE].map(|f| flags.contains(f));
        Ok(match (deletes, changes) {
            (true, true) if leaf.merge_type == merge_type::FULL_LEFT => {
                PathEdit::LeadToLeft(line, leaf.left.ok_or("a merge to the left has no left page")?)
            }
            (true, _) => PathEdit::Delete(line),
            // The nodes move to the page of the entry before.
            (_, true) if leaf.merge_type == merge_type::PARTIAL_LEFT => {
                PathEdit::SetKey(line.checked_sub(1).ok_or("the merged page has no page before it")?)
            }
            (_, true) => PathEdit::SetKey(line),
            _ if flags.contains(MergeFlags::EMPTY_PAGE) => PathEdit::Empty,
            _ => PathEdit::None,
        })
    }

    /// Changes the page. `separator` is that of the merge.
    pub fn apply(self, page: &mut PageMut<'_>, separator: &[u8]) -> Applied {
        const MISSING: &str = "an internal page lacks the entry that a merge changes";
        match self {
            PathEdit::Delete(line) => {
                let line = usize::from(line);
                let view = page.as_page();
                let last = line + 1 == view.node_count();
                let keyless = view.node(line).ok_or(MISSING)?.key_len() == 0;
                page.delete_node(line);
                match line.checked_sub(1) {
                    Some(before) if last && keyless => set_separator(page, before, &[]),
                    _ => Ok(()),
                }
            }
            PathEdit::SetKey(line) => set_separator(page, line.into(), separator),
            PathEdit::LeadToLeft(line, left) => {
                let line = usize::from(line);
                let before = line.checked_sub(1).ok_or(MISSING)?;
                page.replace_data(line, &left.get().to_le_bytes()).map_err(|_| MISSING)?;
                page.delete_node(before);
                Ok(())
            }
            PathEdit::Empty => {
                empty_page(page);
                Ok(())
            }
            PathEdit::None => Ok(()),
        }
    }
}

/// Whether the merged leaf stays in the tree.
fn is_partial(record: &Merge) -> bool {
    matches!(record.merge_type, merge_type::PARTIAL_LEFT | merge_type::PARTIAL_RIGHT)
}

/// Inserts the nodes that are not flagged deleted.
fn insert_live(page: &mut PageMut<'_>, mut at: usize, source: &Page<'_>, nodes: Range<usize>) -> Applied {
    for line in nodes {
        let node = source.node(line).ok_or(LACKS_NODES)?;
        if !node.flags.contains(NodeFlags::DELETED) {
            page.insert_nodes_from(at, source, line..line + 1).map_err(|_| NO_ROOM)?;
            at += 1;
        }
    }
    Ok(())
}

/// Changes the right neighbour of the merged leaf.
pub(crate) fn merge_to_right(page: &mut PageMut<'_>, source: &Page<'_>, record: &Merge) -> Applied {
    if matches!(record.merge_type, merge_type::FULL_RIGHT | merge_type::PARTIAL_RIGHT) {
        let first = usize::from(record.merge_line);
        if first >= source.node_count() {
            return Err(LACKS_NODES);
        }
        insert_live(page, 0, source, first..source.node_count())?;
        page.set_uncommitted_free(record.destination_uncommitted.into());
    }
    if !is_partial(record) {
        page.set_prev(record.left);
    }
    Ok(())
}

/// Changes the left neighbour of the merged leaf.
pub(crate) fn merge_to_left(page: &mut PageMut<'_>, source: &Page<'_>, record: &Merge) -> Applied {
    if matches!(record.merge_type, merge_type::FULL_LEFT | merge_type::PARTIAL_LEFT) {
        let at = page.as_page().node_count();
        insert_live(page, at, source, 0..usize::from(record.merge_line) + 1)?;
        page.set_uncommitted_free(record.destination_uncommitted.into());
    }
    if !is_partial(record) {
        page.set_next(record.right);
    }
    Ok(())
}
