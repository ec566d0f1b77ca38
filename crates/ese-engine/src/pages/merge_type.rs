//! Values of `Merge::merge_type`, called `MERGETYPE` by ESE.

/// The record refers to an internal page on the path to the merged leaf.
pub const PATH: u8 = 0;
/// The page contained no node that is still needed.
pub const EMPTY_PAGE: u8 = 1;
/// All nodes of the page move to the right neighbour.
pub const FULL_RIGHT: u8 = 2;
/// The nodes from the record's line onwards move to the right neighbour.
pub const PARTIAL_RIGHT: u8 = 3;
/// All nodes of the page move to the left neighbour. Only ESE performs such merges.
pub const FULL_LEFT: u8 = 5;
/// The nodes up to the record's line move to the left neighbour.
pub const PARTIAL_LEFT: u8 = 6;
