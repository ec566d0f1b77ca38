//! The logical checksum of a page. It is equal for all copies of a page with the same changes, regardless of their
//! layout.
//!
//! ```text
//!  sum = 0;  for each byte: sum = rotate_left(sum, 6) + byte
//!    header     without checksums, free bytes, start of the free area, flush type
//!    each tag   not deleted: u16 length, and the line without its first two bytes
//!               then the flags of the node, without VERSIONED
//! ```
//!
//! Log records store the checksum XORed with a dbtime of the database and then folded to 32 or 16 bits.

use zerocopy::{FromBytes, IntoBytes};

use super::{HEADER_LEN, LargePageHeader, NodeFlags, Page, PageFlags, PageHeader};
use crate::{DbTime, PageSize};

/// Number of bytes at the start of a line that hold its length and flags.
const LINE_START: usize = 2;

/// Returns the logical checksum of a page. Lines that extend beyond the page are ignored.
#[doc(alias = "LoggedDataChecksum")]
pub fn logical_checksum(bytes: &[u8], size: PageSize) -> u64 {
    let Ok((header, _)) = PageHeader::read_from_prefix(bytes) else { return 0 };
    let mut header = header;
    let unlogged = (PageFlags::FLUSH_TYPE | PageFlags::NEW_CHECKSUM).bits();
    header.checksum = 0.into();
    header.free = 0.into();
    header.uncommitted_free = 0.into();
    header.free_start = 0.into();
    header.flags = (header.flags.get() & !unlogged).into();
    let mut sum = add(0, header.as_bytes());
    if size.is_large() {
        let stored = bytes.get(HEADER_LEN..).and_then(|rest| LargePageHeader::read_from_prefix(rest).ok());
        if let Some((stored, _)) = stored {
            let logged =
                LargePageHeader { checksums: [0.into(); 3], number: stored.number, reserved: [0; 12] };
            sum = add(sum, logged.as_bytes());
        }
    }
    let page = Page::new(bytes, size);
    for index in 0..page.tag_count() {
        let Some(tag) = page.tag(index) else { continue };
        let line = match tag.len {
            ..LINE_START => None,
            _ => match page.line(index) {
                Some(line) => Some(line),
                None => continue,
            },
        };
        // On large pages, the node flags are stored in the line.
        let flags = match (size.is_large(), line) {
            (true, Some(line)) => line.get(1).map_or(0, |byte| byte >> 5),
            (true, None) => 0,
            (false, _) => tag.flags,
        };
        if let Some(line) = line.filter(|_| flags & NodeFlags::DELETED.bits() == 0) {
            sum = add(sum, &(tag.len as u16).to_le_bytes());
            sum = add(sum, line.get(LINE_START..).unwrap_or_default());
        }
        sum = add(sum, &[flags & !NodeFlags::VERSIONED.bits()]);
    }
    sum
}

/// Folds a logical checksum to the form used in `ScanCheck2` records. `seed` is the highest dbtime of the database
/// when the page was read.
pub fn fold_logical_checksum(sum: u64, seed: DbTime) -> u32 {
    let mixed = sum ^ seeded(seed);
    (mixed >> 32) as u32 ^ mixed as u32
}

/// Folds a logical checksum to the form used in `ScanCheck` records, which older engines write. `seed` is the highest
/// dbtime of the database when the page was read.
pub fn fold_logical_checksum_to_16_bits(sum: u64, seed: DbTime) -> u16 {
    let mixed = sum ^ seeded(seed);
    (mixed >> 48) as u16 ^ (mixed >> 32) as u16 ^ (mixed >> 16) as u16 ^ mixed as u16
}

fn seeded(seed: DbTime) -> u64 {
    seed.0.rotate_left((seed.0 & 0x1f) as u32)
}

fn add(sum: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(sum, |sum, byte| sum.rotate_left(6).wrapping_add(u64::from(*byte)))
}
