//! A row that was found outside the tree of its table.

use std::ops::Range;

use ese_format::PageNumber;

use crate::additional_rows::CarvedOrigin;

/// A row found outside the tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct CarvedNode {
    pub(crate) page: PageNumber,
    /// Position of the record on the page.
    pub(crate) record: Range<usize>,
    pub(crate) origin: CarvedOrigin,
    /// True if the node is flagged deleted.
    pub(crate) deleted: bool,
    /// Length of the part that certainly belongs to the record. This is the whole record unless its end is unknown.
    pub(super) known: usize,
    /// True if the end of the record is certain. This cannot be derived from the lengths, because all bytes after the
    /// known part may have been trimmed.
    pub(super) exact: bool,
}
