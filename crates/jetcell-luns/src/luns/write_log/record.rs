//! A write log record, which contains all or some of the entries of one flush.
//!
//! ```text
//! offset  bytes
//!      0      8  "JETWRITE"
//!      8      8  checksum (XXH3) of the record from byte 16 to its end
//!     16     16  array
//!     32      8  consistency point that the record follows
//!     40      8  number of the record, from 0 after each consistency point
//!     48      8  blocks of data (lower half), entries (upper half)
//!     56         entries: kind (4), LUN (4), first block (8), blocks (8)
//!                data, starting at the next block boundary
//! ```

use jetcell_array::{BLOCK, SharedBlock};
use jetcell_vfs::IoBuffer;
use twox_hash::XxHash3_64;

use crate::luns::catalogue::LunId;

const MAGIC: [u8; 8] = *b"JETWRITE";
/// Size of a record in bytes, without entries and data.
const PREFIX_BYTES: usize = 56;
/// Size of an entry in bytes.
const ENTRY_BYTES: usize = 24;
/// Maximum number of entries in a record. Also the maximum number of its data blocks.
const MAX_BLOCKS: usize = 1024;
/// Maximum number of blocks in a record.
pub(super) const MAX_RECORD_BLOCKS: usize = MAX_BLOCKS + header_blocks(MAX_BLOCKS);

/// A write to consecutive blocks of a LUN, or their deallocation.
#[derive(Clone, Debug)]
pub(in crate::luns) struct WriteLogEntry {
    pub lun: LunId,
    pub first: u64,
    pub count: u64,
    /// Content of the blocks. `None` if they were deallocated.
    pub data: Option<Vec<SharedBlock>>,
}

impl WriteLogEntry {
    fn blocks(&self) -> usize {
        self.data.as_ref().map_or(0, Vec::len)
    }
}

#[cfg(test)]
impl PartialEq for WriteLogEntry {
    fn eq(&self, other: &WriteLogEntry) -> bool {
        let bytes = |entry: &WriteLogEntry| {
            entry.data.as_ref().map(|data| data.iter().flat_map(|block| block.to_vec()).collect())
        };
        let (one, two): (Option<Vec<u8>>, Option<Vec<u8>>) = (bytes(self), bytes(other));
        (self.lun, self.first, self.count, one) == (other.lun, other.first, other.count, two)
    }
}

/// Returns the number of blocks in a record's header.
const fn header_blocks(entries: usize) -> usize {
    (PREFIX_BYTES + entries * ENTRY_BYTES).div_ceil(BLOCK)
}

/// Returns the maximum number of data blocks in a record with one entry and this total number of blocks.
pub(super) fn data_blocks_in(record_blocks: u64) -> u64 {
    record_blocks.saturating_sub(header_blocks(1) as u64)
}

/// Entries that are written as one record.
#[derive(Default)]
pub(super) struct RecordEntries<'a> {
    entries: Vec<&'a WriteLogEntry>,
    data_blocks: usize,
}

impl<'a> RecordEntries<'a> {
    /// Distributes entries over records of at most this many blocks. Returns `None` if an entry does not fit into a
    /// record.
    pub fn distribute(entries: &'a [WriteLogEntry], record_blocks: u64) -> Option<Vec<RecordEntries<'a>>> {
        let most =
            usize::try_from(record_blocks).map_or(MAX_RECORD_BLOCKS, |most| most.min(MAX_RECORD_BLOCKS));
        let has_room = |record: &RecordEntries<'_>, entry: &WriteLogEntry| {
            let (entries, data) = (record.entries.len() + 1, record.data_blocks + entry.blocks());
            entries <= MAX_BLOCKS && data <= MAX_BLOCKS && header_blocks(entries) + data <= most
        };
        let mut records: Vec<RecordEntries<'a>> = vec![];
        for entry in entries {
            if records.last().is_none_or(|record| !has_room(record, entry)) {
                records.push(RecordEntries::default());
            }
            let record = records.last_mut().filter(|record| has_room(record, entry))?;
            record.entries.push(entry);
            record.data_blocks += entry.blocks();
        }
        Some(records)
    }

    /// Returns the size of the record in bytes.
    pub fn bytes(&self) -> usize {
        (header_blocks(self.entries.len()) + self.data_blocks) * BLOCK
    }

    /// Fills a buffer of [`RecordEntries::bytes`] with the record.
    pub fn encode(&self, array: u128, point: u64, number: u64, buffer: &mut [u8]) {
        let data = header_blocks(self.entries.len()) * BLOCK;
        buffer[..data].fill(0);
        buffer[..8].copy_from_slice(&MAGIC);
        buffer[16..32].copy_from_slice(&array.to_le_bytes());
        let counts = (self.entries.len() as u64) << 32 | self.data_blocks as u64;
        for (at, value) in [(32, point), (40, number), (48, counts)] {
            buffer[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        let (mut at, mut data_at) = (PREFIX_BYTES, data);
        for entry in &self.entries {
            let kind = u64::from(entry.data.is_some());
            for value in [u64::from(entry.lun) << 32 | kind, entry.first, entry.count] {
                buffer[at..at + 8].copy_from_slice(&value.to_le_bytes());
                at += 8;
            }
            for block in entry.data.iter().flatten() {
                buffer[data_at..data_at + BLOCK].copy_from_slice(block);
                data_at += BLOCK;
            }
        }
        let sum = XxHash3_64::oneshot(&buffer[16..]);
        buffer[8..16].copy_from_slice(&sum.to_le_bytes());
    }
}

/// Allocates a buffer for records of up to this many bytes. Pages that are never written use no memory.
pub(super) fn buffer_for(bytes: usize) -> IoBuffer {
    IoBuffer::zeroed(bytes.max(MAX_RECORD_BLOCKS * BLOCK))
}

/// Fields at the start of a record. They may be damaged, which is detected only when the whole record is decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RecordPrefix {
    pub point: u64,
    pub number: u64,
    entries: usize,
    data_blocks: usize,
}

impl RecordPrefix {
    /// Decodes the beginning of a record. Returns `None` if the bytes are not the beginning of a record of this
    /// array.
    pub fn decode(bytes: &[u8], array: u128) -> Option<RecordPrefix> {
        if bytes.get(..8)? != MAGIC || bytes.get(16..32)? != array.to_le_bytes() {
            return None;
        }
        let (point, number, counts) = (number_at(bytes, 32)?, number_at(bytes, 40)?, number_at(bytes, 48)?);
        let (entries, data_blocks) = ((counts >> 32) as usize, counts as u32 as usize);
        Some(RecordPrefix { point, number, entries, data_blocks })
    }

    /// Returns the size of the record in bytes, or `None` if no record can have these numbers of entries and blocks.
    pub fn bytes(&self) -> Option<usize> {
        let is_possible = self.entries <= MAX_BLOCKS && self.data_blocks <= MAX_BLOCKS;
        is_possible.then(|| (header_blocks(self.entries) + self.data_blocks) * BLOCK)
    }

    /// Returns the entries of a record, whose length must be [`RecordPrefix::bytes`]. Returns `None` if the record is
    /// damaged.
    pub fn entries(&self, record: &[u8]) -> Option<Vec<WriteLogEntry>> {
        if number_at(record, 8)? != XxHash3_64::oneshot(record.get(16..)?) {
            return None;
        }
        let mut data = record.get(header_blocks(self.entries) * BLOCK..)?;
        let mut entries = vec![];
        for entry in 0..self.entries {
            let at = PREFIX_BYTES + entry * ENTRY_BYTES;
            let (lun, first, count) =
                (number_at(record, at)?, number_at(record, at + 8)?, number_at(record, at + 16)?);
            let taken = match lun as u32 {
                0 => None,
                _ => {
                    let length = usize::try_from(count).ok()?.checked_mul(BLOCK)?;
                    let (taken, rest) = data.split_at_checked(length)?;
                    data = rest;
                    Some(taken.chunks_exact(BLOCK).map(SharedBlock::copy_from).collect())
                }
            };
            entries.push(WriteLogEntry { lun: (lun >> 32) as LunId, first, count, data: taken });
        }
        Some(entries)
    }
}

fn number_at(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(8)?)?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}
