//! The cells of a row: stored bytes, with long values read and compressed values decompressed.

use std::borrow::Cow;

/// A reference to a separate file that holds an exported value exceeding the row limit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ValueFileRef {
    /// Path of the file, relative to the output directory.
    pub path: String,
    /// Length of the file in bytes.
    pub bytes: u64,
}

/// A stored value that cannot be read, with the reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnreadableValue {
    /// Reason why the value cannot be read.
    pub reason: String,
    /// The bytes stored in the record for this value.
    pub stored: Vec<u8>,
}

/// A single exported value: inline, in a separate file, or unreadable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CellItem<'a> {
    /// Stored bytes of the value. Numbers are little-endian.
    Inline(Cow<'a, [u8]>),
    /// Reference to the file that contains the bytes.
    File(ValueFileRef),
    /// Reason why the bytes cannot be read.
    Unreadable(UnreadableValue),
}

/// One cell of an exported row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ExportedCell<'a> {
    /// No value.
    Null,
    /// One value.
    One(CellItem<'a>),
    /// Several values.
    Multi(Vec<CellItem<'a>>),
}

impl<'a> ExportedCell<'a> {
    /// Returns the values in order. There may be none, one or several.
    pub fn items(&self) -> &[CellItem<'a>] {
        match self {
            ExportedCell::Null => &[],
            ExportedCell::One(item) => std::slice::from_ref(item),
            ExportedCell::Multi(items) => items,
        }
    }
}

impl<'a> From<&'a [u8]> for ExportedCell<'a> {
    fn from(bytes: &'a [u8]) -> ExportedCell<'a> {
        ExportedCell::One(CellItem::Inline(Cow::Borrowed(bytes)))
    }
}
