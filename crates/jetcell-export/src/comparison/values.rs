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

/// Message about a value that cannot be decoded.
const UNDECODED: &str = "the value is encrypted, or cannot be decompressed";

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

    /// Returns whether both records have the same values in a column, or `None` if that cannot be decided. Values that
    /// cannot be decoded are reported. If neither value can be decoded, the stored bytes are compared.
    pub(super) fn are_equal(
        &mut self,
        stored: [Result<ColumnValue<'_>, RecordError>; 2],
        columns: [&Column; 2],
        pages: [PageNumber; 2],
        issues: &mut [&mut ExportIssues; 2],
    ) -> Option<bool> {
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
                return None;
            }
        };
        if one.len() != two.len() {
            return Some(false);
        }
        let mut result = Some(true);
        for pair in one.iter().zip(&two) {
            let is_equal = match pair {
                (ComparedValue::Bytes(one), ComparedValue::Bytes(two)) => Some(one == two),
                (ComparedValue::Undecoded(one), ComparedValue::Undecoded(two)) => {
                    missing(0, &UNDECODED);
                    missing(1, &UNDECODED);
                    Some(one == two)
                }
                (ComparedValue::Undecoded(_), _) => {
                    missing(0, &UNDECODED);
                    None
                }
                (_, ComparedValue::Undecoded(_)) => {
                    missing(1, &UNDECODED);
                    None
                }
                (one, two) => {
                    let mut errors = [None, None];
                    let is_equal = self.equal_contents(one, two, &mut errors);
                    for (side, error) in errors.iter().enumerate() {
                        error.iter().for_each(|error| missing(side, error));
                    }
                    is_equal
                }
            };
            match is_equal {
                Some(true) => {}
                // A single difference settles the result.
                Some(false) => return Some(false),
                None => result = None,
            }
        }
        result
    }

    /// Compares values of which at least one is in a long-value tree. Reads both in chunks. Returns `None` if a value
    /// cannot be read. Stores the first error of each side.
    fn equal_contents(
        &mut self,
        one: &ComparedValue<'_>,
        two: &ComparedValue<'_>,
        errors: &mut [Option<LongValueError>; 2],
    ) -> Option<bool> {
        let [side_one, side_two] = &mut self.sides;
        let (one, two) = both(side_one.open(one), side_two.open(two), errors)?;
        if one.len() != two.len() {
            return Some(false);
        }
        let mut offset = 0;
        while offset < one.len() {
            let chunks = match (side_one.content_at(&one, offset), side_two.content_at(&two, offset)) {
                (Err(left @ LongValueError::Chunk { .. }), Err(right @ LongValueError::Chunk { .. })) => {
                    errors[0].get_or_insert(left);
                    errors[1].get_or_insert(right);
                    None
                }
                (left, right) => Some(both(left, right, errors)?),
            };
            let count = match chunks {
                Some((left, right)) => {
                    let count = left.len().min(right.len());
                    if left.get(..count) != right.get(..count) {
                        return Some(false);
                    }
                    count
                }
                None => {
                    let stored = (side_one.pass_chunk(&one), side_two.pass_chunk(&two));
                    let (left, right) = both(stored.0, stored.1, errors)?;
                    // The tables have different chunk sizes, so the stored bytes say nothing about the values.
                    if left.end != right.end {
                        return None;
                    }
                    if left.bytes != right.bytes {
                        return Some(false);
                    }
                    left.end.saturating_sub(offset)
                }
            };
            // A chunk is never empty. If it were, the comparison would not end.
            if count == 0 {
                return Some(false);
            }
            offset += count;
        }
        Some(true)
    }
}

/// Returns the results for both sides, or stores their errors.
fn both<T, U>(
    one: Result<T, LongValueError>,
    two: Result<U, LongValueError>,
    errors: &mut [Option<LongValueError>; 2],
) -> Option<(T, U)> {
    match (one, two) {
        (Ok(one), Ok(two)) => Some((one, two)),
        (one, two) => {
            let [of_one, of_two] = errors;
            *of_one = of_one.take().or(one.err());
            *of_two = of_two.take().or(two.err());
            None
        }
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

    /// Moves past the chunk that could not be decoded, and returns its stored bytes.
    fn pass_chunk(&mut self, content: &ValueContent<'_>) -> Result<StoredChunk, LongValueError> {
        let ValueContent::Long(value) = content else {
            return Ok(StoredChunk { end: content.len(), bytes: Vec::new() });
        };
        let mut bytes = Vec::new();
        let len = self.long_values.stored_chunk(self.database, *value, self.chunk_start, &mut bytes)?;
        self.chunk.clear();
        self.chunk_start += len;
        Ok(StoredChunk { end: self.chunk_start, bytes })
    }
}

/// The stored bytes of a chunk that cannot be decoded.
struct StoredChunk {
    /// Position of the chunk's end in the value.
    end: usize,
    bytes: Vec<u8>,
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
