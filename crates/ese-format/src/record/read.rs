//! Read access to a record, column by column, without copying.

use super::column_value::ColumnValue;
use super::tagged::{TaggedArea, TaggedEntry};
use super::{Column, ColumnClass, ColumnId, RecordError, SKELETON_LEN};
use crate::PageSize;

/// Read-only view of an encoded table record. It is cheap to create and safe for arbitrary bytes.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    bytes: &'a [u8],
    large: bool,
}

impl<'a> Record<'a> {
    /// Creates a view of `bytes`, which is a record from a database with the given page size.
    pub fn new(bytes: &'a [u8], size: PageSize) -> Record<'a> {
        Record { bytes, large: size.is_large() }
    }

    /// Returns the bytes of the record.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the highest fixed column that the record stores, or 0 if it stores none.
    #[doc(alias = "fidFixedLastInRec")]
    pub fn last_fixed(&self) -> ColumnId {
        u16::from(self.bytes.first().copied().unwrap_or(0)).into()
    }

    /// Returns the highest variable column that the record stores, or 127 if it stores none.
    #[doc(alias = "fidVarLastInRec")]
    pub fn last_variable(&self) -> ColumnId {
        u16::from(self.bytes.get(1).copied().unwrap_or(super::NO_VARIABLE)).into()
    }

    /// Returns what the record stores for `column`, without applying the default.
    pub fn get(&self, column: &Column) -> Result<ColumnValue<'a>, RecordError> {
        match column.class() {
            ColumnClass::Fixed => self.fixed(column),
            ColumnClass::Variable => self.variable(column.id),
            ColumnClass::Tagged => match self.tagged_area()?.find(column)? {
                Some(entry) => entry.value(column.id),
                None => Ok(ColumnValue::Absent),
            },
        }
    }

    /// Returns the stored bytes of a tagged column, without its header byte, even if they are not a valid value.
    /// Returns `None` for columns of other classes, and if the record does not store the column.
    pub fn stored_bytes(&self, column: &Column) -> Option<&'a [u8]> {
        match column.class() {
            ColumnClass::Tagged => Some(self.tagged_area().ok()?.find(column).ok()??.payload),
            ColumnClass::Fixed | ColumnClass::Variable => None,
        }
    }

    /// Returns what the record stores for `column`. Unlike [`Record::get`], returns the column's default for an
    /// absent value, or null if there is no default.
    pub fn get_or_default<'b>(&self, column: &'b Column) -> Result<ColumnValue<'b>, RecordError>
    where
        'a: 'b,
    {
        Ok(match self.get(column)? {
            ColumnValue::Absent => column.default.as_deref().map_or(ColumnValue::Null, ColumnValue::Bytes),
            stored => stored,
        })
    }

    /// Returns all tagged columns in storage order.
    pub fn tagged(&self) -> Result<Vec<(ColumnId, ColumnValue<'a>)>, RecordError> {
        self.tagged_area()?
            .entries()
            .map(|entry| entry.and_then(|entry| Ok((entry.id, entry.value(entry.id)?))))
            .collect()
    }

    /// Iterates over the tagged columns, in the form returned by [`Record::tagged`]. Stops at the first column that
    /// cannot be decoded.
    pub fn tagged_columns(&self) -> impl Iterator<Item = (ColumnId, ColumnValue<'a>)> + use<'a> {
        let entries = self.tagged_area().into_iter().flat_map(TaggedArea::entries);
        entries.map_while(|entry| {
            let entry = entry.ok()?;
            Some((entry.id, entry.value(entry.id).ok()?))
        })
    }

    /// Validates everything that can be checked without the table's schema.
    pub fn validate(&self) -> Result<(), RecordError> {
        self.null_bits()?;
        if self.last_fixed() > ColumnId::LAST_FIXED {
            return Err(RecordError::BadOffsets("fixed columns"));
        }
        let data = self.variable_data()?;
        let mut last = 0;
        for index in 0..self.variable_count() {
            let end = usize::from(self.variable_end(index)? & 0x7fff);
            if end < last || end > data.len() {
                return Err(RecordError::BadOffsets("variable columns"));
            }
            last = end;
        }
        let mut last = None;
        for entry in self.tagged_area()?.entries() {
            let entry = entry?;
            if last.is_some_and(|last| last >= entry.id) {
                return Err(RecordError::BadOffsets("tagged columns"));
            }
            last = Some(entry.id);
            entry.value(entry.id)?;
        }
        Ok(())
    }

    /// Returns the offset at which the array of variable-column end offsets starts. ESE: `ibEndOfFixedData`.
    fn end_of_fixed(&self) -> Result<usize, RecordError> {
        let end = self.bytes.get(2..4).and_then(|bytes| bytes.try_into().ok()).map(u16::from_le_bytes);
        end.map(usize::from).ok_or(RecordError::Truncated("skeleton"))
    }

    /// Returns the null bits of the fixed columns, and the offset at which they start.
    pub(super) fn null_bits(&self) -> Result<(&'a [u8], usize), RecordError> {
        let end = self.end_of_fixed()?;
        let len = usize::from(self.last_fixed().number()).div_ceil(8);
        let start = end
            .checked_sub(len)
            .filter(|start| *start >= SKELETON_LEN)
            .ok_or(RecordError::BadOffsets("fixed columns"))?;
        let bits = self.bytes.get(start..end).ok_or(RecordError::Truncated("fixed columns"))?;
        Ok((bits, start))
    }

    fn fixed(&self, column: &Column) -> Result<ColumnValue<'a>, RecordError> {
        if column.id > self.last_fixed() || column.id.number() == 0 {
            return Ok(ColumnValue::Absent);
        }
        let (bits, end) = self.null_bits()?;
        let bit = usize::from(column.id.number()) - 1;
        if bits.get(bit / 8).is_some_and(|byte| byte >> (bit % 8) & 1 == 1) {
            return Ok(ColumnValue::Null);
        }
        let start = usize::from(column.record_offset);
        let place = start..start.saturating_add(column.stored_size());
        if start < SKELETON_LEN || place.end > end {
            return Err(RecordError::BadOffsets("fixed columns"));
        }
        self.bytes.get(place).map(ColumnValue::Bytes).ok_or(RecordError::Truncated("fixed columns"))
    }

    pub(super) fn variable_count(&self) -> usize {
        usize::from(self.last_variable().number().saturating_sub(ColumnId::LAST_FIXED.number()))
    }

    pub(super) fn variable_end(&self, index: usize) -> Result<u16, RecordError> {
        let at = self.end_of_fixed()? + 2 * index;
        let bytes = self.bytes.get(at..at + 2).and_then(|bytes| bytes.try_into().ok());
        bytes.map(u16::from_le_bytes).ok_or(RecordError::Truncated("variable offsets"))
    }

    /// Returns all bytes after the offset array.
    pub(super) fn variable_data(&self) -> Result<&'a [u8], RecordError> {
        let start = self.end_of_fixed()? + 2 * self.variable_count();
        self.bytes.get(start..).ok_or(RecordError::Truncated("variable offsets"))
    }

    pub(super) fn variable(&self, id: ColumnId) -> Result<ColumnValue<'a>, RecordError> {
        if id > self.last_variable() {
            return Ok(ColumnValue::Absent);
        }
        let index = id.variable_index();
        let end = self.variable_end(index)?;
        if end & 0x8000 != 0 {
            return Ok(ColumnValue::Null);
        }
        let start = match index.checked_sub(1) {
            Some(before) => self.variable_end(before)? & 0x7fff,
            None => 0,
        };
        let (start, end) = (usize::from(start), usize::from(end));
        let data = self.variable_data()?;
        data.get(start..end).map(ColumnValue::Bytes).ok_or(RecordError::BadOffsets("variable columns"))
    }

    pub(super) fn tagged_area(&self) -> Result<TaggedArea<'a>, RecordError> {
        let start = match self.variable_count().checked_sub(1) {
            Some(last) => usize::from(self.variable_end(last)? & 0x7fff),
            None => 0,
        };
        let area = self.variable_data()?.get(start..).ok_or(RecordError::Truncated("variable columns"))?;
        TaggedArea::new(area, self.large)
    }

    pub(super) fn tagged_entries(&self) -> Result<Vec<TaggedEntry<'a>>, RecordError> {
        self.tagged_area()?.entries().collect()
    }
}
