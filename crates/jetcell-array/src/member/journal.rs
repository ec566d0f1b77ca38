//! The journal: new block content, which is made durable before any of the blocks is written in place.
//!
//! Each member's journal slot contains the part of a commit that is written to that member. Commits alternate between
//! two slots. Once a commit is in the journal of all members, the previous commit is in place and durable.
//!
//! Without the journal, a power cut between the writes of a row would leave data and parity that do not fit together:
//! the write hole.

use twox_hash::XxHash3_64;
use zerocopy::little_endian::{U32, U64, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::MemberId;
use crate::geometry::{BLOCK, MAX_NUMBER, MAX_SLOTS};
use crate::integrity::BlockRecord;

const MAGIC: [u8; 8] = *b"JETJRNL1";

/// Journal entry for a block that is to be written in place.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct JournalEntry {
    /// Record of the block, which includes its row and cell.
    pub record: BlockRecord,
    /// Mask of the cells of the row that the commit writes. Bit c stands for cell c.
    pub cells: U64,
}

/// Header of a journal slot as it is stored:
///
/// ```text
/// offset  bytes
///      0      8  "JETJRNL1"
///      8      8  checksum (XXH3) of the header from byte 16 to its last entry
///     16      8  number of the commit
///     24     16  array
///     40      4  member
///     44      4  entries
///     48    256  numbers of all members that this commit writes to, then zeros
///    304    72n  entries; their images follow from the next whole block on
/// ```
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct StoredJournalHeader {
    magic: [u8; 8],
    checksum: U64,
    sequence: U64,
    array: U128,
    member: U32,
    entries: U32,
    participants: [U32; PARTICIPANTS],
}

/// Maximum number of participants, because each slot may have both a member and a replacement.
const PARTICIPANTS: usize = 2 * MAX_SLOTS;

const CHECKSUM_START: usize = 16;

/// Header of a journal slot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct JournalHeader {
    pub array: u128,
    pub member: MemberId,
    /// Number of the commit.
    pub sequence: u64,
    /// All members to which the commit writes.
    pub participants: Vec<MemberId>,
    pub entries: Vec<JournalEntry>,
}

/// A journal entry with its block.
pub(crate) struct JournalImage<'a> {
    pub entry: JournalEntry,
    pub block: &'a [u8],
}

impl JournalHeader {
    /// Returns the number of blocks in a header with room for this many entries.
    pub fn blocks(entries: u32) -> u64 {
        (size_of::<StoredJournalHeader>() + entries as usize * size_of::<JournalEntry>()).div_ceil(BLOCK)
            as u64
    }

    /// Encodes the header into the start of `to`, which must be zeroed.
    pub fn encode(&self, to: &mut [u8]) {
        let mut stored = StoredJournalHeader {
            magic: MAGIC,
            checksum: U64::ZERO,
            sequence: U64::new(self.sequence),
            array: U128::new(self.array),
            member: U32::new(self.member),
            entries: U32::new(self.entries.len() as u32),
            participants: [U32::ZERO; PARTICIPANTS],
        };
        for (place, participant) in stored.participants.iter_mut().zip(&self.participants) {
            *place = U32::new(*participant);
        }
        let (head, rest) = to.split_at_mut(size_of::<StoredJournalHeader>());
        head.copy_from_slice(stored.as_bytes());
        let len = self.entries.as_bytes().len();
        rest[..len].copy_from_slice(self.entries.as_bytes());
        let end = size_of::<StoredJournalHeader>() + len;
        stored.checksum = U64::new(XxHash3_64::oneshot(&to[CHECKSUM_START..end]));
        to[..size_of::<StoredJournalHeader>()].copy_from_slice(stored.as_bytes());
    }

    /// Decodes a header. Returns `None` if the bytes are not a complete header.
    pub fn decode(bytes: &[u8]) -> Option<JournalHeader> {
        let (stored, rest) = StoredJournalHeader::read_from_prefix(bytes).ok()?;
        let len = (stored.entries.get() as usize).checked_mul(size_of::<JournalEntry>())?;
        let entries = rest.get(..len)?;
        let checked = &bytes[CHECKSUM_START..size_of::<StoredJournalHeader>() + len];
        if stored.magic != MAGIC || stored.checksum.get() != XxHash3_64::oneshot(checked) {
            return None;
        }
        if !(1..MAX_NUMBER).contains(&stored.sequence.get()) {
            return None;
        }
        Some(JournalHeader {
            array: stored.array.get(),
            member: stored.member.get(),
            sequence: stored.sequence.get(),
            participants: stored
                .participants
                .map(U32::get)
                .into_iter()
                .filter(|member| *member != 0)
                .collect(),
            entries: <[JournalEntry]>::ref_from_bytes(entries).ok()?.to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::MAX_DATA_COLUMNS;

    #[test]
    fn a_header_round_trips_and_every_bit_flip_is_rejected() {
        let record = |row| BlockRecord::new(1, row, 0, 5, [3; MAX_DATA_COLUMNS], &[]);
        let entries =
            (0..3).map(|row| JournalEntry { record: record(row), cells: U64::new(0b101) }).collect();
        let header =
            JournalHeader { array: 1 << 99, member: 4, sequence: 9, participants: vec![4, 6], entries };
        let mut bytes = vec![0; BLOCK * JournalHeader::blocks(3) as usize];
        header.encode(&mut bytes);
        assert_eq!(JournalHeader::decode(&bytes).as_ref(), Some(&header));
        for bit in 0..(304 + 3 * 72) * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(JournalHeader::decode(&bytes), None);
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        for sequence in [0, MAX_NUMBER, u64::MAX] {
            JournalHeader { sequence, ..header.clone() }.encode(&mut bytes);
            assert_eq!(JournalHeader::decode(&bytes), None, "{sequence}");
        }
        bytes[44..48].fill(0xFF);
        assert_eq!(JournalHeader::decode(&bytes), None);
    }
}
