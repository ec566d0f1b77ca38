//! Compares the values of a column in two records.

use std::borrow::Cow;

use ese_check::database::ReadableDatabase;
use ese_format::PageNumber;
use ese_format::compression::{self, decompress};
use ese_format::long_value::LongValueId;
use ese_format::record::{Column, ColumnValue, MultiValue, RecordError};

use crate::issue::ExportIssues;
use crate::long_values::{LongValue, LongValueError, LongValueReader};
use crate::table::SourceTable;
use crate::time_filter::stored_default;

/// Compares values, and reads the long values of one table in both databases.
pub(super) struct ValueComparer<'d> {
    sides: [ComparedSide<'d>; 2],
}

/// The long values of a table in one database.
struct ComparedSide<'d> {
    database: &'d ReadableDatabase,
    long_values: LongValueReader,
    /// The last chunk that was read, and its offset in the value.
    chunk: Vec<u8>,
    chunk_start: usize,
}

/// One value of a column.
enum ComparedValue<'v> {
    Bytes(Cow<'v, [u8]>),
    /// Stored bytes that cannot be decoded: encrypted, or compressed with an unknown scheme.
    Undecoded(&'v [u8]),
    Long(LongValueId),
}

/// Content of a value, in memory or in the long-value tree.
enum ValueContent<'v> {
    Bytes(&'v [u8]),
    Long(LongValue),
}

impl<'d> ValueComparer<'d> {
    pub(super) fn new(databases: [&'d ReadableDatabase; 2], tables: [&SourceTable; 2]) -> ValueComparer<'d> {
        let side = |database, table| ComparedSide {
            database,
            long_values: LongValueReader::new(table),
            chunk: Vec::new(),
            chunk_start: 0,
        };
        ValueComparer { sides: [side(databases[0], tables[0]), side(databases[1], tables[1])] }
    }

    /// Returns true if both records have the same values in a column. Values that cannot be decoded are reported, and
    /// are equal only if their stored bytes are.
    pub(super) fn are_equal(
        &mut self,
        stored: [Result<ColumnValue<'_>, RecordError>; 2],
        columns: [&Column; 2],
        pages: [PageNumber; 2],
        issues: &mut [&mut ExportIssues; 2],
    ) -> bool {
        let [one, two] = stored;
        let mut missing = |side: usize, what: &dyn std::fmt::Display| {
            if let Some(((issues, page), column)) =
                issues.get_mut(side).zip(pages.get(side)).zip(columns.get(side))
            {
                issues.add_missing(Some(*page), format!("column {}: {what}", column.name));
            }
        };
        let (one, two) = match (one, two) {
            (Ok(one), Ok(two)) => (compared_values(one, columns[0]), compared_values(two, columns[1])),
            (one, two) => {
                one.err().iter().for_each(|error| missing(0, error));
                two.err().iter().for_each(|error| missing(1, error));
                return false;
            }
        };
        one.len() == two.len()
            && one.iter().zip(&two).all(|pair| match pair {
                (ComparedValue::Bytes(one), ComparedValue::Bytes(two)) => one == two,
                (ComparedValue::Undecoded(one), ComparedValue::Undecoded(two)) => one == two,
                (ComparedValue::Undecoded(_), _) | (_, ComparedValue::Undecoded(_)) => false,
                (one, two) => self.equal_contents(one, two).unwrap_or_else(|(side, error)| {
                    missing(side, &error);
                    false
                }),
            })
    }

    /// Compares values of which at least one is in a long-value tree. Reads both in chunks.
    fn equal_contents(
        &mut self,
        one: &ComparedValue<'_>,
        two: &ComparedValue<'_>,
    ) -> Result<bool, (usize, LongValueError)> {
        let [side_one, side_two] = &mut self.sides;
        let one = side_one.open(one).map_err(|error| (0, error))?;
        let two = side_two.open(two).map_err(|error| (1, error))?;
        if one.len() != two.len() {
            return Ok(false);
        }
        let mut offset = 0;
        while offset < one.len() {
            let left = side_one.content_at(&one, offset).map_err(|error| (0, error))?;
            let right = side_two.content_at(&two, offset).map_err(|error| (1, error))?;
            let count = left.len().min(right.len());
            // A chunk is never empty. If it were, the comparison would not end.
            if count == 0 || left.get(..count) != right.get(..count) {
                return Ok(false);
            }
            offset += count;
        }
        Ok(true)
    }
}

impl ComparedSide<'_> {
    fn open<'v>(&mut self, value: &'v ComparedValue<'_>) -> Result<ValueContent<'v>, LongValueError> {
        self.chunk.clear();
        self.chunk_start = 0;
        Ok(match value {
            ComparedValue::Bytes(bytes) => ValueContent::Bytes(bytes),
            ComparedValue::Undecoded(bytes) => ValueContent::Bytes(bytes),
            ComparedValue::Long(id) => ValueContent::Long(self.long_values.open(self.database, *id)?),
        })
    }

    /// Returns the bytes at `offset`, up to the end of their chunk. The offset never decreases and never skips a
    /// chunk.
    fn content_at<'c>(
        &'c mut self,
        content: &'c ValueContent<'_>,
        offset: usize,
    ) -> Result<&'c [u8], LongValueError> {
        let value = match content {
            ValueContent::Bytes(bytes) => return Ok(bytes.get(offset..).unwrap_or_default()),
            ValueContent::Long(value) => *value,
        };
        let end = self.chunk_start + self.chunk.len();
        if offset >= end {
            self.chunk.clear();
            self.chunk_start = end;
            self.long_values.append_chunk(self.database, value, end, &mut self.chunk)?;
        }
        Ok(offset.checked_sub(self.chunk_start).and_then(|at| self.chunk.get(at..)).unwrap_or_default())
    }
}

impl ValueContent<'_> {
    fn len(&self) -> usize {
        match self {
            ValueContent::Bytes(bytes) => bytes.len(),
            ValueContent::Long(value) => value.len(),
        }
    }
}

/// Returns the values that a record stores for a column, or the column's default.
fn compared_values<'v>(stored: ColumnValue<'v>, column: &'v Column) -> Vec<ComparedValue<'v>> {
    let compressed = |stored: &'v [u8]| match decompress(stored, compression::MAX_INTRINSIC) {
        Ok(plain) => ComparedValue::Bytes(Cow::Owned(plain)),
        Err(_) => ComparedValue::Undecoded(stored),
    };
    let bytes = |bytes: &'v [u8]| ComparedValue::Bytes(Cow::Borrowed(bytes));
    match stored {
        ColumnValue::Absent => stored_default(column).map(bytes).into_iter().collect(),
        ColumnValue::Null => Vec::new(),
        ColumnValue::Bytes(stored) => vec![bytes(stored)],
        ColumnValue::Compressed(stored) => vec![compressed(stored)],
        ColumnValue::Encrypted(stored) => vec![ComparedValue::Undecoded(stored)],
        ColumnValue::Separated(id) => vec![ComparedValue::Long(id)],
        ColumnValue::Multi(values) => values
            .into_iter()
            .map(|value| match value {
                MultiValue::Bytes(stored) => bytes(stored),
                MultiValue::Compressed(stored) => compressed(stored),
                MultiValue::Separated(id) => ComparedValue::Long(id),
            })
            .collect(),
    }
}
