//! Recognizes the records of a table in bytes of unknown origin, such as the free space of a page.
//!
//! The last fixed column of a record determines where its fixed columns end. Therefore, its first four bytes can have
//! only a few values. The offsets that follow must be in order. The end of a record is not stored: it is known unless
//! the last tagged column has a value of variable length.

use super::tagged::{TaggedArea, header};
use super::{CodePage, Column, ColumnClass, ColumnId, ColumnType, NO_VARIABLE, Record, SKELETON_LEN};
use crate::PageSize;

/// Properties that all records of a table share.
#[derive(Clone, Debug)]
pub struct RecordShape {
    /// End of the fixed columns for each last fixed column. `None` if there is no such column.
    fixed_ends: Vec<Option<u16>>,
    last_variable: u8,
    /// Tagged columns, sorted by id.
    tagged: Vec<Column>,
    size: PageSize,
}

/// Length of a record that was recognized.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordExtent {
    /// Length in bytes if it is known. Otherwise, the record may have any length from `known` on.
    pub len: Option<usize>,
    /// Length of the part that certainly belongs to the record.
    pub known: usize,
}

impl RecordShape {
    /// Returns the shape of records with these columns, which must be sorted by id and include inherited columns.
    pub fn new<'c>(columns: impl Iterator<Item = &'c Column>, size: PageSize) -> RecordShape {
        let mut shape = RecordShape {
            fixed_ends: vec![u16::try_from(SKELETON_LEN).ok()],
            last_variable: NO_VARIABLE,
            tagged: Vec::new(),
            size,
        };
        for column in columns {
            let number = column.id.number();
            match column.class() {
                ColumnClass::Fixed if number > 0 => {
                    let (place, start) = (usize::from(number), usize::from(column.record_offset));
                    let end = |last: usize, values: usize| u16::try_from(values + last.div_ceil(8)).ok();
                    if shape.fixed_ends.len() < place {
                        // The previous column was deleted, but old records contain it.
                        shape.fixed_ends.resize(place - 1, None);
                        shape.fixed_ends.push(end(place - 1, start));
                    }
                    shape.fixed_ends.push(end(place, start.saturating_add(column.stored_size())));
                }
                ColumnClass::Fixed => {}
                ColumnClass::Variable => {
                    shape.last_variable = shape.last_variable.max(column.id.low_byte());
                }
                ColumnClass::Tagged => shape.tagged.push(column.clone()),
            }
        }
        shape.tagged.sort_by_key(|column| column.id);
        shape
    }

    /// Returns true if `bytes` start like a record. The check is fast and rejects almost all other bytes.
    pub fn starts_record(&self, bytes: &[u8]) -> bool {
        let Some(&[fixed, variable, low, high]) = bytes.first_chunk() else { return false };
        let end = self.fixed_ends.get(usize::from(fixed)).copied().flatten();
        end == Some(u16::from_le_bytes([low, high]))
            && (NO_VARIABLE..=self.last_variable).contains(&variable)
            && bytes.len() >= usize::from(u16::from_le_bytes([low, high]))
    }

    /// Recognizes a record at the start of `bytes`, which may continue after it.
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

    /// Removes the zeros after a record whose length is not known. They are probably not part of its last value.
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

    /// Recognizes a tagged area. The extent is empty if the record has none. Returns `None` if the area is invalid.
    fn recognize_tagged(&self, area: &[u8]) -> Option<RecordExtent> {
        let last_number = self.tagged.iter().map(|column| column.id.number()).max().unwrap_or(0);
        let first = area.first_chunk().map_or(0, |first| u16::from_le_bytes(*first));
        if !(ColumnId::FIRST_TAGGED.number()..=last_number).contains(&first) {
            return Some(RecordExtent { len: Some(0), known: 0 });
        }
        let positions = TaggedArea::new(area, self.size.is_large()).ok()?.positions()?;
        let mut previous: Option<(ColumnId, usize)> = None;
        for &(id, offset) in &positions {
            // Old records contain values of deleted columns, which are not in the list of columns.
            let possible = id.class() == ColumnClass::Tagged && id.number() <= last_number;
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
        // Records do not mark inherited columns of the oldest format.
        self.tagged.get(find(stored).or_else(|| find(stored.inherited()))?)
    }
}
