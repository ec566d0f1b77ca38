//! What a row holds for a column: raw bytes, long values fetched and compressed ones inflated.

use std::borrow::Cow;

/// A value that is there but cannot be shown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unreadable {
    /// Why.
    pub reason: String,
    /// What is stored in its place.
    pub stored: Vec<u8>,
}

/// One of several values.
pub type Item<'a> = Result<Cow<'a, [u8]>, Unreadable>;

/// One cell.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Cell<'a> {
    /// Null.
    Null,
    /// One value, as the column's little-endian bytes.
    Value(Cow<'a, [u8]>),
    /// Several values.
    Multi(Vec<Item<'a>>),
    /// A value that cannot be shown.
    Unreadable(Unreadable),
}

impl<'a> From<Item<'a>> for Cell<'a> {
    fn from(item: Item<'a>) -> Cell<'a> {
        item.map_or_else(Cell::Unreadable, Cell::Value)
    }
}
