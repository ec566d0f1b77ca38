//! Index keys rebuilt from records.
//!
//! Written apart from `ese_format::key`, which the engine uses, so that a mistake there shows as a difference here.
//! Left out: Unicode text (needs Windows' sort tables), conditional and tuple indexes, several multi-valued
//! segments, values that are not in the record itself.

use ese_format::record::{CodePage, Column, ColumnClass, ColumnType, ColumnValue, MultiValue, Record};

use crate::catalog::{Index, Table};

const DESCENDING: u8 = 0x40;
const ALLOW_ALL_NULLS: u32 = 0x2;
const ALLOW_FIRST_NULL: u32 = 0x4;
const ALLOW_SOME_NULLS: u32 = 0x8;
const NULLS_HIGH: u32 = 0x800;
const DOT_NET_GUIDS: u32 = 0x2_0000;

/// Can the keys of this index be rebuilt for records that hold their values themselves?
pub(crate) fn can_rebuild(table: &Table, index: &Index) -> bool {
    let columns: Option<Vec<&Column>> = index.segments.iter().map(|(_, id)| table.column(*id)).collect();
    let Some(columns) = columns else { return false };
    let variable = columns.iter().any(|column| column.kind.fixed_size().is_none());
    let cut_segments = variable && index.segment_most.is_some();
    let unicode = columns.iter().any(|column| column.kind.is_text() && column.code_page == CodePage::UNICODE);
    !(index.special || columns.is_empty() || cut_segments || unicode)
}

/// The keys a record should have in an index; none when its nulls keep it out. `None` if they cannot be rebuilt.
pub(crate) fn keys(table: &Table, index: &Index, record: &Record<'_>) -> Option<Vec<Vec<u8>>> {
    let mut keys = vec![Vec::new()];
    let mut nulls = Vec::with_capacity(index.segments.len());
    for (flags, id) in &index.segments {
        let column = table.column(*id)?;
        let values = values(record, column)?;
        nulls.push(values.is_empty());
        let segments: Vec<Vec<u8>> = if values.is_empty() {
            vec![vec![if index.flags & NULLS_HIGH != 0 { 0xc0 } else { 0 }]]
        } else {
            values.iter().map(|value| segment(column, value, index)).collect()
        };
        if segments.len() > 1 && keys.len() > 1 {
            return None;
        }
        let mut longer = Vec::with_capacity(keys.len().max(segments.len()));
        for key in &keys {
            for segment in &segments {
                let flip = if flags & DESCENDING != 0 { 0xff } else { 0 };
                let mut key = key.clone();
                key.extend(segment.iter().map(|byte| byte ^ flip));
                longer.push(key);
            }
        }
        keys = longer;
    }
    let allowed = if nulls.iter().all(|null| *null) {
        index.flags & ALLOW_ALL_NULLS != 0
    } else if nulls.first() == Some(&true) {
        index.flags & ALLOW_FIRST_NULL != 0
    } else if nulls.contains(&true) {
        index.flags & ALLOW_SOME_NULLS != 0
    } else {
        true
    };
    if !allowed {
        return Some(Vec::new());
    }
    for key in &mut keys {
        key.truncate(index.key_most);
    }
    // Equal values of one record share an entry.
    keys.sort();
    keys.dedup();
    Some(keys)
}

/// The values a record has for a column; none for null.
fn values<'a>(record: &Record<'a>, column: &'a Column) -> Option<Vec<&'a [u8]>> {
    match record.get_or_default(column).ok()? {
        ColumnValue::Null | ColumnValue::Absent => Some(Vec::new()),
        ColumnValue::Bytes(bytes) => Some(vec![bytes]),
        ColumnValue::Multi(values) => values
            .into_iter()
            .map(|value| match value {
                MultiValue::Bytes(bytes) => Some(bytes),
                MultiValue::Compressed(_) | MultiValue::Separated(_) => None,
            })
            .collect(),
        ColumnValue::Compressed(_) | ColumnValue::Separated(_) | ColumnValue::Encrypted(_) => None,
    }
}

/// One segment: prefix byte and the value in a form that compares as bytes.
fn segment(column: &Column, value: &[u8], index: &Index) -> Vec<u8> {
    let variable = column.kind.fixed_size().is_none();
    if variable && value.is_empty() {
        return vec![0x40];
    }
    let mut key = vec![0x7f];
    let mut big_endian: Vec<u8> = value.iter().rev().copied().collect();
    let negative = big_endian.first().is_some_and(|first| first & 0x80 != 0);
    let flip_sign = |bytes: &mut [u8]| {
        if let Some(first) = bytes.first_mut() {
            *first ^= 0x80;
        }
    };
    match column.kind {
        ColumnType::Bit => key.push(if value.iter().any(|&byte| byte != 0) { 0xff } else { 0 }),
        ColumnType::UnsignedByte
        | ColumnType::UnsignedShort
        | ColumnType::UnsignedLong
        | ColumnType::UnsignedLongLong => key.append(&mut big_endian),
        ColumnType::Short | ColumnType::Long | ColumnType::LongLong | ColumnType::Currency => {
            flip_sign(&mut big_endian);
            key.append(&mut big_endian);
        }
        ColumnType::Single | ColumnType::Double | ColumnType::DateTime => {
            if negative {
                big_endian.iter_mut().for_each(|byte| *byte = !*byte);
            } else {
                flip_sign(&mut big_endian);
            }
            key.append(&mut big_endian);
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
    key
}
