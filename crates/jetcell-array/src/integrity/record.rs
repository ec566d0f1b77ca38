//! Record of a block: 64 bytes in the first block of the block's zone.

use twox_hash::XxHash3_64;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::geometry::{MAX_DATA_COLUMNS, MAX_NUMBER};

/// Size of a record in bytes. A sector contains whole records, so a torn write replaces each record completely or not
/// at all.
pub(crate) const RECORD_BYTES: usize = 64;

/// Describes the last write to a block. A record of 64 zeros means that the block was never written and reads as
/// zeros.
///
/// ```text
/// offset  bytes
///      0      8  checksum (XXH3) of the block
///      8      8  row, to detect misdirected writes
///     16      8  row generation when this block was written, to detect lost writes
///     24     28  parity blocks: low byte of the generation of each data column, 0 if never written; otherwise zeros
///     52      4  array
///     56      2  cell of the row: data column, or 0x8000 + parity block
///     58      2  zeros
///     60      4  seal: checksum of the preceding bytes
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct BlockRecord {
    pub checksum: U64,
    pub row: U64,
    pub generation: U64,
    pub tags: [u8; MAX_DATA_COLUMNS],
    array: U32,
    cell: U16,
    reserved: U16,
    seal: U32,
}

/// Contents of the location where a block's record is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RecordSlot {
    /// The block was never written.
    Empty,
    /// The block was written.
    Written(BlockRecord),
    /// The bytes are not a record of this block.
    Damaged,
}

impl BlockRecord {
    pub fn new(
        array: u128,
        row: u64,
        cell: u16,
        generation: u64,
        tags: [u8; MAX_DATA_COLUMNS],
        block: &[u8],
    ) -> BlockRecord {
        let checksum = BlockRecord::checksum_of(block);
        BlockRecord::with_checksum(array, row, cell, generation, tags, checksum)
    }

    /// Creates the record of a block that has this checksum.
    pub fn with_checksum(
        array: u128,
        row: u64,
        cell: u16,
        generation: u64,
        tags: [u8; MAX_DATA_COLUMNS],
        checksum: u64,
    ) -> BlockRecord {
        let mut record = BlockRecord {
            checksum: U64::new(checksum),
            row: U64::new(row),
            generation: U64::new(generation),
            tags,
            array: U32::new(array as u32),
            cell: U16::new(cell),
            reserved: U16::ZERO,
            seal: U32::ZERO,
        };
        record.seal = record.computed_seal();
        record
    }

    pub fn checksum_of(block: &[u8]) -> u64 {
        XxHash3_64::oneshot(block)
    }

    fn computed_seal(&self) -> U32 {
        U32::new(XxHash3_64::oneshot(&self.as_bytes()[..RECORD_BYTES - size_of::<U32>()]) as u32)
    }

    /// Returns true if a block has the content that this record describes.
    pub fn matches(&self, block: &[u8]) -> bool {
        self.checksum.get() == BlockRecord::checksum_of(block)
    }

    /// Decodes the record at this cell's record location.
    pub fn decode(bytes: &[u8; RECORD_BYTES], array: u128, row: u64, cell: u16) -> RecordSlot {
        if bytes.iter().all(|byte| *byte == 0) {
            return RecordSlot::Empty;
        }
        let record: BlockRecord = zerocopy::transmute!(*bytes);
        let place = (record.array.get(), record.row.get(), record.cell.get());
        let possible = (1..MAX_NUMBER).contains(&record.generation.get());
        if possible && record.seal == record.computed_seal() && place == (array as u32, row, cell) {
            RecordSlot::Written(record)
        } else {
            RecordSlot::Damaged
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_valid_only_unmodified_at_the_stored_position() {
        let record = BlockRecord::new(7, 3, 2, 9, [5; MAX_DATA_COLUMNS], &[1; 4096]);
        let bytes: [u8; RECORD_BYTES] = zerocopy::transmute!(record);
        assert_eq!(BlockRecord::decode(&bytes, 7, 3, 2), RecordSlot::Written(record));
        for (array, row, cell) in [(8, 3, 2), (7, 4, 2), (7, 3, 1)] {
            assert_eq!(BlockRecord::decode(&bytes, array, row, cell), RecordSlot::Damaged);
        }
        for bit in 0..RECORD_BYTES * 8 {
            let mut bytes = bytes;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(BlockRecord::decode(&bytes, 7, 3, 2), RecordSlot::Damaged, "bit {bit}");
        }
        for generation in [0, MAX_NUMBER, u64::MAX] {
            let record = BlockRecord::new(7, 3, 2, generation, [5; MAX_DATA_COLUMNS], &[1; 4096]);
            assert_eq!(BlockRecord::decode(&zerocopy::transmute!(record), 7, 3, 2), RecordSlot::Damaged);
        }
        assert_eq!(BlockRecord::decode(&[0; RECORD_BYTES], 7, 3, 2), RecordSlot::Empty);
        assert!(record.matches(&[1; 4096]) && !record.matches(&[2; 4096]));
    }
}
