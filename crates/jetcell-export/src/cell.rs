//! Cells of rows: stored bytes, with long values read and compressed ones decompressed.

use std::borrow::Cow;

/// A value that is too long for its row and is in a file of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ValueFileRef {
    /// Path of the file, relative to the directory of the output.
    pub path: String,
    /// Length of the file.
    pub bytes: u64,
}

/// A value that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unreadable {
    /// Reason.
    pub reason: String,
    /// The bytes that the record stores for the value.
    pub stored: Vec<u8>,
}

/// One value: inline, in a file, or unreadable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Item<'a> {
    /// The stored bytes of the value, which are little-endian.
    Inline(Cow<'a, [u8]>),
    /// Reference to a file with these bytes.
    File(ValueFileRef),
    /// Reason for which they cannot be read.
    Unreadable(Unreadable),
}

/// One cell.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Cell<'a> {
    /// Null.
    Null,
    /// One value.
    One(Item<'a>),
    /// Several values.
    Multi(Vec<Item<'a>>),
}

impl<'a> Cell<'a> {
    /// The values in order: none, one or several.
    pub fn items(&self) -> &[Item<'a>] {
        match self {
            Cell::Null => &[],
            Cell::One(item) => std::slice::from_ref(item),
            Cell::Multi(items) => items,
        }
    }
}

impl<'a> From<&'a [u8]> for Cell<'a> {
    fn from(bytes: &'a [u8]) -> Cell<'a> {
        Cell::One(Item::Inline(Cow::Borrowed(bytes)))
    }
}
