//! The tagged area at the end of a record: columns that are stored only if they have a value.
//!
//! ```text
//!  | u16 column, u16 offset | ... | value | value | ...      sorted; template columns (0x8000) come first
//!  offset bits        small page               large page
//!    0x8000           column of a template     same
//!    0x4000           header byte present      part of the offset; the header byte is always present
//!    0x2000           null                     part of the offset
//!  value: [header byte] bytes
//!    header 0x01 long value | 0x02 compressed | 0x04 separated: bytes are a LID
//!           0x08 several: u16 offsets (0x8000: that value is a LID), values; 0x02 then means value 0 is compressed
//!           0x18 two:     u8 length of the first, both values
//!           0x20 null     | 0x40 encrypted
//! ```
//!
//! Offsets are relative to the start of the area. The first offset, divided by four, is the number of entries. The
//! null and encrypted bits are taken from Microsoft's source. All other bits were verified on real records.

use std::borrow::Cow;

use smallvec::SmallVec;

use super::column_value::{ColumnValue, MultiValue};
use super::{Column, ColumnId, RecordError};
use crate::long_value::LongValueId;

const AREA: &str = "tagged columns";

/// Bits of the header byte. ESE: `TAGFLD_HEADER`.
pub(super) mod header {
    pub const LONG_VALUE: u8 = 0x01;
    pub const COMPRESSED: u8 = 0x02;
    pub const SEPARATED: u8 = 0x04;
    pub const MULTI: u8 = 0x08;
    pub const TWO: u8 = 0x10;
    pub const NULL: u8 = 0x20;
    pub const ENCRYPTED: u8 = 0x40;
}

const ENTRY_LEN: usize = 4;
const DERIVED: u16 = 0x8000;
const SMALL_HAS_HEADER: u16 = 0x4000;
const SMALL_NULL: u16 = 0x2000;

/// Mask for the offset of one of several values, excluding the separation bit.
const OFFSET: u16 = 0x7fff;
const VALUE_SEPARATED: u16 = 0x8000;

#[derive(Clone, Copy)]
pub(super) struct TaggedArea<'a> {
    bytes: &'a [u8],
    count: usize,
    large: bool,
}

/// A tagged column in a record. Its flags have the same form for all page sizes.
#[derive(Clone, Copy, Debug)]
pub(super) struct TaggedEntry<'a> {
    pub id: ColumnId,
    /// Header byte, or 0 if the entry has none. The null bit used by small pages is converted to [`header::NULL`].
    pub header: u8,
    pub payload: &'a [u8],
}

impl<'a> TaggedArea<'a> {
    pub fn new(bytes: &'a [u8], large: bool) -> Result<TaggedArea<'a>, RecordError> {
        let mut area = TaggedArea { bytes, count: 0, large };
        if !bytes.is_empty() {
            let (_, first) = area.descriptor(0)?;
            let first = area.offset(first);
            if first == 0 || !first.is_multiple_of(ENTRY_LEN) || first > bytes.len() {
                return Err(RecordError::BadOffsets(AREA));
            }
            area.count = first / ENTRY_LEN;
        }
        Ok(area)
    }

    /// Returns the id of every entry and its offset in the area. Returns `None` if an entry is truncated.
    pub fn positions(self) -> Option<Vec<(ColumnId, usize)>> {
        let position =
            |index| self.descriptor(index).ok().map(|(id, raw)| (entry_id(id, raw), self.offset(raw)));
        (0..self.count).map(position).collect()
    }

    fn descriptor(&self, index: usize) -> Result<(u16, u16), RecordError> {
        match self.bytes.get(index * ENTRY_LEN..(index + 1) * ENTRY_LEN) {
            Some(&[a, b, c, d]) => Ok((u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]))),
            _ => Err(RecordError::Truncated(AREA)),
        }
    }

    fn offset(&self, raw: u16) -> usize {
        usize::from(raw & if self.large { 0x7fff } else { 0x1fff })
    }

    fn entry(&self, index: usize) -> Result<TaggedEntry<'a>, RecordError> {
        let (id, raw) = self.descriptor(index)?;
        let end = if index + 1 < self.count {
            self.offset(self.descriptor(index + 1)?.1)
        } else {
            self.bytes.len()
        };
        let payload = self.bytes.get(self.offset(raw)..end).ok_or(RecordError::BadOffsets(AREA))?;
        let (header, payload) = if !self.large && raw & SMALL_NULL != 0 {
            (header::NULL, payload)
        } else if self.large || raw & SMALL_HAS_HEADER != 0 {
            let (header, payload) = payload.split_first().ok_or(RecordError::Truncated(AREA))?;
            (*header, payload)
        } else {
            (0, payload)
        };
        Ok(TaggedEntry { id: entry_id(id, raw), header, payload })
    }

    pub fn entries(self) -> impl Iterator<Item = Result<TaggedEntry<'a>, RecordError>> {
        (0..self.count).map(move |index| self.entry(index))
    }

    /// Returns the entry for a column of the table, if there is one.
    pub fn find(&self, column: &Column) -> Result<Option<TaggedEntry<'a>>, RecordError> {
        match self.find_id(column.id)? {
            None if column.tagged_id() != column.id => self.find_id(column.tagged_id()),
            found => Ok(found),
        }
    }

    fn find_id(&self, id: ColumnId) -> Result<Option<TaggedEntry<'a>>, RecordError> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            let (found, raw) = self.descriptor(middle)?;
            match entry_id(found, raw).cmp(&id) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return self.entry(middle).map(Some),
            }
        }
        Ok(None)
    }
}

fn entry_id(number: u16, raw: u16) -> ColumnId {
    let id = ColumnId::from(number);
    if raw & DERIVED != 0 { id.inherited() } else { id }
}

impl<'a> TaggedEntry<'a> {
    pub fn value(&self, column: ColumnId) -> Result<ColumnValue<'a>, RecordError> {
        let (header, payload) = (self.header, self.payload);
        Ok(if header & header::NULL != 0 {
            ColumnValue::Null
        } else if header & header::TWO != 0 {
            let wrong = RecordError::BadOffsets("two values");
            let (len, values) = payload.split_first().ok_or(wrong)?;
            let (first, second) = values.split_at_checked((*len).into()).ok_or(wrong)?;
            ColumnValue::Multi(vec![MultiValue::Bytes(first), MultiValue::Bytes(second)])
        } else if header & header::MULTI != 0 {
            ColumnValue::Multi(self.values(column)?)
        } else if header & header::SEPARATED != 0 {
            ColumnValue::Separated(separated(payload, column)?)
        } else if header & header::ENCRYPTED != 0 {
            ColumnValue::Encrypted(payload)
        } else if header & header::COMPRESSED != 0 {
            ColumnValue::Compressed(payload)
        } else {
            ColumnValue::Bytes(payload)
        })
    }

    fn values(&self, column: ColumnId) -> Result<Vec<MultiValue<'a>>, RecordError> {
        let wrong = RecordError::BadOffsets("multi-values");
        let raw = |index: usize| match self.payload.get(2 * index..2 * index + 2) {
            Some(&[low, high]) => Ok(u16::from_le_bytes([low, high])),
            _ => Err(wrong),
        };
        let first = usize::from(raw(0)? & OFFSET);
        if first == 0 || !first.is_multiple_of(2) || first > self.payload.len() {
            return Err(wrong);
        }
        let count = first / 2;
        (0..count)
            .map(|index| {
                let start = raw(index)?;
                let end = if index + 1 < count {
                    usize::from(raw(index + 1)? & OFFSET)
                } else {
                    self.payload.len()
                };
                let value = self.payload.get(usize::from(start & OFFSET)..end).ok_or(wrong)?;
                Ok(if start & VALUE_SEPARATED != 0 {
                    MultiValue::Separated(separated(value, column)?)
                } else if index == 0 && self.header & header::COMPRESSED != 0 {
                    MultiValue::Compressed(value)
                } else {
                    MultiValue::Bytes(value)
                })
            })
            .collect()
    }
}

fn separated(bytes: &[u8], column: ColumnId) -> Result<LongValueId, RecordError> {
    LongValueId::from_record(bytes).ok_or(RecordError::WrongLength { column, len: bytes.len() })
}

/// A tagged column to be encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NewEntry<'v> {
    pub header: u8,
    pub payload: NewPayload<'v>,
}

/// Bytes that follow the header byte of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NewPayload<'v> {
    Value(Cow<'v, [u8]>),
    Separated(SmallVec<[u8; 8]>),
}

impl std::ops::Deref for NewPayload<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            NewPayload::Value(bytes) => bytes,
            NewPayload::Separated(id) => id,
        }
    }
}

impl<'v> NewEntry<'v> {
    /// Creates an entry with the given header byte.
    pub fn new(header: u8, payload: impl Into<Cow<'v, [u8]>>) -> NewEntry<'v> {
        NewEntry { header, payload: NewPayload::Value(payload.into()) }
    }

    /// Creates an entry that refers to a long value.
    pub fn separated(header: u8, id: LongValueId) -> NewEntry<'v> {
        NewEntry { header: header | header::SEPARATED, payload: NewPayload::Separated(id.to_record()) }
    }

    /// Creates an entry for several values in the form that ESE would choose, which is the shortest one.
    pub fn multi(values: &[MultiValue<'_>], long: bool) -> Option<NewEntry<'v>> {
        if let (&[MultiValue::Bytes(first), MultiValue::Bytes(second)], false) = (values, long) {
            let payload = [&[u8::try_from(first.len()).ok()?][..], first, second].concat();
            return Some(NewEntry::new(header::MULTI | header::TWO, payload));
        }
        let (mut offsets, mut data) = (Vec::new(), Vec::new());
        let mut header = header::MULTI | if long { header::LONG_VALUE } else { 0 };
        for (index, value) in values.iter().enumerate() {
            let start = u16::try_from(2 * values.len() + data.len()).ok().filter(|start| *start <= OFFSET)?;
            let separated = match value {
                MultiValue::Bytes(bytes) => {
                    data.extend_from_slice(bytes);
                    0
                }
                MultiValue::Compressed(bytes) if index == 0 => {
                    header |= header::COMPRESSED;
                    data.extend_from_slice(bytes);
                    0
                }
                MultiValue::Compressed(_) => return None,
                MultiValue::Separated(id) => {
                    data.extend_from_slice(&id.to_record());
                    VALUE_SEPARATED
                }
            };
            offsets.extend_from_slice(&(start | separated).to_le_bytes());
        }
        offsets.extend_from_slice(&data);
        Some(NewEntry::new(header, offsets))
    }
}

/// Appends the tagged area for `entries`, which must be sorted. Returns `None` if an offset does not fit.
pub(super) fn encode<'a>(
    entries: impl ExactSizeIterator<Item = (ColumnId, &'a NewEntry<'a>)> + Clone,
    large: bool,
    record: &mut Vec<u8>,
) -> Option<()> {
    let is_small_null = |entry: &NewEntry<'_>| !large && entry.header & header::NULL != 0;
    let has_header = |entry: &NewEntry<'_>| !is_small_null(entry) && (large || entry.header != 0);
    let mut offset = entries.len() * ENTRY_LEN;
    for (id, entry) in entries.clone() {
        let mut raw = u16::try_from(offset).ok().filter(|raw| *raw <= if large { 0x7fff } else { 0x1fff })?;
        if is_small_null(entry) {
            raw |= SMALL_NULL;
        } else if has_header(entry) && !large {
            raw |= SMALL_HAS_HEADER;
        }
        if id.is_inherited() {
            raw |= DERIVED;
        }
        offset += usize::from(has_header(entry)) + entry.payload.len();
        record.extend_from_slice(&id.number().to_le_bytes());
        record.extend_from_slice(&raw.to_le_bytes());
    }
    for (_, entry) in entries {
        if has_header(entry) {
            record.push(entry.header);
        }
        record.extend_from_slice(&entry.payload);
    }
    Some(())
}
