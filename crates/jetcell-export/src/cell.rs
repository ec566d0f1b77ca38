//! What a row holds for a column: raw bytes, long values fetched and compressed ones inflated.

use std::borrow::Cow;

/// A value too long to be held in memory with its row: it is in a file of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Elsewhere {
    /// The file, as seen from the directory that the output is in.
    pub path: String,
    /// Its length.
    pub bytes: u64,
}

/// A value that is there but cannot be shown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unreadable {
    /// Why.
    pub reason: String,
    /// What is stored in its place.
    pub stored: Vec<u8>,
}

/// One value: here, elsewhere, or unreadable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Item<'a> {
    /// The value, as the column's little-endian bytes.
    Here(Cow<'a, [u8]>),
    /// Where those bytes are.
    Elsewhere(Elsewhere),
    /// Why there are none.
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
    /// Its values in order: none, one or several.
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
        Cell::One(Item::Here(Cow::Borrowed(bytes)))
    }
}
