//! Encoding of key segments by column type.

use super::{IndexFlags, KeyError, KeyPart};
use crate::record::{CodePage, Column, ColumnClass, ColumnType};

const NULL: u8 = 0x00;
const ZERO_LENGTH: u8 = 0x40;
const VALUE: u8 = 0x7f;
const NULL_HIGH: u8 = 0xc0;

/// Number of bytes in a group of a variable-length binary segment.
const GROUP: usize = 8;

/// Byte positions of a stored GUID, from most to least significant in sort order.
const GUID_ORDER: [usize; 16] = [10, 11, 12, 13, 14, 15, 8, 9, 6, 7, 4, 5, 0, 1, 2, 3];
const DOT_NET_GUID_ORDER: [usize; 16] = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];

/// Appends a segment of at most `room` bytes. A text or binary segment is also limited to `limit` bytes. Returns
/// whether the segment was truncated for lack of room.
pub(super) fn append(
    part: &KeyPart<'_>,
    flags: IndexFlags,
    room: usize,
    limit: usize,
    key: &mut Vec<u8>,
) -> Result<bool, KeyError> {
    let column = part.column;
    let Some(value) = part.value else {
        key.push(if flags.contains(IndexFlags::NULLS_HIGH) { NULL_HIGH } else { NULL });
        return Ok(false);
    };
    let stringy = column.kind.fixed_size().is_none();
    if stringy && value.is_empty() {
        key.push(ZERO_LENGTH);
        return Ok(false);
    }
    let (start, room_for_value) = (key.len(), room.min(limit));
    key.push(VALUE);
    match column.kind {
        ColumnType::Text | ColumnType::LongText => {
            if column.code_page == CodePage::UNICODE {
                return Err(KeyError::UnicodeText(column.id));
            }
            let cut = text(value, room_for_value - 1, key);
            return Ok(cut && room <= limit);
        }
        ColumnType::Binary if column.class() == ColumnClass::Fixed => {
            let kept = value.len().min(room_for_value - 1);
            key.extend_from_slice(value.get(..kept).unwrap_or(value));
            return Ok(value.len() + 1 > room && kept < value.len());
        }
        ColumnType::Binary | ColumnType::LongBinary => {
            let whole = 1 + value.len().div_ceil(GROUP) * (GROUP + 1);
            binary(value, room_for_value - 1, whole > room_for_value, key);
            return Ok(whole.min(limit) > room);
        }
        _ => number(column, value, flags, key)?,
    }
    let cut = key.len() - start > room;
    key.truncate(start + room);
    Ok(cut)
}

/// Appends the value up to its first NUL as upper-case ASCII, followed by a terminator. Returns whether the value was
/// truncated.
fn text(value: &[u8], room: usize, key: &mut Vec<u8>) -> bool {
    let len = value.iter().position(|byte| *byte == 0).unwrap_or(value.len());
    let value = value.get(..len).unwrap_or(value);
    if len < room {
        key.extend(value.iter().map(u8::to_ascii_uppercase));
        key.push(0);
        return false;
    }
    let Some(last) = room.checked_sub(1) else { return len > 0 };
    key.extend(value.iter().take(last).map(u8::to_ascii_uppercase));
    // ESE converts the last character without checking whether it is a letter.
    key.extend(value.get(last).map(|byte| byte.wrapping_sub(b'a' - b'A')));
    true
}

/// Appends the value in groups of eight bytes. Each group is followed by 9 if there is another group, and by its own
/// length otherwise.
fn binary(mut value: &[u8], mut room: usize, cut: bool, key: &mut Vec<u8>) {
    while let Some(after) = room.checked_sub(GROUP + 1).filter(|_| !value.is_empty()) {
        let (group, rest) = value.split_at(value.len().min(GROUP));
        key.extend_from_slice(group);
        key.resize(key.len() + GROUP - group.len(), 0);
        let whole = group.len() == GROUP && (!rest.is_empty() || cut);
        key.push(if whole { GROUP + 1 } else { group.len() } as u8);
        (value, room) = (rest, after);
    }
    if !value.is_empty() {
        let group = value.get(..room).unwrap_or(value);
        key.extend_from_slice(group);
        key.resize(key.len() + room - group.len(), 0);
    }
}

fn number(column: &Column, value: &[u8], flags: IndexFlags, key: &mut Vec<u8>) -> Result<(), KeyError> {
    if column.kind.fixed_size() != Some(value.len()) {
        return Err(KeyError::WrongLength { column: column.id, len: value.len() });
    }
    let start = key.len();
    let big_endian = value.iter().rev();
    let negative = value.last().is_some_and(|byte| byte & 0x80 != 0);
    let flip = |key: &mut Vec<u8>| {
        if let Some(first) = key.get_mut(start) {
            *first ^= 0x80;
        }
    };
    match column.kind {
        ColumnType::Bit => key.push(if value == [0] { 0 } else { 0xff }),
        ColumnType::Guid => {
            let dot_net = flags.contains(IndexFlags::DOT_NET_GUID);
            let order = if dot_net { DOT_NET_GUID_ORDER } else { GUID_ORDER };
            key.extend(order.iter().filter_map(|at| value.get(*at)));
        }
        ColumnType::Short | ColumnType::Long | ColumnType::Currency | ColumnType::LongLong => {
            key.extend(big_endian);
            flip(key);
        }
        ColumnType::Single | ColumnType::Double | ColumnType::DateTime if negative => {
            key.extend(big_endian.map(|byte| !byte));
        }
        ColumnType::Single | ColumnType::Double | ColumnType::DateTime => {
            key.extend(big_endian);
            flip(key);
        }
        _ => key.extend(big_endian),
    }
    Ok(())
}
