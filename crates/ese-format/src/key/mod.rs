//! Index keys: column values converted to bytes that sort in the same order as the values.
//!
//! ```text
//!  key = segment | segment | ...              truncated at the index's limit
//!  segment = prefix byte [| value]            all bits inverted when descending
//!    00 null   40 zero length   7F value follows   C0 null that sorts high
//! ```
//!
//! The encoding depends on the type. Integers are big-endian with the sign bit flipped. Floats are encoded in the
//! same way, and negative floats are inverted completely. GUIDs are ordered by their groups, starting with the last.
//! ASCII text is converted to upper case and terminated. Variable binary is split into groups of eight bytes, each
//! followed by a length.
//!
//! The encoding was verified on all keys of the test corpus whose columns are supported. Not supported: Unicode text,
//! whose keys depend on tables inside Windows, and tuple indexes (parts of strings).

mod flags;
mod segment;
#[cfg(test)]
mod tests;

pub use flags::IndexFlags;

use thiserror::Error;

use crate::PageSize;
use crate::record::{Column, ColumnId, RecordError};

/// Default maximum length of a key in bytes. ESE: `JET_cbKeyMost_OLD`.
pub const DEFAULT_MAX_KEY_LEN: usize = 255;

/// Error returned when a key cannot be constructed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum KeyError {
    /// The column is Unicode text, whose sort order is defined by tables inside Windows.
    #[error("keys of column {0} require the Windows sort tables")]
    UnicodeText(ColumnId),
    /// The index is a tuple index.
    #[error("tuple indexes are not supported")]
    TupleIndex,
    /// The value's length does not match its type.
    #[error("the value of column {column} is {len} bytes long")]
    WrongLength {
        /// Key column.
        column: ColumnId,
        /// Length of the value in bytes.
        len: usize,
    },
    /// The index names a column that the table does not have.
    #[error("column {0} does not exist")]
    UnknownColumn(ColumnId),
    /// The key is too long, and the index does not allow truncation.
    #[error("the key is too long, and the index does not allow truncation")]
    Truncated,
    /// The index does not allow nulls in any column.
    #[error("the index does not allow null")]
    NullNotAllowed,
    /// The record cannot be read.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A long value that is part of the key cannot be read.
    #[error("the long value of column {0} is missing")]
    LongValue(ColumnId),
}

/// Length limits for the keys of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyLimits {
    /// Maximum length of a key in bytes. ESE: `cbKeyMost`.
    pub key: usize,
    /// Maximum length of the key segment for a text or binary column, if shorter. ESE: `cbVarSegMac`.
    pub segment: Option<usize>,
}

impl Default for KeyLimits {
    fn default() -> KeyLimits {
        KeyLimits { key: DEFAULT_MAX_KEY_LEN, segment: None }
    }
}

/// A key column with its value and sort order.
#[derive(Clone, Copy, Debug)]
pub struct KeyPart<'a> {
    /// Key column.
    pub column: &'a Column,
    /// Value in its stored form; `None` for null.
    pub value: Option<&'a [u8]>,
    /// Whether this column sorts in descending order.
    pub descending: bool,
}

/// A normalised index key, whose bytes sort in index order.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Key {
    /// Bytes of the key.
    pub bytes: Vec<u8>,
    /// Whether the key was truncated at its limit.
    pub truncated: bool,
}

/// Returns the highest key limit that an index may have on pages of this size.
pub const fn max_key_limit(size: PageSize) -> usize {
    match size.get() {
        2048 => 500,
        4096 => 1000,
        _ => 2000,
    }
}

/// Returns the limit that ESE assigns to a primary index whose columns all have a fixed size, which is the exact
/// length of its keys.
///
/// Returns `None` if any column does not have a fixed size. Such an index uses [`DEFAULT_MAX_KEY_LEN`].
pub fn exact_key_limit<'a>(columns: impl IntoIterator<Item = &'a Column>) -> Option<usize> {
    columns.into_iter().map(|column| column.kind.fixed_size().map(|size| size + 1)).sum()
}

/// Initial capacity in bytes, which is enough for numeric and GUID keys.
pub(crate) const SHORT_KEY: usize = 32;

/// Constructs the key from `parts`, which are the values of the index's segments in order.
pub fn normalise(parts: &[KeyPart<'_>], limits: KeyLimits, flags: IndexFlags) -> Result<Key, KeyError> {
    let mut bytes = Vec::with_capacity(limits.key.min(SHORT_KEY));
    let truncated = append(parts, limits, flags, &mut bytes)?;
    Ok(Key { bytes, truncated })
}

/// Appends the key constructed from `parts` to `key`; see [`normalise`]. Returns whether the key was truncated. After
/// an error, `key` may contain part of the new key.
pub fn append(
    parts: &[KeyPart<'_>],
    limits: KeyLimits,
    flags: IndexFlags,
    key: &mut Vec<u8>,
) -> Result<bool, KeyError> {
    let (begin, mut truncated) = (key.len(), false);
    for part in parts {
        let start = key.len();
        let room = limits.key.saturating_sub(start - begin);
        if room == 0 {
            // ESE ignores segments beyond the limit but marks the key as truncated.
            truncated = true;
            break;
        }
        let segment = limits.segment.filter(|segment| *segment < limits.key).unwrap_or(usize::MAX);
        truncated |= segment::append(part, flags, room, segment, key)?;
        if part.descending {
            key.iter_mut().skip(start).for_each(|byte| *byte = !*byte);
        }
    }
    if truncated && flags.contains(IndexFlags::DISALLOW_TRUNCATION) {
        return Err(KeyError::Truncated);
    }
    Ok(truncated)
}

/// Result of applying an index's null rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NullRuleResult {
    /// The record is included in the index.
    Entry,
    /// The record is not included in the index.
    NoEntry,
    /// The record is rejected.
    Rejected,
}

/// Applies an index's null rules to the segments of one entry; `true` means null.
pub(crate) fn null_rule(nulls: &[bool], flags: IndexFlags) -> NullRuleResult {
    let allowed = |flag| flags.contains(flag);
    if !nulls.contains(&true) {
        NullRuleResult::Entry
    } else if allowed(IndexFlags::NO_NULL_SEGMENT) {
        NullRuleResult::Rejected
    } else if nulls.iter().all(|null| *null) {
        if allowed(IndexFlags::ALLOW_ALL_NULLS) { NullRuleResult::Entry } else { NullRuleResult::NoEntry }
    } else if nulls.first() == Some(&true) && !allowed(IndexFlags::ALLOW_FIRST_NULL)
        || !allowed(IndexFlags::ALLOW_SOME_NULLS)
    {
        NullRuleResult::NoEntry
    } else {
        NullRuleResult::Entry
    }
}
