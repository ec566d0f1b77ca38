//! Construction of the index keys of a record.

use std::borrow::Cow;
use std::ops::Range;

use smallvec::{SmallVec, smallvec};

use crate::catalog::{Index, TableSchema};
use crate::compression;
use crate::key::{self, IndexFlags, Key, KeyError, KeyPart, NullRuleResult, SHORT_KEY, normalise, null_rule};
use crate::long_value::LongValueId;
use crate::record::{Column, ColumnFlags, ColumnId, ColumnValue, MultiValue, Record};

/// Function that returns the value of a separated column. It may return only a prefix of the value, as long as the
/// prefix reaches the index's key limit.
pub type LongValueSource<'s> = dyn FnMut(LongValueId) -> Option<Vec<u8>> + 's;

/// Returns the primary key of a record.
///
/// Fails with [`KeyError::NullNotAllowed`] if the key contains a null that the index does not allow.
pub fn primary_key(
    table: &TableSchema,
    index: &Index,
    record: &Record<'_>,
    long_values: &mut LongValueSource<'_>,
) -> Result<Key, KeyError> {
    let mut keys = index_keys(table, index, record, long_values)?;
    if keys.is_empty() { Err(KeyError::NullNotAllowed) } else { Ok(keys.swap_remove(0)) }
}

/// Appends the key for a single-column index, if the column has a single value. This is the most common case.
///
/// Returns whether the key was truncated. Returns `None`, and appends nothing, if the index or the value does not
/// match this case.
fn append_key_of_single_value(
    table: &TableSchema,
    index: &Index,
    record: &Record<'_>,
    key: &mut Vec<u8>,
) -> Result<Option<bool>, KeyError> {
    let ([segment], [], None) = (&index.segments[..], &index.conditions[..], &index.tuple_limits) else {
        return Ok(None);
    };
    let (column, descending) = (column(table, segment.column)?, segment.descending);
    let ColumnValue::Bytes(value) = record.get_or_default(column)? else { return Ok(None) };
    let part = KeyPart { column, value: Some(value), descending };
    key::append(&[part], index.key_limits(), index.flags, key).map(Some)
}

/// A list of keys stored in one reusable buffer.
#[derive(Debug, Default)]
pub struct KeyList {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl KeyList {
    /// Removes all keys.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns true if the list contains no keys.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the keys whose positions are in `range`, in the order in which they were added.
    pub fn keys(&self, range: Range<usize>) -> impl Iterator<Item = &[u8]> {
        range.filter_map(|number| {
            let start = number.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied());
            self.bytes.get(start?..*self.ends.get(number)?)
        })
    }

    /// Adds a key.
    pub fn push(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
    }

    /// Adds the index keys of a record, as returned by [`index_keys`]. After an error, the caller must clear the
    /// list.
    pub fn push_index_keys(
        &mut self,
        table: &TableSchema,
        index: &Index,
        record: &Record<'_>,
        long_values: &mut LongValueSource<'_>,
    ) -> Result<(), KeyError> {
        match append_key_of_single_value(table, index, record, &mut self.bytes)? {
            Some(_) => self.ends.push(self.bytes.len()),
            None => {
                index_keys(table, index, record, long_values)?.iter().for_each(|key| self.push(&key.bytes));
            }
        }
        Ok(())
    }
}

/// Keys of one record in one index. Most records have exactly one.
pub type Keys = SmallVec<[Key; 1]>;

/// Returns all keys of a record in an index, sorted and without duplicates. The list is empty if the index's rules
/// exclude the record.
pub fn index_keys(
    table: &TableSchema,
    index: &Index,
    record: &Record<'_>,
    long_values: &mut LongValueSource<'_>,
) -> Result<Keys, KeyError> {
    if index.tuple_limits.is_some() {
        return Err(KeyError::TupleIndex);
    }
    let mut key = Key { bytes: Vec::with_capacity(SHORT_KEY), truncated: false };
    if let Some(truncated) = append_key_of_single_value(table, index, record, &mut key.bytes)? {
        return Ok(smallvec![Key { truncated, ..key }]);
    }
    for condition in &index.conditions {
        let column = column(table, condition.column)?;
        let null = record.get_or_default(column)? == ColumnValue::Null;
        if null != condition.must_be_null {
            return Ok(Keys::new());
        }
    }
    let mut segments = Vec::new();
    for segment in &index.segments {
        let column = column(table, segment.column)?;
        let values = values(column, record, long_values)?;
        segments.push(SegmentValues { column, descending: segment.descending, values });
    }
    let mut keys = Keys::new();
    for choice in choices(&segments, index.flags) {
        let parts: Vec<KeyPart<'_>> = segments
            .iter()
            .zip(&choice)
            .map(|(segment, pick)| KeyPart {
                column: segment.column,
                value: segment.values.get(*pick).map(|value| &**value),
                descending: segment.descending,
            })
            .collect();
        let nulls: Vec<bool> = parts.iter().map(|part| part.value.is_none()).collect();
        match null_rule(&nulls, index.flags) {
            NullRuleResult::Entry => keys.push(normalise(&parts, index.key_limits(), index.flags)?),
            NullRuleResult::NoEntry => {}
            NullRuleResult::Rejected => return Err(KeyError::NullNotAllowed),
        }
    }
    keys.sort();
    keys.dedup();
    Ok(keys)
}

struct SegmentValues<'t> {
    column: &'t Column,
    descending: bool,
    /// Values for the segment; empty if the column is null.
    values: Vec<Cow<'t, [u8]>>,
}

/// Maximum number of index entries for one record. A larger cross product is truncated.
const MAX_ENTRIES: usize = 1 << 16;

/// Returns, for each index entry, which value each segment contributes.
///
/// By default, only the first multi-valued column is expanded. A cross product expands all multi-valued columns. A
/// nested table combines the n-th values of all multi-valued columns.
fn choices(segments: &[SegmentValues<'_>], flags: IndexFlags) -> Vec<Vec<usize>> {
    let multi = |segment: &SegmentValues<'_>| segment.column.flags.contains(ColumnFlags::MULTI_VALUED);
    let mut choices = vec![vec![0; segments.len()]];
    if !segments.iter().any(multi) {
        return choices;
    }
    if flags.contains(IndexFlags::NESTED_TABLE) {
        let longest =
            segments.iter().filter(|segment| multi(segment)).map(|segment| segment.values.len()).max();
        let nth = |n: usize| segments.iter().map(|segment| if multi(segment) { n } else { 0 }).collect();
        return (0..longest.unwrap_or(1).max(1)).map(nth).collect();
    }
    for (at, segment) in segments.iter().enumerate().filter(|(_, segment)| multi(segment)) {
        let expanded = choices.iter().flat_map(|choice| {
            (0..segment.values.len().max(1)).map(move |pick| {
                let mut choice = choice.clone();
                choice.iter_mut().skip(at).take(1).for_each(|place| *place = pick);
                choice
            })
        });
        choices = expanded.take(MAX_ENTRIES).collect();
        if !flags.contains(IndexFlags::CROSS_PRODUCT) {
            break;
        }
    }
    choices
}

fn column(table: &TableSchema, id: ColumnId) -> Result<&Column, KeyError> {
    table.column(id).ok_or(KeyError::UnknownColumn(id))
}

fn values<'v>(
    column: &'v Column,
    record: &Record<'v>,
    long_values: &mut LongValueSource<'_>,
) -> Result<Vec<Cow<'v, [u8]>>, KeyError> {
    let missing = KeyError::LongValue(column.id);
    let inflate = |stored| {
        compression::decompress(stored, compression::MAX_INTRINSIC).map_err(|_| missing).map(Cow::from)
    };
    let mut long = |id| long_values(id).ok_or(missing).map(Cow::from);
    Ok(match record.get_or_default(column)? {
        ColumnValue::Absent | ColumnValue::Null => Vec::new(),
        ColumnValue::Bytes(bytes) => vec![bytes.into()],
        ColumnValue::Compressed(stored) => vec![inflate(stored)?],
        ColumnValue::Separated(id) => vec![long(id)?],
        ColumnValue::Encrypted(_) => return Err(missing),
        ColumnValue::Multi(values) => values
            .into_iter()
            .map(|value| match value {
                MultiValue::Bytes(bytes) => Ok(bytes.into()),
                MultiValue::Compressed(stored) => inflate(stored),
                MultiValue::Separated(id) => long(id),
            })
            .collect::<Result<_, _>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::IndexCondition;
    use crate::record::{ColumnType, RecordBuilder};
    use crate::{PageNumber, PageSize, TreeId};

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
        digits
            .chunks(2)
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect()
    }

    #[test]
    fn a_multi_valued_column_produces_several_index_entries() {
        let (tree, root, size) = (TreeId(8), PageNumber::fixed(31), PageSize::KIB_4);
        let mut table = TableSchema::new("t", tree, root);
        table.columns = [256, 257].map(|id| Column::new(id, "c", ColumnType::UnsignedByte, 1)).to_vec();
        for column in &mut table.columns {
            column.flags = ColumnFlags::MULTI_VALUED;
        }
        let mut record = RecordBuilder::new(&table.columns, size);
        record.set_multi(ColumnId(256), &[&[1], &[2], &[1]].map(|value| MultiValue::Bytes(value))).unwrap();
        record.set_multi(ColumnId(257), &[&[8], &[9]].map(|value| MultiValue::Bytes(value))).unwrap();
        let record = record.build().unwrap();
        let entries = |flags: IndexFlags, conditions: &[IndexCondition]| -> Vec<Vec<u8>> {
            let mut index =
                Index::new("i", TreeId(9), root, IndexFlags::DEFAULT_SECONDARY | flags, &[256, 257]);
            index.conditions = conditions.to_vec();
            let record = Record::new(&record, size);
            let keys = index_keys(&table, &index, &record, &mut |_| None).unwrap();
            let mut list = KeyList::default();
            list.push(b"before");
            list.push_index_keys(&table, &index, &record, &mut |_| None).unwrap();
            assert!(list.keys(1..list.len()).eq(keys.iter().map(|key| &key.bytes[..])));
            assert!(list.keys(0..1).eq([b"before"]));
            keys.into_iter().map(|key| key.bytes).collect()
        };
        // Only the first column is expanded, and duplicate entries are removed.
        assert_eq!(entries(IndexFlags::empty(), &[]), [hex("7f01 7f08"), hex("7f02 7f08")]);
        let all = [hex("7f01 7f08"), hex("7f01 7f09"), hex("7f02 7f08"), hex("7f02 7f09")];
        assert_eq!(entries(IndexFlags::CROSS_PRODUCT, &[]), all);
        let rows = [hex("7f01 00"), hex("7f01 7f08"), hex("7f02 7f09")];
        assert_eq!(entries(IndexFlags::NESTED_TABLE, &[]), rows);

        let condition = |must_be_null| [IndexCondition { column: ColumnId(257), must_be_null }];
        assert!(entries(IndexFlags::empty(), &condition(true)).is_empty());
        assert_eq!(entries(IndexFlags::empty(), &condition(false)).len(), 2);
    }
}
