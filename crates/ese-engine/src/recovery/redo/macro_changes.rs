//! Macros: records that take effect together. ESE: `LRMACROBEGIN`.
//!
//! All records of a macro have the same change time. Therefore a page has either all of a macro's changes or none,
//! and its time is checked once per macro. The effects of the records on a page can depend on each other:
//!
//! - The Insert in a split names the page that is split, and the line on that page before the split. The Split2
//!   record determines which of the two pages contains the node afterwards. The node's key can be the prefix of the
//!   new page.
//! - If a parent is split together with its child, the child's separator is the node for which the parent is split.
//! - When the root of a tree moves, it names the new root of the owned extents, which moves in the same macro.
//! - The record of the merged leaf contains the key for the pages above it, and the side to which nodes move.

use ese_format::PageNumber;
use ese_format::log::record::{LogRecord, Merge, PageMove, PageMoveFlags, Split, split_operation};
use ese_format::page::PageFlags;

use super::page_redo::{PageRole, pages_of};
use crate::MacroError;
use crate::pages::merge::{PathEdit, merge_type};
use crate::pages::{apply, is_split_operation};

/// Effects of one log record on pages.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PageEffects {
    pub pages: Vec<(PageNumber, PageRole)>,
    /// Key of a split's incoming node, if this key is the new page's prefix; the separator of a merge; or the new
    /// root of the owned extents of a tree whose root moves.
    pub key: Option<Box<[u8]>>,
}

impl PageEffects {
    /// Returns the effects of a record that does not depend on other records.
    pub fn from_single_record(record: &LogRecord) -> PageEffects {
        PageEffects { pages: pages_of(record).0, key: None }
    }
}

/// Returns the effects that each record of a complete macro has on pages. `has_begin` is false if redo starts inside
/// the macro.
pub(super) fn macro_effects(records: &[LogRecord], has_begin: bool) -> Result<Vec<PageEffects>, MacroError> {
    let splits: Vec<&Split> = records.iter().filter_map(split_of).collect();
    let merged_leaf = merged_leaf(records, has_begin)?;
    records
        .iter()
        .map(|record| match (record, split_of(record)) {
            (LogRecord::Merge2(merge), _) => match merged_leaf {
                Some(leaf) => merge_effects(record, merge, leaf),
                None => Ok(PageEffects::from_single_record(record)),
            },
            (LogRecord::PageMove(moved), _) => Ok(move_effects(record, moved, records)),
            (_, Some(split)) => split_effects(record, split, &splits, records),
            _ if is_split_operation(record) => operation_effects(record, &splits),
            _ => Ok(PageEffects::from_single_record(record)),
        })
        .collect()
}

/// Returns the record of the merged leaf. Each changed internal page has a separate record; at least the leaf's
/// parent has one.
fn merged_leaf(records: &[LogRecord], whole: bool) -> Result<Option<&Merge>, MacroError> {
    let merges = || {
        records.iter().filter_map(|record| match record {
            LogRecord::Merge2(merge) => Some(merge),
            _ => None,
        })
    };
    let known = [
        merge_type::PATH,
        merge_type::EMPTY_PAGE,
        merge_type::FULL_RIGHT,
        merge_type::PARTIAL_RIGHT,
        merge_type::FULL_LEFT,
        merge_type::PARTIAL_LEFT,
    ];
    if merges().any(|merge| !known.contains(&merge.merge_type)) {
        return Err(MacroError::MergeType);
    }
    let mut leaves = merges().filter(|merge| merge.merge_type != merge_type::PATH);
    match (merges().next(), leaves.next(), leaves.next()) {
        (None, ..) => Ok(None),
        (_, Some(_), _) if whole && merges().all(|merge| merge.merge_type != merge_type::PATH) => {
            Err(MacroError::MergeOfEarlierVersion)
        }
        (_, Some(leaf), None) => Ok(Some(leaf)),
        _ => Err(MacroError::Merge),
    }
}

fn merge_effects(record: &LogRecord, merge: &Merge, leaf: &Merge) -> Result<PageEffects, MacroError> {
    if merge.merge_type != merge_type::PATH {
        return Ok(PageEffects::from_single_record(record));
    }
    let pages = vec![(merge.change.page, PageRole::Path(PathEdit::from_record(merge, leaf)?))];
    Ok(PageEffects { pages, key: Some(leaf.separator.as_slice().into()) })
}

fn move_effects(record: &LogRecord, moved: &PageMove, records: &[LogRecord]) -> PageEffects {
    let mut effects = PageEffects::from_single_record(record);
    if moved.flags.contains(PageMoveFlags::ROOT) {
        let owned = records.iter().find_map(|other| match other {
            LogRecord::PageMove(owned) if owned.flags.contains(PageMoveFlags::OWNED_ROOT) => Some(owned),
            _ => None,
        });
        effects.key = owned.map(|owned| owned.destination.get().to_le_bytes().as_slice().into());
    }
    effects
}

/// Returns the split in a record if it adds a page.
fn split_of(record: &LogRecord) -> Option<&Split> {
    match record {
        LogRecord::Split2(split) if split.new_page.is_some() => Some(split),
        _ => None,
    }
}

/// Returns the page and line to which line `line` of the split page moves.
fn after_split(split: &Split, line: u16) -> Option<(PageNumber, u16)> {
    match line.checked_sub(split.split_line) {
        Some(line) => Some((split.new_page?, line)),
        None => Some((split.change.page, line)),
    }
}

/// Returns whether `parent` is split to make room for the separator of `child`.
fn makes_room_for(parent: &Split, child: &Split) -> bool {
    child.parent == Some(parent.change.page)
        && parent.operation == split_operation::INSERT
        && !PageFlags::from_bits_retain(parent.new_flags).contains(PageFlags::LEAF)
}

fn split_effects(
    record: &LogRecord,
    split: &Split,
    splits: &[&Split],
    records: &[LogRecord],
) -> Result<PageEffects, MacroError> {
    let mut placed = PageEffects::from_single_record(record);
    if let Some(parent) = splits.iter().find(|parent| makes_room_for(parent, split)) {
        let line = parent.operation_line;
        let separator = after_split(parent, line);
        let pointer = line.checked_add(1).and_then(|line| after_split(parent, line));
        let (Some((separator_page, separator)), Some((pointer_page, pointer))) = (separator, pointer) else {
            return Err(MacroError::NoSeparatorLine);
        };
        placed.pages.retain(|(_, role)| *role != PageRole::Parent);
        placed.pages.push((separator_page, PageRole::Separator(separator)));
        placed.pages.push((pointer_page, PageRole::Pointer(pointer)));
    }
    if split.operation == split_operation::NONE {
        return Ok(placed);
    }
    let key = incoming_key(split, splits, records)?;
    if apply::prefix_is_incoming(split) {
        placed.key = Some(key.into());
    }
    Ok(placed)
}

/// Returns the key of the node for which the page is split.
fn incoming_key(split: &Split, splits: &[&Split], records: &[LogRecord]) -> Result<Vec<u8>, MacroError> {
    if let Some(child) = splits.iter().find(|child| makes_room_for(split, child)) {
        return Ok(child.parent_key.clone());
    }
    let operation = records.iter().find(|record| {
        is_split_operation(record)
            && record.node_change().is_some_and(|node| {
                (node.page.page, node.page.line) == (split.change.page, split.operation_line)
            })
    });
    match (operation, split.operation) {
        (Some(LogRecord::Insert(insert)), split_operation::INSERT) => Ok(insert.key()),
        (Some(LogRecord::Replace(_) | LogRecord::ReplaceD(_)), split_operation::REPLACE) => Ok(Vec::new()),
        (Some(LogRecord::FlagInsertAndReplaceData(_)), split_operation::FLAG_INSERT_AND_REPLACE) => {
            Ok(Vec::new())
        }
        _ => Err(MacroError::NoIncomingChange),
    }
}

/// Returns the change for which a leaf is split, placed on the page that contains the changed node after the split.
fn operation_effects(record: &LogRecord, splits: &[&Split]) -> Result<PageEffects, MacroError> {
    let node = record.node_change().ok_or(MacroError::NoDbTime)?;
    let (page, line) = splits
        .iter()
        .filter(|split| split.operation != split_operation::NONE)
        .find(|split| (split.change.page, split.operation_line) == (node.page.page, node.page.line))
        .and_then(|split| after_split(split, node.page.line))
        .ok_or(MacroError::NoSplit)?;
    Ok(PageEffects { pages: vec![(page, PageRole::Operation(line))], key: None })
}
