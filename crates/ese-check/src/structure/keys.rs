//! Rebuilds index keys from records.
//!
//! This code is independent of `ese_format::key`, which the engine uses, so a bug in that module shows up as a
//! difference here. The following are not supported: Unicode text (which needs the Windows sort tables), conditional
//! and tuple indexes, several multi-valued segments, and values stored outside the record.

use ese_format::record::{CodePage, Column, ColumnClass, ColumnType, ColumnValue, MultiValue, Record};

use crate::structure::catalog::{CheckedIndex, CheckedTable};

const DESCENDING: u8 = 0x40;
const ALLOW_ALL_NULLS: u32 = 0x2;
const ALLOW_FIRST_NULL: u32 = 0x4;
const ALLOW_SOME_NULLS: u32 = 0x8;
const NULLS_HIGH: u32 = 0x800;
const DOT_NET_GUIDS: u32 = 0x2_0000;

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

/// Passes each key that a record should have in an index to `each`. There are none if the index excludes the record
/// because of its nulls. Returns false if the keys cannot be rebuilt.
pub(crate) fn for_each_key(
    table: &CheckedTable,
    index: &CheckedIndex,
    record: &Record<'_>,
    scratch: &mut KeyScratch,
    each: &mut dyn FnMut(&[u8]),
) -> bool {
    let KeyScratch { key, several } = scratch;
    key.clear();
    several.clear();
    let (mut first_null, mut any_null, mut all_null) = (false, false, true);
    for (place, (flags, id)) in index.segments.iter().enumerate() {
        let Some(column) = table.column(*id) else { return false };
        let flip = if flags & DESCENDING != 0 { 0xff } else { 0 };
        let Some(values) = values(record, column) else { return false };
        let null = matches!(values, StoredValues::None);
        first_null |= null && place == 0;
        any_null |= null;
        all_null &= null;
        match values {
            StoredValues::None => {
                let byte = if index.flags & NULLS_HIGH != 0 { 0xc0 } else { 0 };
                append_to_all(key, several, |key| key.push(byte ^ flip));
            }
            StoredValues::One(value) => {
                append_to_all(key, several, |key| append_segment(column, value, index, flip, key));
            }
            StoredValues::Many(values) => {
                if !several.is_empty() {
                    return false;
                }
                several.extend(values.into_iter().map(|value| {
                    let mut key = key.clone();
                    append_segment(column, value, index, flip, &mut key);
                    key
                }));
            }
        }
    }
    let allowed = if all_null {
        index.flags & ALLOW_ALL_NULLS != 0
    } else if first_null {
        index.flags & ALLOW_FIRST_NULL != 0
    } else {
        !any_null || index.flags & ALLOW_SOME_NULLS != 0
    };
    if !allowed {
        return true;
    }
    if several.is_empty() {
        key.truncate(index.max_key_len);
        each(key);
        return true;
    }
    several.iter_mut().for_each(|key| key.truncate(index.max_key_len));
    // Equal values in one record share an entry.
    several.sort();
    several.dedup();
    several.iter().for_each(|key| each(key));
    true
}

fn append_to_all(key: &mut Vec<u8>, several: &mut [Vec<u8>], append: impl Fn(&mut Vec<u8>)) {
    if several.is_empty() {
        append(key);
    } else {
        several.iter_mut().for_each(append);
    }
}

/// Values that a record stores for a column.
enum StoredValues<'a> {
    None,
    One(&'a [u8]),
    /// At least two values.
    Many(Vec<&'a [u8]>),
}

/// Returns the values of a column, or `None` if the record itself does not contain all of them.
fn values<'a>(record: &Record<'a>, column: &'a Column) -> Option<StoredValues<'a>> {
    match record.get_or_default(column).ok()? {
        ColumnValue::Null | ColumnValue::Absent => Some(StoredValues::None),
        ColumnValue::Bytes(bytes) => Some(StoredValues::One(bytes)),
        ColumnValue::Multi(values) => {
            let values: Option<Vec<&[u8]>> = values
                .into_iter()
                .map(|value| match value {
                    MultiValue::Bytes(bytes) => Some(bytes),
                    MultiValue::Compressed(_) | MultiValue::Separated(_) => None,
                })
                .collect();
            let values = values?;
            Some(match values.as_slice() {
                [] => StoredValues::None,
                [one] => StoredValues::One(one),
                _ => StoredValues::Many(values),
            })
        }
        ColumnValue::Compressed(_) | ColumnValue::Separated(_) | ColumnValue::Encrypted(_) => None,
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
