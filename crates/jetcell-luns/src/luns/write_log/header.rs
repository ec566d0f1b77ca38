//! Header of a write log: the array to which it belongs, its size, and the location of its records.
//!
//! ```text
//! offset  bytes
//!      0      8  "JETNVLG2"
//!      8      8  checksum (XXH3) of the block from byte 16 to its end
//!     16     16  array
//!     32      8  consistency point after which the log was created
//!     40      8  bytes of the log
//!     48      8  blocks of each shadow area
//!     56      8  the last consistency point that a record follows; 0: no record was written, or an
//!                earlier version wrote it
//!     64         zeros
//! ```
//!
//! All numbers are in the first sector of the block, so a power cut leaves either the old header or the new one.
//!
//! Logs from earlier versions have the magic "JETNVLOG", and their header ends after the consistency point. Such a
//! log is as large as its file, its records begin after the first block, and it has neither shadow areas nor a copy
//! of the header. Logs of this kind are only read.

use jetcell_array::BLOCK;
use twox_hash::XxHash3_64;

use super::record::MAX_RECORD_BLOCKS;

const MAGIC: [u8; 8] = *b"JETNVLG2";
const MAGIC_WITHOUT_SIZE: [u8; 8] = *b"JETNVLOG";
/// Offset at which the checksummed bytes start.
const CHECKSUM_START: usize = 16;
/// Minimum size of a log in bytes.
pub(in crate::luns) const MIN_BYTES: u64 = 1 << 20;
/// Ratio of the log's size to the size of a shadow area. A shadow area is never larger than the largest possible
/// record.
const SHADOW_PART: u64 = 16;

/// A log's size, and the offsets of its parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct WriteLogGeometry {
    bytes: u64,
    /// Number of blocks in each shadow area. 0 if an earlier version created the log, which then has no shadows.
    shadow_blocks: u64,
}

impl WriteLogGeometry {
    /// Returns the geometry of a new log of this size, which is rounded down to whole blocks.
    pub fn for_size(bytes: u64) -> WriteLogGeometry {
        let blocks = bytes / BLOCK as u64;
        let shadow_blocks = (blocks / SHADOW_PART).min(MAX_RECORD_BLOCKS as u64);
        WriteLogGeometry { bytes: blocks * BLOCK as u64, shadow_blocks }
    }

    /// Returns the geometry of a log from an earlier version, in a file of this size.
    pub fn without_shadows(bytes: u64) -> WriteLogGeometry {
        WriteLogGeometry { bytes: bytes / BLOCK as u64 * BLOCK as u64, shadow_blocks: 0 }
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn has_shadows(&self) -> bool {
        self.shadow_blocks > 0
    }

    /// Returns the maximum number of blocks in a record. Records are never added to a log without shadows.
    pub fn record_blocks(&self) -> u64 {
        self.shadow_blocks
    }

    /// Returns the offset of a record's shadow. Records alternate between two areas.
    pub fn shadow(&self, number: u64) -> u64 {
        (1 + number % 2 * self.shadow_blocks) * BLOCK as u64
    }

    /// Returns the offset up to which a record's shadow may extend.
    pub fn shadow_end(&self, number: u64) -> u64 {
        self.shadow(number) + self.shadow_blocks * BLOCK as u64
    }

    /// Returns the offset of the first record.
    pub fn records_start(&self) -> u64 {
        (1 + 2 * self.shadow_blocks) * BLOCK as u64
    }

    /// Returns the offset up to which records may extend.
    pub fn records_end(&self) -> u64 {
        if self.has_shadows() { header_copy(self.bytes) } else { self.bytes }
    }
}

/// Returns the offset of the header copy, which is the last block in a log of this size.
pub(super) fn header_copy(bytes: u64) -> u64 {
    (bytes / BLOCK as u64).saturating_sub(1) * BLOCK as u64
}

/// Header of a write log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct WriteLogHeader {
    pub array: u128,
    pub created_after: u64,
    /// Last consistency point that is followed by a record. 0 if there is none, or if it is unknown.
    pub used: u64,
    /// Geometry of the log. `None` for a log from an earlier version.
    pub geometry: Option<WriteLogGeometry>,
}

impl WriteLogHeader {
    /// Fills a block with the header of a log. The header must have a geometry.
    pub fn encode(&self, block: &mut [u8]) {
        block.fill(0);
        block[..8].copy_from_slice(&MAGIC);
        block[16..32].copy_from_slice(&self.array.to_le_bytes());
        let WriteLogGeometry { bytes, shadow_blocks } =
            self.geometry.unwrap_or(WriteLogGeometry { bytes: 0, shadow_blocks: 0 });
        for (at, number) in [(32, self.created_after), (40, bytes), (48, shadow_blocks), (56, self.used)] {
            block[at..at + 8].copy_from_slice(&number.to_le_bytes());
        }
        let sum = XxHash3_64::oneshot(&block[CHECKSUM_START..]);
        block[8..16].copy_from_slice(&sum.to_le_bytes());
    }

    /// Decodes a header. Returns `None` if the block is not the header of a log, or has impossible values.
    pub fn decode(block: &[u8]) -> Option<WriteLogHeader> {
        let number = |at: usize| Some(u64::from_le_bytes(block.get(at..at + 8)?.try_into().ok()?));
        if number(8)? != XxHash3_64::oneshot(block.get(CHECKSUM_START..)?) {
            return None;
        }
        let array = u128::from_le_bytes(block.get(16..32)?.try_into().ok()?);
        let made = number(32)?;
        if is_magic(block, MAGIC_WITHOUT_SIZE) {
            return Some(WriteLogHeader { array, created_after: made, used: 0, geometry: None });
        }
        let geometry = WriteLogGeometry { bytes: number(40)?, shadow_blocks: number(48)? };
        let WriteLogGeometry { bytes, shadow_blocks } = geometry;
        let is_possible = bytes >= MIN_BYTES
            && bytes.is_multiple_of(BLOCK as u64)
            && (1..=MAX_RECORD_BLOCKS as u64).contains(&shadow_blocks)
            && geometry.records_start() < geometry.records_end();
        let header =
            WriteLogHeader { array, created_after: made, used: number(56)?, geometry: Some(geometry) };
        (is_magic(block, MAGIC) && is_possible).then_some(header)
    }
}

fn is_magic(block: &[u8], magic: [u8; 8]) -> bool {
    block.starts_with(&magic)
}

/// Returns true if a block is a log header, even if the header is damaged.
pub(super) fn has_header_magic(block: &[u8]) -> bool {
    is_magic(block, MAGIC) || is_magic(block, MAGIC_WITHOUT_SIZE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_round_trips_and_every_bit_flip_is_rejected() {
        let geometry = Some(WriteLogGeometry::for_size(MIN_BYTES + 5));
        let header = WriteLogHeader { array: 1 << 100 | 7, created_after: 12, used: 1 << 40, geometry };
        let mut block = vec![1; BLOCK];
        header.encode(&mut block);
        assert_eq!(WriteLogHeader::decode(&block), Some(header));
        for bit in 0..BLOCK * 8 {
            block[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(WriteLogHeader::decode(&block), None, "bit {bit}");
            block[bit / 8] ^= 1 << (bit % 8);
        }
        assert!((0..BLOCK).all(|length| WriteLogHeader::decode(&block[..length]).is_none()));
    }

    #[test]
    fn impossible_geometries_with_valid_checksums_are_rejected() {
        let good = WriteLogGeometry::for_size(64 << 20);
        let wrong = [
            WriteLogGeometry { bytes: MIN_BYTES - BLOCK as u64, ..good },
            WriteLogGeometry { bytes: good.bytes + 1, ..good },
            WriteLogGeometry { shadow_blocks: 0, ..good },
            WriteLogGeometry { shadow_blocks: MAX_RECORD_BLOCKS as u64 + 1, ..good },
            WriteLogGeometry { bytes: MIN_BYTES, shadow_blocks: 128 },
            WriteLogGeometry { bytes: MIN_BYTES, shadow_blocks: u64::MAX },
        ];
        let mut block = vec![0; BLOCK];
        for geometry in wrong {
            WriteLogHeader { array: 1, created_after: 1, used: 0, geometry: Some(geometry) }
                .encode(&mut block);
            assert_eq!(WriteLogHeader::decode(&block), None, "{geometry:?}");
        }
    }

    #[test]
    fn log_areas_are_disjoint_and_within_the_log() {
        for bytes in [MIN_BYTES, 3 << 20, 64 << 20, 1 << 40] {
            let geometry = WriteLogGeometry::for_size(bytes);
            let borders = [
                BLOCK as u64,
                geometry.shadow(0),
                geometry.shadow_end(0),
                geometry.shadow(1),
                geometry.shadow_end(1),
                geometry.records_start(),
                geometry.records_end(),
                header_copy(bytes),
                bytes - BLOCK as u64,
            ];
            assert!(borders.is_sorted(), "{borders:?}");
            assert!(geometry.records_start() * 8 <= bytes + 8 * BLOCK as u64);
        }
    }
}
