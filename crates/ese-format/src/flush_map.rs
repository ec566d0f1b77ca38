//! The flush map: a file next to a database that stores the flush type of the last write of each page. If a page is
//! later read with a different flush type, the disk lost that write.
//!
//! ```text
//! 8 KiB pages: header | map page 0 | map page 1 | ...
//! header     0 checksum (4)   4 version (4, 4, 4)   16 zero (20)   36 flags (4)
//!           40 created, attached, detached (8 each)
//!           64 generation required (4), targeted (4)   72 flush started, completed (8 each)
//!           88 signature of the database header (28)   116 of this header (28)   144 zero   667 file type (4)
//! map page   0 ECC checksum (8), salted with its number   8 highest dbtime (8)   16 number (4)   20 zero (16)
//!           36 flags (4)   40 zero (24)   64 two bits per database page, the first in the top bits
//! ```
//!
//! The map is valid only if the database header contains the same two signatures.

use crate::checksum::{BlockIntegrity, header_checksum, verify_single};
use crate::declare::layout;
use crate::fields::{self, Fields};
use crate::layout::{BinaryLayout, Input};
use crate::{DbTime, Generation, LogTime, Signature};

/// Length in bytes of the header and of every map page.
pub const FLUSH_MAP_PAGE_LEN: usize = 8192;
/// File type of a flush map, at byte 667 of every ESE header.
pub const FILE_TYPE_FLUSH_MAP: u32 = 7;
/// Number of database pages that one map page describes.
pub const PAGES_PER_MAP_PAGE: u32 = ((FLUSH_MAP_PAGE_LEN - MAP_AT) * 4) as u32;
const CHECKSUM_LEN: usize = 4;
const MAP_AT: usize = 64;

layout! {
    /// Fields of a flush map's header page in file order, from byte 4.
    #[doc(alias = "FMFILEHDR")]
    pub struct FlushMapHeader {
        /// Format version.
        version_major: u32,
        /// Format update, major.
        version_update: u32,
        /// Format update, minor.
        version_update_minor: u32,
        /// Reserved; always zero.
        reserved: [u8; 20],
        /// Flags of the map. Bit 0 is [`FlushMapHeader::CLEAN`].
        flags: u32,
        /// Creation time.
        created: LogTime,
        /// Time of the last attach.
        attached: LogTime,
        /// Time of the last detach.
        detached: LogTime,
        /// Oldest log generation needed to bring the map up to date; 0 if the map is clean.
        gen_min_required: Generation,
        /// Value that `gen_min_required` will have once the current flush of the whole map completes; 0 if no such
        /// flush is in progress.
        gen_min_required_target: Generation,
        /// Time at which the last flush of the whole map started.
        flush_started: LogTime,
        /// Time at which the last flush of the whole map completed.
        flush_completed: LogTime,
        /// Flush signature from the header of the database to which the map belongs.
        database_flush_signature: Signature,
        /// Flush signature of this header. The database header contains a copy of it.
        flush_signature: Signature,
        /// Reserved; always zero.
        reserved_2: [u8; 523],
        /// File type; always [`FILE_TYPE_FLUSH_MAP`].
        file_type: u32,
    }
}
const _: () = assert!(CHECKSUM_LEN + <FlushMapHeader as BinaryLayout>::FIXED == 671);

layout! {
    /// Fields of a map page's header in file order, from byte 8.
    #[doc(alias = "FlushMapDataPageHdr")]
    #[derive(Copy)]
    pub struct MapPageHeader {
        /// Highest dbtime among the database pages that the map page describes.
        db_time: DbTime,
        /// Number of the map page, starting at 0.
        number: u32,
        /// Reserved; always zero.
        reserved: [u8; 16],
        /// Flags of the page; always 0x2000.
        flags: u32,
        /// Reserved; always zero.
        reserved_2: [u8; 24],
    }
}
const _: () = assert!(8 + <MapPageHeader as BinaryLayout>::FIXED == MAP_AT);

/// Error returned when bytes cannot be decoded as a flush map header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FlushMapError {
    /// The input is shorter than a header.
    #[error("the flush map header needs {FLUSH_MAP_PAGE_LEN} bytes, but only {available} are available")]
    Truncated {
        /// Length of the input in bytes.
        available: usize,
    },
    /// The stored checksum does not match the contents.
    #[error("the flush map header checksum is {stored:08x}, expected {computed:08x}")]
    BadChecksum {
        /// Checksum stored in the header.
        stored: u32,
        /// Checksum computed from the header.
        computed: u32,
    },
    /// The file is not a flush map.
    #[error("the file is not a flush map (file type {file_type})")]
    NotAFlushMap {
        /// File type found in bytes 667..671.
        file_type: u32,
    },
}

impl FlushMapHeader {
    /// Flag that indicates that the database was detached and that the map is up to date.
    pub const CLEAN: u32 = 1;

    /// Decodes the header page.
    pub fn decode(bytes: &[u8]) -> Result<FlushMapHeader, FlushMapError> {
        let truncated = FlushMapError::Truncated { available: bytes.len() };
        let page = bytes.get(..FLUSH_MAP_PAGE_LEN).ok_or(truncated)?;
        let input = &mut Input::new(page);
        let stored = u32::take(input).map_err(|_| truncated)?;
        let header = FlushMapHeader::take(input).map_err(|_| truncated)?;
        if header.file_type != FILE_TYPE_FLUSH_MAP {
            return Err(FlushMapError::NotAFlushMap { file_type: header.file_type });
        }
        let computed = header_checksum(page);
        if stored != computed {
            return Err(FlushMapError::BadChecksum { stored, computed });
        }
        Ok(header)
    }

    /// Returns the fields of a header page without validating them. Returns `None` if the page is too short.
    pub fn fields(page: &[u8]) -> Option<Fields> {
        fields::describe_fields::<FlushMapHeader>(page.get(CHECKSUM_LEN..)?).ok()
    }
}

/// Verifies a map page read from the offset of map page `number`, and corrects a single flipped bit in place.
pub fn verify_map_page(page: &mut [u8], number: u32) -> BlockIntegrity {
    verify_single(page, FLUSH_MAP_PAGE_LEN, number)
}

/// Decodes the header of a map page.
pub fn map_page_header(page: &[u8]) -> Option<MapPageHeader> {
    MapPageHeader::take(&mut Input::new(page.get(8..)?)).ok()
}

/// Returns the flush types on a map page in their stored form: two bits each, starting with the top bits of the first
/// byte.
pub fn flush_type_bytes(page: &[u8]) -> Option<&[u8]> {
    page.get(MAP_AT..FLUSH_MAP_PAGE_LEN)
}

/// Returns the flush types on a map page, each from 0 to 3. The first is for database page `number *`
/// [`PAGES_PER_MAP_PAGE`].
pub fn flush_types(page: &[u8]) -> impl Iterator<Item = u8> {
    let bytes = flush_type_bytes(page).unwrap_or_default();
    bytes.iter().flat_map(|byte| [byte >> 6, byte >> 4 & 3, byte >> 2 & 3, byte & 3])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_flush_type_is_in_the_top_bits() {
        let mut page = vec![0; FLUSH_MAP_PAGE_LEN];
        page[64..66].copy_from_slice(&[0x16, 0xe4]);
        let types: Vec<u8> = flush_types(&page).collect();
        assert_eq!(types[..8], [0, 1, 1, 2, 3, 2, 1, 0]);
        assert_eq!(types.len(), PAGES_PER_MAP_PAGE as usize);
    }

    #[test]
    fn a_header_needs_the_right_file_type_and_checksum() {
        let mut page = vec![0; FLUSH_MAP_PAGE_LEN];
        assert_eq!(FlushMapHeader::decode(&page), Err(FlushMapError::NotAFlushMap { file_type: 0 }));
        page[667] = 7;
        page[36] = 1;
        let computed = header_checksum(&page);
        assert_eq!(FlushMapHeader::decode(&page), Err(FlushMapError::BadChecksum { stored: 0, computed }));
        page[..4].copy_from_slice(&computed.to_le_bytes());
        assert_eq!(FlushMapHeader::decode(&page).unwrap().flags, FlushMapHeader::CLEAN);
        assert!(matches!(
            FlushMapHeader::decode(&page[..671]),
            Err(FlushMapError::Truncated { available: 671 })
        ));
    }
}
