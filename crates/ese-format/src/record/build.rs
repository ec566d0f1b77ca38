//! Construction of records, from scratch or from an existing record.

use std::borrow::Cow;

use smallvec::SmallVec;

use super::tagged::{self, NewEntry, header};
use super::{
    CodePage, Column, ColumnClass, ColumnFlags, ColumnId, ColumnType, ColumnValue, MultiValue, NO_VARIABLE,
    Record, RecordError, SKELETON_LEN,
};
use crate::PageSize;
use crate::long_value::LongValueId;

/// Byte with which ESE fills fixed columns that are null.
const NULL_FILL: u8 = b'*';

/// Maximum length of a value in a binary or text column that is not a long column.
const MAX_SHORT: usize = 255;

/// Length of a tag in bytes.
const TAG_LEN: usize = 4;

/// Returns the maximum length of a record in a table, which depends on the maximum length of a primary key
/// (`KeyMost`; 4 if there is no primary index).
pub fn record_limit(size: PageSize, key_most: usize) -> usize {
    let room = size.bytes() - size.header_len() - 2 * TAG_LEN;
    let key = if size.is_large() { 4 + key_most } else { 2 + (2 + key_most).max(255) };
    room.saturating_sub(key)
}

/// Builder for an encoded table record. Set columns in any order, then call [`RecordBuilder::build`].
///
/// `columns` must be sorted by number. As the format requires, setting a fixed or variable column also stores the
/// defaults of absent columns with lower numbers. If a setter fails, the column is unchanged.
#[derive(Clone, Debug)]
pub struct RecordBuilder<'t> {
    columns: &'t [Column],
    large: bool,
    limit: usize,
    last_fixed: u8,
    /// Values of the fixed columns, starting after the record's 4-byte skeleton.
    fixed: SmallVec<[u8; 32]>,
    null_bits: SmallVec<[u8; 8]>,
    /// Values of the variable columns, starting with column 128.
    variable: SmallVec<[Option<Cow<'t, [u8]>>; 4]>,
    /// Tagged columns, sorted by id, which is the storage order.
    tagged: SmallVec<[(ColumnId, NewEntry<'t>); 4]>,
}

impl<'t> RecordBuilder<'t> {
    /// Creates a builder for a record in which every column is absent.
    pub fn new(columns: &'t [Column], size: PageSize) -> RecordBuilder<'t> {
        RecordBuilder {
            columns,
            large: size.is_large(),
            limit: record_limit(size, 4),
            last_fixed: 0,
            fixed: SmallVec::new(),
            null_bits: SmallVec::new(),
            variable: SmallVec::new(),
            tagged: SmallVec::new(),
        }
    }

    /// Creates a builder with the contents of an existing record, in order to update it.
    pub fn from_record(
        columns: &'t [Column],
        size: PageSize,
        record: &Record<'t>,
    ) -> Result<RecordBuilder<'t>, RecordError> {
        let mut builder = RecordBuilder::new(columns, size);
        let (bits, end) = record.null_bits()?;
        builder.last_fixed = record.last_fixed().low_byte();
        builder.null_bits = bits.into();
        builder.fixed = record.bytes().get(SKELETON_LEN..end).unwrap_or_default().into();
        for index in 0..record.variable_count() {
            builder.variable.push(match record.variable(variable_id(index))? {
                ColumnValue::Bytes(bytes) => Some(bytes.into()),
                _ => None,
            });
        }
        for entry in record.tagged_entries()? {
            builder.put(entry.id, NewEntry::new(entry.header, entry.payload));
        }
        Ok(builder)
    }

    /// Sets the maximum record length that [`RecordBuilder::build`] accepts. The default is the limit for a table
    /// with the shortest possible keys.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Sets a column to the bytes of a value, or to null. Values of fixed text and binary columns are padded.
    pub fn set(&mut self, id: ColumnId, value: Option<&[u8]>) -> Result<(), RecordError> {
        self.set_value(id, value.map(|value| Cow::Owned(value.to_vec())))
    }

    /// Sets a column to a value, or to null. Unlike [`RecordBuilder::set`], does not copy the value until the record
    /// is built.
    pub fn set_value(&mut self, id: ColumnId, value: Option<Cow<'t, [u8]>>) -> Result<(), RecordError> {
        self.set_column(self.column(id)?, value)
    }

    /// Like [`RecordBuilder::set_value`], but takes the column itself, which must be one of the builder's columns.
    pub fn set_column(&mut self, column: &Column, value: Option<Cow<'t, [u8]>>) -> Result<(), RecordError> {
        let id = column.id;
        match &value {
            None if column.flags.contains(ColumnFlags::NOT_NULL) => {
                return Err(RecordError::NullNotAllowed(id));
            }
            Some(value) => check_length(column, value.len())?,
            None => {}
        }
        match column.class() {
            ColumnClass::Fixed => self.set_fixed(column, value.as_deref())?,
            ColumnClass::Variable => {
                self.grow_variable(id);
                if let Some(slot) = self.variable.get_mut(id.variable_index()) {
                    *slot = value;
                }
            }
            ColumnClass::Tagged => {
                let (id, long) = (column.tagged_id(), long_bit(column));
                match value {
                    Some(value) => self.put(id, NewEntry::new(long, value)),
                    // A null must be stored only if the column has a default, because an absent column takes its
                    // default value.
                    None if column.default.is_some() => self.put(id, NewEntry::new(header::NULL, &[][..])),
                    None => self.tagged.retain(|(stored, _)| *stored != id),
                }
            }
        }
        Ok(())
    }

    /// Sets a long column to a reference to a value in the long-value tree.
    pub fn set_separated(&mut self, id: ColumnId, value: LongValueId) -> Result<(), RecordError> {
        let column = self.long_column(id)?;
        self.put(column.tagged_id(), NewEntry::separated(long_bit(column), value));
        Ok(())
    }

    /// Sets a column to a long value that is already compressed; see [`crate::compression`].
    pub fn set_compressed(&mut self, id: ColumnId, compressed: &[u8]) -> Result<(), RecordError> {
        let column = self.long_column(id)?;
        let header = long_bit(column) | header::COMPRESSED;
        self.put(column.tagged_id(), NewEntry::new(header, compressed.to_vec()));
        Ok(())
    }

    /// Sets all values of a tagged column. An empty list means null. A single value is stored as if the column were
    /// not multi-valued.
    pub fn set_multi(&mut self, id: ColumnId, values: &[MultiValue<'_>]) -> Result<(), RecordError> {
        match *values {
            [] => return self.set(id, None),
            [MultiValue::Bytes(value)] => return self.set(id, Some(value)),
            [MultiValue::Compressed(value)] => return self.set_compressed(id, value),
            [MultiValue::Separated(value)] => return self.set_separated(id, value),
            _ => {}
        }
        let column = self.column(id)?;
        let long = column.kind.is_long();
        if column.class() != ColumnClass::Tagged {
            return Err(RecordError::WrongForm(id));
        }
        for value in values {
            match value {
                MultiValue::Bytes(value) => check_length(column, value.len())?,
                _ if !long => return Err(RecordError::WrongForm(id)),
                _ => {}
            }
        }
        let entry = NewEntry::multi(values, long).ok_or(RecordError::WrongForm(id))?;
        self.put(column.tagged_id(), entry);
        Ok(())
    }

    /// Returns the long values stored in the record itself, with their lengths. If the record is too long, they can
    /// be moved to the long-value tree.
    pub fn intrinsic_long_values(&self) -> Vec<(ColumnId, usize)> {
        let others = header::SEPARATED | header::MULTI | header::NULL | header::ENCRYPTED;
        let plain =
            |entry: &NewEntry<'_>| entry.header & header::LONG_VALUE != 0 && entry.header & others == 0;
        let plain = self.tagged.iter().filter(|(_, entry)| plain(entry));
        plain.map(|(id, entry)| (*id, entry.payload.len())).collect()
    }

    /// Builds the record.
    ///
    /// Fails if a column that does not allow nulls has no value, or if the record exceeds the length limit.
    pub fn build(&self) -> Result<Vec<u8>, RecordError> {
        let mut record = Vec::new();
        self.build_into(&mut record)?;
        Ok(record)
    }

    /// Builds the record into `record`, replacing its contents and reusing its memory. See [`RecordBuilder::build`].
    pub fn build_into(&self, record: &mut Vec<u8>) -> Result<(), RecordError> {
        for column in self.columns.iter().filter(|column| column.flags.contains(ColumnFlags::NOT_NULL)) {
            if column.default.is_none() && !self.has(column) {
                return Err(RecordError::NullNotAllowed(column.id));
            }
        }
        let too_big = |len| RecordError::TooBig { len, limit: self.limit };
        let end_of_fixed = SKELETON_LEN + self.fixed.len() + self.null_bits.len();
        let last_variable = usize::from(NO_VARIABLE) + self.variable.len();
        let variable_len: usize =
            self.variable.iter().map(|value| 2 + value.as_ref().map_or(0, |v| v.len())).sum();
        let tagged_len: usize = self.tagged.iter().map(|(_, entry)| 5 + entry.payload.len()).sum();
        record.clear();
        record.reserve(end_of_fixed + variable_len + tagged_len);
        record.extend_from_slice(&[self.last_fixed, last_variable as u8]);
        record.extend_from_slice(
            &u16::try_from(end_of_fixed).map_err(|_| too_big(end_of_fixed))?.to_le_bytes(),
        );
        record.extend_from_slice(&self.fixed);
        record.extend_from_slice(&self.null_bits);
        let mut end = 0;
        for value in &self.variable {
            end += value.as_ref().map_or(0, |value| value.len());
            let raw = u16::try_from(end).ok().filter(|end| *end <= 0x7fff).ok_or(too_big(end))?;
            let null = if value.is_none() { 0x8000 } else { 0 };
            record.extend_from_slice(&(raw | null).to_le_bytes());
        }
        self.variable.iter().flatten().for_each(|value| record.extend_from_slice(value));
        let entries = self.tagged.iter().map(|(id, entry)| (*id, entry));
        let start = record.len();
        tagged::encode(entries, self.large, record).ok_or(too_big(start + tagged_len))?;
        if record.len() > self.limit {
            return Err(too_big(record.len()));
        }
        Ok(())
    }

    fn column(&self, id: ColumnId) -> Result<&'t Column, RecordError> {
        let found = self.columns.binary_search_by_key(&id, |column| column.id).ok();
        found.and_then(|index| self.columns.get(index)).ok_or(RecordError::UnknownColumn(id))
    }

    fn long_column(&self, id: ColumnId) -> Result<&'t Column, RecordError> {
        self.column(id).and_then(|column| {
            if column.kind.is_long() && column.class() == ColumnClass::Tagged {
                Ok(column)
            } else {
                Err(RecordError::WrongForm(id))
            }
        })
    }

    fn put(&mut self, id: ColumnId, entry: NewEntry<'t>) {
        let at = self.tagged.partition_point(|(other, _)| *other < id);
        match self.tagged.get_mut(at).filter(|(other, _)| *other == id) {
            Some((_, there)) => *there = entry,
            None => self.tagged.insert(at, (id, entry)),
        }
    }

    /// Returns true if the column has a non-null value.
    fn has(&self, column: &Column) -> bool {
        let id = column.id;
        match id.class() {
            ColumnClass::Fixed => {
                let bit = usize::from(id.low_byte()).saturating_sub(1);
                self.null_bits.get(bit / 8).is_some_and(|byte| byte >> (bit % 8) & 1 == 0)
                    && id.low_byte() <= self.last_fixed
            }
            ColumnClass::Variable => self.variable.get(id.variable_index()).is_some_and(Option::is_some),
            ColumnClass::Tagged => {
                let found = self.tagged.iter().find(|(stored, _)| *stored == column.tagged_id());
                found.is_some_and(|(_, entry)| entry.header & header::NULL == 0)
            }
        }
    }

    fn set_fixed(&mut self, column: &Column, value: Option<&[u8]>) -> Result<(), RecordError> {
        let next = u16::from(self.last_fixed) + 1;
        let first = self.columns.partition_point(|column| column.id < next.into());
        let after = self.columns.partition_point(|other| other.id < column.id);
        let lower = self.columns.get(first..after).unwrap_or_default();
        // Sizes come from the catalog, which may be damaged. Make sure that the record is not too long for its own
        // offsets.
        let ends = lower
            .iter()
            .chain([column])
            .map(|column| column.stored_size() + usize::from(column.record_offset));
        let end = ends.max().unwrap_or(0);
        if end > usize::from(u16::MAX) {
            return Err(RecordError::TooBig { len: end, limit: self.limit });
        }
        for lower in lower {
            self.write_fixed(lower, lower.default.as_deref());
        }
        self.write_fixed(column, value);
        self.last_fixed = self.last_fixed.max(column.id.low_byte());
        Ok(())
    }

    fn write_fixed(&mut self, column: &Column, value: Option<&[u8]>) {
        let start = usize::from(column.record_offset).saturating_sub(SKELETON_LEN);
        let end = start + column.stored_size();
        if self.fixed.len() < end {
            self.fixed.resize(end, NULL_FILL);
        }
        let bit = usize::from(column.id.low_byte()).saturating_sub(1);
        if self.null_bits.len() <= bit / 8 {
            self.null_bits.resize(bit / 8 + 1, 0xff);
        }
        let (Some(slot), Some(bits)) = (self.fixed.get_mut(start..end), self.null_bits.get_mut(bit / 8))
        else {
            return;
        };
        match value {
            Some(value) => {
                let (given, padding) = slot.split_at_mut(value.len().min(slot.len()));
                given.copy_from_slice(value.get(..given.len()).unwrap_or_default());
                pad(column, given.len(), padding);
                *bits &= !(1 << (bit % 8));
            }
            None => {
                slot.fill(NULL_FILL);
                *bits |= 1 << (bit % 8);
            }
        }
    }

    fn grow_variable(&mut self, id: ColumnId) {
        for index in self.variable.len()..=id.variable_index() {
            let column = self.column(variable_id(index));
            self.variable.push(column.ok().and_then(|column| column.default.as_deref()).map(Cow::Borrowed));
        }
    }
}

fn variable_id(index: usize) -> ColumnId {
    ColumnId::from(ColumnId::FIRST_VARIABLE.number() + index as u16)
}

fn long_bit(column: &Column) -> u8 {
    if column.kind.is_long() { header::LONG_VALUE } else { 0 }
}

fn check_length(column: &Column, len: usize) -> Result<(), RecordError> {
    let fits = match column.kind.fixed_size() {
        Some(size) => len == size,
        None if column.size > 0 => len <= column.size as usize,
        None => column.kind.is_long() || len <= MAX_SHORT,
    };
    if fits { Ok(()) } else { Err(RecordError::WrongLength { column: column.id, len }) }
}

/// Pads a fixed column's slot after a value of `len` bytes, using blanks for text and zeros for binary.
fn pad(column: &Column, len: usize, rest: &mut [u8]) {
    let fill = if column.kind != ColumnType::Text {
        [0, 0]
    } else if column.code_page == CodePage::UNICODE {
        [b' ', 0]
    } else {
        [b' ', b' ']
    };
    rest.iter_mut().zip(fill.into_iter().cycle().skip(len % 2)).for_each(|(to, from)| *to = from);
}
