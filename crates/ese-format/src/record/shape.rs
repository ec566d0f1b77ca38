//! Recognizes the records of a table in bytes of unknown origin, such as the free space of a page.
//!
//! The last fixed column of a record determines the end of its fixed columns. The first four bytes of a record can
//! therefore have only a few values. The offsets that follow must be in order. The length of a record is not stored,
//! but it can be derived unless the last tagged column has a value of variable length.

use std::ops::RangeInclusive;

use super::tagged::{TaggedArea, header};
use super::{CodePage, Column, ColumnClass, ColumnId, ColumnType, NO_VARIABLE, Record, SKELETON_LEN};
use crate::PageSize;

/// Maximum size of a fixed column in bytes.
const MAX_FIXED_SIZE: usize = 255;

/// Properties that all records of a table share.
#[derive(Clone, Debug)]
pub struct RecordShape {
    /// Possible ends of the fixed columns, by the number of the last one. If that column was deleted, its size is
    /// unknown, so there is a range of ends. `None` if the table has no such column.
    fixed_ends: Vec<Option<RangeInclusive<u16>>>,
    /// Number of the last variable column, including deleted columns.
    last_variable: u8,
    /// Number of the last tagged column, including deleted columns.
    last_tagged: u16,
    /// Tagged columns, sorted by id.
    tagged: Vec<Column>,
    size: PageSize,
}

/// Length of a recognized record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordExtent {
    /// Length in bytes, if known. Otherwise, the record is at least `known` bytes long.
    pub len: Option<usize>,
    /// Length of the part that certainly belongs to the record.
    pub known: usize,
}

/// Returns the possible ends of the fixed columns, including their null bits, given that column `last` is the last
/// fixed column. The value of that column ends between `first_end` and `last_end`.
fn fixed_ends(last: usize, first_end: usize, last_end: usize) -> Option<RangeInclusive<u16>> {
    let end = |values: usize| u16::try_from(values + last.div_ceil(8)).ok();
    Some(end(first_end)?..=end(last_end)?)
}

impl RecordShape {
    /// Returns the shape of records with these columns, which must be sorted by id and include inherited columns.
    /// Records may also contain columns that were deleted.
    pub fn new<'c>(
        columns: impl Iterator<Item = &'c Column>,
        deleted: &[ColumnId],
        size: PageSize,
    ) -> RecordShape {
        let mut shape = RecordShape {
            fixed_ends: Vec::new(),
            last_variable: NO_VARIABLE,
            last_tagged: 0,
            tagged: Vec::new(),
            size,
        };
        let skeleton = u16::try_from(SKELETON_LEN).unwrap_or(u16::MAX);
        shape.fixed_ends.push(Some(skeleton..=skeleton));
        // End of the values up to the last known column.
        let mut known = SKELETON_LEN;
        for column in columns {
            shape.include(column.id);
            match column.class() {
                ColumnClass::Fixed if column.id.number() > 0 => {
                    let (place, start) = (usize::from(column.id.number()), usize::from(column.record_offset));
                    shape.add_deleted_fixed(place.saturating_sub(1), known, start, deleted);
                    if shape.fixed_ends.len() < place {
                        // The previous column was deleted, but old records contain it.
                        shape.fixed_ends.push(fixed_ends(place - 1, start, start));
                    }
                    known = start.saturating_add(column.stored_size());
                    shape.fixed_ends.push(fixed_ends(place, known, known));
                }
                ColumnClass::Fixed | ColumnClass::Variable => {}
                ColumnClass::Tagged => shape.tagged.push(column.clone()),
            }
        }
        deleted.iter().for_each(|id| shape.include(*id));
        let fixed = deleted.iter().filter(|id| id.class() == ColumnClass::Fixed);
        let last = fixed.map(|id| usize::from(id.number())).max().unwrap_or(0);
        shape.add_deleted_fixed(last + 1, known, size.bytes(), deleted);
        shape.tagged.sort_by_key(|column| column.id);
        shape
    }

    /// Makes the shape include column `id`, by raising the number of the last variable or tagged column if necessary.
    fn include(&mut self, id: ColumnId) {
        match id.class() {
            ColumnClass::Fixed => {}
            ColumnClass::Variable => self.last_variable = self.last_variable.max(id.low_byte()),
            ColumnClass::Tagged => self.last_tagged = self.last_tagged.max(id.number()),
        }
    }

    /// Adds the ends of the deleted fixed columns before `place`. Their sizes are unknown, but their values lie
    /// between `known` and `next`, the start of the next known column.
    fn add_deleted_fixed(&mut self, place: usize, known: usize, next: usize, deleted: &[ColumnId]) {
        let first = self.fixed_ends.len();
        for last in first..place {
            let is_deleted = deleted.iter().any(|id| u32::try_from(last) == Ok(id.0));
            let longest = known.saturating_add((last + 1 - first) * MAX_FIXED_SIZE).min(next);
            self.fixed_ends.push(is_deleted.then(|| fixed_ends(last, known, longest)).flatten());
        }
    }

    /// Returns true if `bytes` start like a record. The check is fast and rejects almost all other bytes.
    pub fn starts_record(&self, bytes: &[u8]) -> bool {
        let Some(&[fixed, variable, low, high]) = bytes.first_chunk() else { return false };
        let end = u16::from_le_bytes([low, high]);
        let ends = self.fixed_ends.get(usize::from(fixed)).and_then(Option::as_ref);
        ends.is_some_and(|ends| ends.contains(&end))
            && (NO_VARIABLE..=self.last_variable).contains(&variable)
            && bytes.len() >= usize::from(end)
    }

    /// Recognizes a record at the start of `bytes`. The record may be followed by other bytes.
    pub fn recognize(&self, bytes: &[u8]) -> Option<RecordExtent> {
        if !self.starts_record(bytes) {
            return None;
        }
        let record = Record::new(bytes, self.size);
        let data = record.variable_data().ok()?;
        let mut last = 0;
        for index in 0..record.variable_count() {
            let end = usize::from(record.variable_end(index).ok()? & 0x7fff);
            if end < last || end > data.len() {
                return None;
            }
            last = end;
        }
        let start = bytes.len() - data.len() + last;
        let RecordExtent { len, known } = self.recognize_tagged(data.get(last..)?)?;
        Some(RecordExtent { len: len.map(|len| start + len), known: start + known })
    }

    /// Returns true if `record` is a complete record: it has the shape, its length is right, and all its values can be
    /// decoded.
    pub fn accepts(&self, record: &[u8]) -> bool {
        self.recognize(record).is_some_and(|extent| extent.len.is_none_or(|len| len == record.len()))
            && Record::new(record, self.size).validate().is_ok()
    }

    /// Removes trailing zeros from a record of unknown length, because they are probably not part of its last value.
    pub fn trim<'b>(&self, bytes: &'b [u8], extent: RecordExtent) -> &'b [u8] {
        let zeros = bytes.iter().rev().take_while(|byte| **byte == 0).count();
        let mut end = (bytes.len() - zeros).max(extent.known);
        let last = Record::new(bytes, self.size).tagged_columns().last();
        let utf16 = last.and_then(|(id, _)| self.tagged_column(id)).is_some_and(|column| {
            matches!(column.kind, ColumnType::Text | ColumnType::LongText)
                && column.code_page == CodePage::UNICODE
        });
        if utf16 && !(end - extent.known).is_multiple_of(2) {
            end += 1;
        }
        bytes.get(..end).unwrap_or(bytes)
    }

    /// Recognizes a tagged area at the start of `area`. If the record has none, the extent is empty. Returns `None`
    /// if the area is invalid.
    fn recognize_tagged(&self, area: &[u8]) -> Option<RecordExtent> {
        let first = area.first_chunk().map_or(0, |first| u16::from_le_bytes(*first));
        if !(ColumnId::FIRST_TAGGED.number()..=self.last_tagged).contains(&first) {
            return Some(RecordExtent { len: Some(0), known: 0 });
        }
        let positions = TaggedArea::new(area, self.size.is_large()).ok()?.positions()?;
        let mut previous: Option<(ColumnId, usize)> = None;
        for &(id, offset) in &positions {
            // Old records contain values of deleted columns, which are not in the list of columns.
            let possible = id.class() == ColumnClass::Tagged && id.number() <= self.last_tagged;
            let ordered = previous.is_none_or(|(before, start)| before < id && start <= offset);
            if !possible || !ordered || offset > area.len() {
                return None;
            }
            previous = Some((id, offset));
        }
        let (id, offset) = previous?;
        let (header, payload) = TaggedArea::new(area, self.size.is_large())
            .ok()?
            .entries()
            .last()?
            .map(|entry| (entry.header, entry.payload))
            .ok()?;
        let has_header = area.len() - payload.len() > offset;
        let known = offset + usize::from(has_header);
        let fixed = self.tagged_column(id).and_then(|column| column.kind.fixed_size());
        let len = match fixed {
            _ if header & header::NULL != 0 => Some(known),
            Some(size) if header == 0 && size > payload.len() => return None,
            Some(size) if header == 0 => Some(known + size),
            _ => None,
        };
        Some(RecordExtent { len, known: len.unwrap_or(known) })
    }

    fn tagged_column(&self, stored: ColumnId) -> Option<&Column> {
        let find = |id| self.tagged.binary_search_by_key(&id, |column| column.id).ok();
        // In the oldest format, records do not mark inherited columns.
        self.tagged.get(find(stored).or_else(|| find(stored.inherited()))?)
    }
}
