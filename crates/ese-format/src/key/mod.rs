//! Index keys: column values turned into bytes that compare like the values.
//!
//! ```text
//!  key = segment | segment | ...              cut at the index's limit
//!  segment = prefix byte [| value]            all bits inverted when descending
//!    00 null   40 zero length   7F value follows   C0 null that sorts high
//! ```
//!
//! Per type: big-endian with the sign bit flipped (floats: negative ones inverted); GUIDs by their groups from the
//! last; ASCII text in upper case with a terminator; variable binary in groups of eight with a length after each.
//!
//! Verified on every key of the corpus whose columns are supported. Left out: Unicode text, whose keys come from
//! tables inside Windows, and tuple indexes (parts of strings).

mod flags;
mod segment;
#[cfg(test)]
mod tests;

pub use flags::IndexFlags;

use thiserror::Error;

use crate::PageSize;
use crate::record::{Column, ColumnId, RecordError};

/// Limit of keys unless the index has its own. ESE: `JET_cbKeyMost_OLD`.
pub const DEFAULT_KEY_MOST: usize = 255;

/// Why a key cannot be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum KeyError {
    /// Text whose order only Windows knows.
    #[error("keys of column {0} need the sort tables of Windows")]
    UnicodeText(ColumnId),
    /// The index cuts values into tuples.
    #[error("tuple indexes are not supported")]
    TupleIndex,
    /// The value has not the length of its type.
    #[error("column {column} has a value of {len} bytes")]
    WrongLength {
        /// The column.
        column: ColumnId,
        /// Length of the value.
        len: usize,
    },
    /// The index names a column the table does not have.
    #[error("no column {0}")]
    UnknownColumn(ColumnId),
    /// The index refuses keys that do not fit.
    #[error("the key does not fit and the index refuses to cut it")]
    Truncated,
    /// The index refuses null in any column.
    #[error("the index refuses null")]
    NullNotAllowed,
    /// The record cannot be read.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A long value that belongs into the key could not be had.
    #[error("the long value of column {0} is missing")]
    LongValue(ColumnId),
}

/// Limits of an index's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyLimits {
    /// Longest key. ESE: `cbKeyMost`.
    pub key: usize,
    /// Longest segment of a text or binary column, if shorter. ESE: `cbVarSegMac`.
    pub segment: Option<usize>,
}

impl Default for KeyLimits {
    fn default() -> KeyLimits {
        KeyLimits { key: DEFAULT_KEY_MOST, segment: None }
    }
}

/// A column value on its way into a key.
#[derive(Clone, Copy, Debug)]
pub struct KeyPart<'a> {
    /// The column.
    pub column: &'a Column,
    /// Raw value, `None` for null.
    pub value: Option<&'a [u8]>,
    /// Does this column sort in descending order?
    pub descending: bool,
}

/// A normalised key.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Key {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Was something cut off at the end?
    pub truncated: bool,
}

/// Longest limit an index may have on pages of this size.
pub const fn max_key_limit(size: PageSize) -> usize {
    match size.get() {
        2048 => 500,
        4096 => 1000,
        _ => 2000,
    }
}

/// The limit ESE gives a primary index whose columns all have a fixed size: exactly what its keys take.
///
/// `None` if a column has no fixed size; such indexes keep [`DEFAULT_KEY_MOST`].
pub fn exact_key_limit<'a>(columns: impl IntoIterator<Item = &'a Column>) -> Option<usize> {
    columns.into_iter().map(|column| column.kind.fixed_size().map(|size| size + 1)).sum()
}

/// Room for the keys of numbers and GUIDs.
const SHORT_KEY: usize = 32;

/// The key of `parts`, which are the segments of the index in order.
pub fn normalise(parts: &[KeyPart<'_>], limits: KeyLimits, flags: IndexFlags) -> Result<Key, KeyError> {
    let mut key = Key { bytes: Vec::with_capacity(limits.key.min(SHORT_KEY)), truncated: false };
    for part in parts {
        let room = limits.key.saturating_sub(key.bytes.len());
        if room == 0 {
            // ESE does not look at what cannot fit, but knows that it was there.
            key.truncated = true;
            break;
        }
        let start = key.bytes.len();
        let segment = limits.segment.filter(|segment| *segment < limits.key).unwrap_or(usize::MAX);
        key.truncated |= segment::append(part, flags, room, segment, &mut key.bytes)?;
        if part.descending {
            key.bytes.iter_mut().skip(start).for_each(|byte| *byte = !*byte);
        }
    }
    if key.truncated && flags.contains(IndexFlags::DISALLOW_TRUNCATION) {
        return Err(KeyError::Truncated);
    }
    Ok(key)
}

/// What the null rules of an index say about a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NullRule {
    /// The record has an entry.
    Entry,
    /// The record has none.
    NoEntry,
    /// The record may not exist.
    Refused,
}

/// Applies an index's null rules to the segments of one entry; `true` stands for null.
pub(crate) fn null_rule(nulls: &[bool], flags: IndexFlags) -> NullRule {
    let allowed = |flag| flags.contains(flag);
    if !nulls.contains(&true) {
        NullRule::Entry
    } else if allowed(IndexFlags::NO_NULL_SEGMENT) {
        NullRule::Refused
    } else if nulls.iter().all(|null| *null) {
        if allowed(IndexFlags::ALLOW_ALL_NULLS) { NullRule::Entry } else { NullRule::NoEntry }
    } else if nulls.first() == Some(&true) && !allowed(IndexFlags::ALLOW_FIRST_NULL)
        || !allowed(IndexFlags::ALLOW_SOME_NULLS)
    {
        NullRule::NoEntry
    } else {
        NullRule::Entry
    }
}
