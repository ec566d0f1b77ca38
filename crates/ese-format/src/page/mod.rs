//! A page of a B+ tree: header, lines that grow up, and tags that grow down.
//!
//! ```text
//!  0                 40 (80)                                                     page size
//!  | header          | line | line | hole | line | ... free ... | tag n-1 | ... | tag 1 | tag 0 |
//!                    ^ offsets of lines start here              ^ contiguous free area ends here
//!
//!  tag:   u16 length, u16 offset (13 bits each; 15 on large pages). Small pages: node flags on top of offset
//!  node:  [u16 prefix length, if compressed] u16 suffix length | suffix | data      (13 bits each)
//!         large pages: node flags on top of the first length; internal pages: data = u32 child page
//! ```
//!
//! Tag 0 is the external header. On the root of a tree, it contains the space header. On the root of a space tree, it
//! contains the split reserve and the prefix. On any other page, it contains the key prefix. Some of the newest files
//! reserve more tags, and the nodes follow these. A node index counts only nodes.
//!
//! Invariants: `sum of line lengths + free_bytes + 4 * tags = data area`. Lines do not overlap, and end before the
//! contiguous free area. [`Page`] does not rely on these invariants: it returns `None` for anything out of bounds.
//! [`validate`] checks them. [`PageMut`] preserves them on valid pages and does not panic on others.
//!
//! Checksums are handled by [`crate::checksum`]. The crate `ese-check` checks the order of keys and the links between
//! pages.

mod edit;
mod flags;
mod logical_checksum;
mod validate;
mod view;

pub use edit::{PageFull, PageMut};
pub use flags::{NodeFlags, PageFlags};
pub use logical_checksum::{fold_logical_checksum, fold_logical_checksum_to_16_bits, logical_checksum};
pub use validate::{PageError, validate};
pub use view::{Node, Page, UnusedRange};

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The header at the start of every page. ESE: `CPAGE::PGHDR`.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Debug)]
#[repr(C)]
pub(crate) struct PageHeader {
    /// Checksum of the first block. Legacy pages store the 32-bit XOR and the page number here.
    checksum: U64,
    /// dbtime of the last change. ESE: `dbtimeDirtied`.
    db_time: U64,
    /// Left sibling. ESE: `pgnoPrev`.
    prev: U32,
    /// Right sibling. ESE: `pgnoNext`.
    next: U32,
    /// Tree to which the page belongs. ESE: `objidFDP`.
    tree: U32,
    /// Number of free bytes, including holes between lines. ESE: `cbFree`.
    free: U16,
    /// Number of free bytes that rollbacks may still need. ESE: `cbUncommittedFree`.
    uncommitted_free: U16,
    /// Start of the contiguous free area. ESE: `ibMicFree`.
    free_start: U16,
    /// Number of tags in bits 0..12, and number of reserved tags in bits 12..15 (0 means 1). ESE: `itagMicFree`.
    tag_state: U16,
    /// Flags of the page; see [`PageFlags`].
    flags: U32,
}

/// Second header on 16 and 32 KiB pages, following the first. ESE: `CPAGE::PGHDR2`.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Debug)]
#[repr(C)]
pub(crate) struct LargePageHeader {
    /// Checksums of blocks 1..4.
    checksums: [U64; 3],
    /// Number of the page. ESE: `pgno`.
    number: U32,
    /// Reserved; always zero.
    reserved: [u8; 12],
}

/// Length of [`PageHeader`] in bytes. Offsets into [`Page`]'s body are relative to the end of this header.
const HEADER_LEN: usize = size_of::<PageHeader>();
const _: () = assert!(HEADER_LEN == 40 && std::mem::offset_of!(PageHeader, flags) == 36);
const _: () = assert!(std::mem::offset_of!(PageHeader, free) == 28);
const _: () =
    assert!(size_of::<LargePageHeader>() == 40 && std::mem::offset_of!(LargePageHeader, number) == 24);

/// Length of a tag in bytes.
const TAG_LEN: usize = 4;
/// Length in bytes of the split reserve. It precedes the prefix in the external header of a space-tree root.
pub(crate) const SPLIT_RESERVE_LEN: usize = 16;
/// Minimum length of a shared prefix. Keys with a shorter common prefix are stored in full.
const MIN_PREFIX: usize = 3;
/// Maximum length of a node's prefix or suffix.
const MAX_KEY_PART: usize = 0x1fff;
/// Maximum number of tags.
const MAX_TAGS: usize = 0xfff;

/// Returns the number of bytes that a node occupies on its page, including its tag.
pub const fn node_space(key_len_after_prefix: usize, has_prefix: bool, data_len: usize) -> usize {
    TAG_LEN + 2 + if has_prefix { 2 } else { 0 } + key_len_after_prefix + data_len
}

/// Returns the number of leading bytes that `key` shares with the page's `prefix`. Returns 0 if sharing would not
/// save space.
pub fn shared_prefix_len(prefix: &[u8], key: &[u8]) -> usize {
    let common = prefix.iter().zip(key).take(MAX_KEY_PART).take_while(|(a, b)| a == b).count();
    if common >= MIN_PREFIX { common } else { 0 }
}

/// Chooses the prefix for a page of `count` nodes with the given first and last keys. All keys between the two start
/// with this prefix. Returns an empty prefix if storing it once would not save space.
pub fn choose_prefix<'k>(first: &'k [u8], last: &[u8], count: usize) -> &'k [u8] {
    let common = shared_prefix_len(last, first);
    let saved = count.saturating_mul(common.saturating_sub(2));
    if saved >= common { first.get(..common).unwrap_or_default() } else { &[] }
}

/// A decoded tag. ESE: `CPAGE::TAG`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Tag {
    len: usize,
    /// Offset of the line from the start of the data area.
    start: usize,
    /// Flags of the node on small pages; undefined on large ones.
    flags: u8,
}

impl Tag {
    const fn mask(large: bool) -> u16 {
        if large { 0x7fff } else { 0x1fff }
    }

    const fn decode(bytes: [u8; TAG_LEN], large: bool) -> Tag {
        let [len0, len1, start0, start1] = bytes;
        let start = u16::from_le_bytes([start0, start1]);
        Tag {
            len: (u16::from_le_bytes([len0, len1]) & Tag::mask(large)) as usize,
            start: (start & Tag::mask(large)) as usize,
            flags: (start >> 13) as u8,
        }
    }

    const fn encode(self, large: bool) -> [u8; TAG_LEN] {
        let flags = if large { 0 } else { (self.flags as u16) << 13 };
        let [len0, len1] = (self.len as u16 & Tag::mask(large)).to_le_bytes();
        let [start0, start1] = ((self.start as u16 & Tag::mask(large)) | flags).to_le_bytes();
        [len0, len1, start0, start1]
    }

    const fn end(self) -> usize {
        self.start + self.len
    }
}

#[cfg(test)]
mod tests;
