//! Rebuilds index keys from records.
//!
//! This code is independent of `ese_format::key`, which the engine uses, so a bug in that module shows up as a
//! difference here. The following are not supported: Unicode text (which needs the Windows sort tables), conditional
//! and tuple indexes, and values stored outside the record.

use ese_format::record::{
    CodePage, Column, ColumnClass, ColumnFlags, ColumnType, ColumnValue, MultiValue, Record,
};

use crate::structure::catalog::{CheckedIndex, CheckedTable};

const DESCENDING: u8 = 0x40;
const ALLOW_ALL_NULLS: u32 = 0x2;
const ALLOW_FIRST_NULL: u32 = 0x4;
const ALLOW_SOME_NULLS: u32 = 0x8;
const NULLS_HIGH: u32 = 0x800;
const CROSS_PRODUCT: u32 = 0x2000;
const NESTED_TABLE: u32 = 0x8000;
const DOT_NET_GUIDS: u32 = 0x2_0000;
/// Maximum number of keys of one record to rebuild. A small record may have billions of combinations of values.
const MAX_KEYS: usize = 1 << 12;

/// Returns true if the keys of this index can be rebuilt from records that contain all of their own values.
pub(crate) fn can_rebuild(table: &CheckedTable, index: &CheckedIndex) -> bool {
    let columns: Option<Vec<&Column>> = index.segments.iter().map(|(_, id)| table.column(*id)).collect();
    let Some(columns) = columns else { return false };
    let variable = columns.iter().any(|column| column.kind.fixed_size().is_none());
    let cut_segments = variable && index.max_segment_len.is_some();
    let unicode = columns.iter().any(|column| column.kind.is_text() && column.code_page == CodePage::UNICODE);
    !(index.cannot_rebuild || columns.is_empty() || cut_segments || unicode)
}

/// Reusable buffers for keys.
#[derive(Default)]
pub(crate) struct KeyScratch {
    key: Vec<u8>,
    several: Vec<Vec<u8>>,
}

/// A key segment, with its values in one record.
struct CheckedSegment<'a> {
    column: &'a Column,
    flags: u8,
    values: Vec<&'a [u8]>,
    /// Whether each value has an entry of its own. Otherwise, all entries contain the first value.
    expands: bool,
}

impl CheckedSegment<'_> {
    fn choices(&self) -> usize {
        if self.expands { self.values.len().max(1) } else { 1 }
    }
}

/// Passes each key that a record should have in an index to `each`. A record that the index excludes because of its
/// nulls does not have any keys. Returns false if the keys cannot be rebuilt.
pub(crate) fn for_each_key(
    table: &CheckedTable,
    index: &CheckedIndex,
    record: &Record<'_>,
    scratch: &mut KeyScratch,
    each: &mut dyn FnMut(&[u8]),
) -> bool {
    if index.flags & CheckedIndex::MULTI_VALUED != 0 {
        return for_each_combination(table, index, record, &mut scratch.several, each).is_some();
    }
    let mut key = KeyBuilder::new(index, &mut scratch.key);
    for (flags, id) in &index.segments {
        let Some(column) = table.column(*id) else { return false };
        let Some(value) = first_value(record, column) else { return false };
        key.append(column, *flags, value);
    }
    if key.finish() {
        each(&scratch.key);
    }
    true
}

/// Like [`for_each_key`], for an index on multi-valued columns. By default, only the values of the first such column
/// have entries of their own. A cross product has an entry for each combination of values. A nested table has an entry
/// for the first values of all columns, for the second values, and so on.
fn for_each_combination(
    table: &CheckedTable,
    index: &CheckedIndex,
    record: &Record<'_>,
    keys: &mut Vec<Vec<u8>>,
    each: &mut dyn FnMut(&[u8]),
) -> Option<()> {
    let nested = index.flags & NESTED_TABLE != 0;
    let expands_all = nested || index.flags & CROSS_PRODUCT != 0;
    let mut expanded = false;
    let mut segments = Vec::with_capacity(index.segments.len());
    for (flags, id) in &index.segments {
        let column = table.column(*id)?;
        let multi = column.class() == ColumnClass::Tagged && column.flags.contains(ColumnFlags::MULTI_VALUED);
        let expands = multi && (expands_all || !expanded);
        expanded |= expands;
        let values = if expands {
            all_values(record, column)?
        } else {
            first_value(record, column)?.into_iter().collect()
        };
        segments.push(CheckedSegment { column, flags: *flags, values, expands });
    }
    let mut counts = segments.iter().map(CheckedSegment::choices);
    let total = if nested { counts.max() } else { counts.try_fold(1, usize::checked_mul) };
    let total = total.filter(|total| *total <= MAX_KEYS)?;
    keys.clear();
    for number in 0..total {
        let mut bytes = Vec::new();
        let mut key = KeyBuilder::new(index, &mut bytes);
        let mut rest = number;
        for segment in &segments {
            let choice = match segment.expands {
                false => 0,
                true if nested => number,
                true => rest % segment.choices(),
            };
            rest /= segment.choices();
            key.append(segment.column, segment.flags, segment.values.get(choice).copied());
        }
        if key.finish() {
            keys.push(bytes);
        }
    }
    // Equal values in one record share an entry.
    keys.sort();
    keys.dedup();
    keys.iter().for_each(|key| each(key));
    Some(())
}

/// Builds one key, and applies the index's rules on nulls.
struct KeyBuilder<'k> {
    index: &'k CheckedIndex,
    key: &'k mut Vec<u8>,
    segments: usize,
    nulls: usize,
    first_is_null: bool,
}

impl KeyBuilder<'_> {
    fn new<'k>(index: &'k CheckedIndex, key: &'k mut Vec<u8>) -> KeyBuilder<'k> {
        key.clear();
        KeyBuilder { index, key, segments: 0, nulls: 0, first_is_null: false }
    }

    fn append(&mut self, column: &Column, flags: u8, value: Option<&[u8]>) {
        let flip = if flags & DESCENDING != 0 { 0xff } else { 0 };
        match value {
            Some(value) => append_segment(column, value, self.index, flip, self.key),
            None => {
                let byte = if self.index.flags & NULLS_HIGH != 0 { 0xc0 } else { 0 };
                self.key.push(byte ^ flip);
                self.nulls += 1;
                self.first_is_null |= self.segments == 0;
            }
        }
        self.segments += 1;
    }

    /// Truncates the key. Returns false if the index excludes it because of its nulls.
    fn finish(self) -> bool {
        self.key.truncate(self.index.max_key_len);
        let needed = match self.nulls {
            0 => return true,
            nulls if nulls == self.segments => ALLOW_ALL_NULLS,
            _ if self.first_is_null => ALLOW_FIRST_NULL,
            _ => ALLOW_SOME_NULLS,
        };
        self.index.flags & needed != 0
    }
}

/// Returns the first value of a column, or null. Returns `None` if the record itself does not contain the value.
fn first_value<'a>(record: &Record<'a>, column: &'a Column) -> Option<Option<&'a [u8]>> {
    match record.get_or_default(column).ok()? {
        ColumnValue::Null | ColumnValue::Absent => Some(None),
        ColumnValue::Bytes(bytes) => Some(Some(bytes)),
        ColumnValue::Multi(values) => match values.first() {
            Some(first) => inline(first).map(Some),
            None => Some(None),
        },
        ColumnValue::Compressed(_) | ColumnValue::Separated(_) | ColumnValue::Encrypted(_) => None,
    }
}

/// Returns all values of a column, or `None` if the record itself does not contain all of them.
fn all_values<'a>(record: &Record<'a>, column: &'a Column) -> Option<Vec<&'a [u8]>> {
    match record.get_or_default(column).ok()? {
        ColumnValue::Multi(values) => values.iter().map(inline).collect(),
        _ => Some(first_value(record, column)?.into_iter().collect()),
    }
}

fn inline<'a>(value: &MultiValue<'a>) -> Option<&'a [u8]> {
    match value {
        MultiValue::Bytes(bytes) => Some(bytes),
        MultiValue::Compressed(_) | MultiValue::Separated(_) => None,
    }
}

/// Appends one segment, which consists of a prefix byte and the value in bytewise-comparable form, all XORed with
/// `flip`.
fn append_segment(column: &Column, value: &[u8], index: &CheckedIndex, flip: u8, key: &mut Vec<u8>) {
    let start = key.len();
    append_ascending(column, value, index, key);
    if flip != 0 {
        key.iter_mut().skip(start).for_each(|byte| *byte ^= flip);
    }
}

fn append_ascending(column: &Column, value: &[u8], index: &CheckedIndex, key: &mut Vec<u8>) {
    let variable = column.kind.fixed_size().is_none();
    if variable && value.is_empty() {
        return key.push(0x40);
    }
    key.push(0x7f);
    let start = key.len();
    let negative = value.last().is_some_and(|last| last & 0x80 != 0);
    let flip_sign = |key: &mut Vec<u8>| {
        if let Some(first) = key.get_mut(start) {
            *first ^= 0x80;
        }
    };
    let big_endian = value.iter().rev();
    match column.kind {
        ColumnType::Bit => key.push(if value.iter().any(|&byte| byte != 0) { 0xff } else { 0 }),
        ColumnType::UnsignedByte
        | ColumnType::UnsignedShort
        | ColumnType::UnsignedLong
        | ColumnType::UnsignedLongLong => key.extend(big_endian),
        ColumnType::Short | ColumnType::Long | ColumnType::LongLong | ColumnType::Currency => {
            key.extend(big_endian);
            flip_sign(key);
        }
        ColumnType::Single | ColumnType::Double | ColumnType::DateTime => {
            if negative {
                key.extend(big_endian.map(|byte| !byte));
            } else {
                key.extend(big_endian);
                flip_sign(key);
            }
        }
        ColumnType::Guid => {
            const WINDOWS: [usize; 16] = [10, 11, 12, 13, 14, 15, 8, 9, 6, 7, 4, 5, 0, 1, 2, 3];
            const DOT_NET: [usize; 16] = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
            let order = if index.flags & DOT_NET_GUIDS != 0 { DOT_NET } else { WINDOWS };
            key.extend(order.iter().filter_map(|&place| value.get(place)));
        }
        ColumnType::Binary if column.class() == ColumnClass::Fixed => key.extend_from_slice(value),
        ColumnType::Binary | ColumnType::LongBinary => {
            let groups = value.chunks(8);
            let last = groups.len() - 1;
            for (number, group) in groups.enumerate() {
                let mut padded = [0; 9];
                padded.iter_mut().zip(group).for_each(|(to, from)| *to = *from);
                padded[8] = if number == last { group.len() as u8 } else { 9 };
                key.extend_from_slice(&padded);
            }
        }
        ColumnType::Text | ColumnType::LongText => {
            key.extend(value.iter().take_while(|&&byte| byte != 0).map(u8::to_ascii_uppercase));
            key.push(0);
        }
    }
}
