//! The superblock: the array's configuration. Every member stores two copies.

use twox_hash::XxHash3_64;
use zerocopy::little_endian::{U16, U32, U64, U128};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::counts::{LIFETIME_NUMBERS, LifetimeTotals};
use super::{Extents, LostRange, LostRows};
use crate::geometry::{ArrayLayout, BLOCK, MAX_NUMBER, MAX_SLOTS, RaidLevel, ZONE_ROWS};

const MAGIC: [u8; 8] = *b"JETARRAY";
const VERSION: u32 = 1;
const MAX_SPARES: usize = 8;
const MAX_EXTENTS: usize = 64;
const MAX_OPEN_RANGES: usize = 8;
/// Limit for the number of rows. It ensures that the number of bytes on all slots fits in 64 bits.
const MAX_ROWS: u64 = 1 << 47;
const _: () = assert!((MAX_ROWS - 1).checked_mul((MAX_SLOTS * BLOCK) as u64).is_some());

/// A member's number within its array. Numbers are never reused; 0 means no member.
pub(crate) type MemberId = u32;

/// An array's configuration, which must be known before any block can be read. All members store the same
/// configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ArrayConfig {
    /// Identity of the array.
    pub array: u128,
    /// Number of the configuration, which is increased with each change. The configuration with the highest number is
    /// current.
    pub generation: u64,
    pub layout: ArrayLayout,
    /// Maximum number of blocks in a commit on one member.
    pub journal_images: u32,
    pub slots: Vec<SlotConfig>,
    pub spares: Vec<MemberId>,
    /// Number to be assigned to the next new member.
    pub next_member: MemberId,
    /// Whether the array was not shut down. In that case, the journal may contain writes that have not been made in
    /// place.
    pub is_open: bool,
    /// Lowest number of a journalled commit that may have to be replayed. Commits with lower numbers are complete.
    pub journal_floor: u64,
    /// Zone at which the scrub resumes.
    pub scrub_cursor: u64,
    /// Rows that may contain writes that bypass the journal and are not acknowledged. These rows had no content
    /// before, so they are cleared after a crash.
    pub open_rows: Extents,
    /// Rows with data that cannot be recovered.
    pub lost_rows: LostRows,
    /// Totals since the array was created, up to the last write of the superblocks.
    pub lifetime: LifetimeTotals,
}

/// The members of a slot, and the progress of its rebuild or copy.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct SlotConfig {
    /// Member with all blocks of the slot. 0 if it failed.
    pub member: MemberId,
    /// Member on which the slot is being rebuilt, or to which it is being copied. 0 if neither is in progress.
    pub replacement: MemberId,
    /// Zones that the replacement already has.
    pub rebuilt: Extents,
}

/// A superblock, as decoded from a member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Superblock {
    pub config: ArrayConfig,
    /// Member on which the superblock is stored.
    pub member: MemberId,
}

/// The superblock as it is stored:
///
/// ```text
/// offset  bytes
///      0      8  "JETARRAY"
///      8      8  checksum (XXH3) of the block from byte 16 on
///     16      4  version
///     20      4  number of this member
///     24     16  array
///     40      8  generation
///     48      2  level            50  2  parameter of the level
///     52      4  chunk            56  8  rows
///     64      2  slots at the creation
///     66      2  slots
///     68      4  images of a journal slot
///     72      4  number of the next member
///     76      4  1: not shut down
///     80      8  journal floor
///     88      8  scrub cursor
///     96     32  spares: 8 numbers of members
///    128    256  slots: 32 times member, replacement
///    384   1536  rebuilt zones: 64 times slot (8), start (8), end (8); unused ones are empty
///   1920    152  blocks read, blocks written, defects; then for data and parity, the journal, records, maintenance:
///                reads, their blocks, writes, their blocks
///   2072    128  open rows: 8 times start (8), end (8), in ascending order, not touching; unused ones are
///                zeros at the end
///   2200   1536  lost rows: 64 times start (8), end (8), mask of the slots (8), in ascending order; unused ones
///                are zeros at the end, as in all members from earlier versions
///   3736    360  zeros
/// ```
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct StoredSuperblock {
    magic: [u8; 8],
    checksum: U64,
    version: U32,
    member: U32,
    array: U128,
    generation: U64,
    level: [U16; 2],
    chunk: U32,
    rows: U64,
    base_slots: U16,
    slots: U16,
    journal_images: U32,
    next_member: U32,
    is_open: U32,
    journal_floor: U64,
    scrub_cursor: U64,
    spares: [U32; MAX_SPARES],
    slot_members: [[U32; 2]; MAX_SLOTS],
    rebuilt: [[U64; 3]; MAX_EXTENTS],
    lifetime: [U64; LIFETIME_NUMBERS],
    open_rows: [[U64; 2]; MAX_OPEN_RANGES],
    lost_rows: [[U64; 3]; LostRows::MAX_RANGES],
    reserved: [u8; 360],
}

const _: () = assert!(size_of::<StoredSuperblock>() == BLOCK);
/// Offset at which the checksummed bytes start.
const CHECKSUM_START: usize = 16;
/// Maximum number of a member. Numbers start at 1. A larger number cannot have been written by an array, and adding
/// to it could overflow.
const MAX_MEMBER: u32 = u32::MAX / 2;

impl Superblock {
    pub fn encode(&self, to: &mut [u8]) {
        let ArrayConfig { layout, .. } = &self.config;
        let mut stored = StoredSuperblock::new_zeroed();
        stored.magic = MAGIC;
        stored.version = U32::new(VERSION);
        stored.member = U32::new(self.member);
        stored.array = U128::new(self.config.array);
        stored.generation = U64::new(self.config.generation);
        let (kind, parameter) = layout.level.stored();
        stored.level = [U16::new(kind), U16::new(parameter)];
        stored.chunk = U32::new(layout.chunk);
        stored.rows = U64::new(layout.rows);
        stored.base_slots = U16::new(layout.base_slots as u16);
        stored.slots = U16::new(layout.slots as u16);
        stored.journal_images = U32::new(self.config.journal_images);
        stored.next_member = U32::new(self.config.next_member);
        stored.is_open = U32::new(u32::from(self.config.is_open));
        stored.journal_floor = U64::new(self.config.journal_floor);
        stored.scrub_cursor = U64::new(self.config.scrub_cursor);
        for (place, spare) in stored.spares.iter_mut().zip(&self.config.spares) {
            *place = U32::new(*spare);
        }
        for (place, slot) in stored.slot_members.iter_mut().zip(&self.config.slots) {
            *place = [U32::new(slot.member), U32::new(slot.replacement)];
        }
        stored.lifetime = self.config.lifetime.numbers().map(U64::new);
        // Ranges for which the superblock has no room are rebuilt again after a restart.
        let extents = self.config.slots.iter().enumerate().flat_map(|(slot, config)| {
            config
                .rebuilt
                .ranges()
                .iter()
                .map(move |range| [slot as u64, range.start, range.end].map(U64::new))
        });
        for (place, extent) in stored.rebuilt.iter_mut().zip(extents) {
            *place = extent;
        }
        let open = self.config.open_rows.ranges();
        assert!(open.len() <= MAX_OPEN_RANGES, "rows without room here would count as written");
        for (place, range) in stored.open_rows.iter_mut().zip(open) {
            *place = [range.start, range.end].map(U64::new);
        }
        for (place, range) in stored.lost_rows.iter_mut().zip(self.config.lost_rows.ranges()) {
            *place = [range.rows.start, range.rows.end, range.slots.into()].map(U64::new);
        }
        stored.checksum = U64::new(XxHash3_64::oneshot(&stored.as_bytes()[CHECKSUM_START..]));
        to.copy_from_slice(stored.as_bytes());
    }

    /// Decodes a superblock. Returns `None` if the bytes are not a superblock of this version, or have impossible
    /// values.
    pub fn decode(bytes: &[u8]) -> Option<Superblock> {
        let stored = StoredSuperblock::ref_from_bytes(bytes).ok()?;
        let sum = XxHash3_64::oneshot(&bytes[CHECKSUM_START..]);
        if stored.magic != MAGIC || stored.checksum.get() != sum || stored.version.get() != VERSION {
            return None;
        }
        let level = RaidLevel::from_stored((stored.level[0].get(), stored.level[1].get()))?;
        let layout = ArrayLayout {
            level,
            chunk: stored.chunk.get(),
            rows: stored.rows.get(),
            base_slots: usize::from(stored.base_slots.get()),
            slots: usize::from(stored.slots.get()),
        };
        let chunk_fits = layout.chunk.is_power_of_two() && u64::from(layout.chunk) <= ZONE_ROWS;
        let rows_fit = (1..MAX_ROWS).contains(&layout.rows) && layout.rows.is_multiple_of(ZONE_ROWS);
        let counts_fit = level.member_counts().any(|count| count == layout.base_slots)
            && (layout.base_slots..=MAX_SLOTS).contains(&layout.slots)
            && (layout.slots == layout.base_slots
                || level != RaidLevel::Mirror && level.member_counts().any(|count| count == layout.slots));
        let numbers_fit = (1..MAX_NUMBER).contains(&stored.generation.get())
            && stored.journal_floor.get() < MAX_NUMBER
            && stored.next_member.get() <= MAX_MEMBER;
        let journal_fits = is_journal_size(stored.journal_images.get());
        if !(chunk_fits && rows_fit && counts_fit && journal_fits && numbers_fit) {
            return None;
        }
        let mut slots: Vec<SlotConfig> = stored.slot_members[..layout.slots]
            .iter()
            .map(|members| SlotConfig {
                member: members[0].get(),
                replacement: members[1].get(),
                rebuilt: Extents::default(),
            })
            .collect();
        for [slot, start, end] in stored.rebuilt.map(|extent| extent.map(U64::get)) {
            if end > layout.zones() || start > end {
                return None;
            }
            slots.get_mut(usize::try_from(slot).ok()?)?.rebuilt.insert(start..end);
        }
        let is_open = stored.is_open.get() != 0;
        let open_rows = decode_open_rows(&stored.open_rows, layout.rows)?;
        if !is_open && !open_rows.is_empty() {
            return None;
        }
        let lost_rows = decode_lost_rows(&stored.lost_rows, &layout)?;
        let spares = stored.spares.map(U32::get).into_iter().filter(|spare| *spare != 0).collect();
        let config = ArrayConfig {
            array: stored.array.get(),
            generation: stored.generation.get(),
            layout,
            journal_images: stored.journal_images.get(),
            slots,
            spares,
            next_member: stored.next_member.get(),
            is_open,
            journal_floor: stored.journal_floor.get(),
            scrub_cursor: stored.scrub_cursor.get(),
            open_rows,
            lost_rows,
            lifetime: LifetimeTotals::from_numbers(stored.lifetime.map(U64::get)),
        };
        Some(Superblock { config, member: stored.member.get() })
    }
}

/// Returns true if a block has the magic number of superblocks, even if it is damaged or from another version.
pub(crate) fn has_superblock_magic(block: &[u8]) -> bool {
    block.starts_with(&MAGIC)
}

fn decode_lost_rows(stored: &[[U64; 3]; LostRows::MAX_RANGES], layout: &ArrayLayout) -> Option<LostRows> {
    let numbers = stored.map(|range| range.map(U64::get));
    let used = numbers.iter().position(|range| *range == [0; 3]).unwrap_or(numbers.len());
    if numbers[used..].iter().any(|range| *range != [0; 3]) {
        return None;
    }
    let range = |[start, end, slots]: &[u64; 3]| {
        Some(LostRange { rows: *start..*end, slots: u32::try_from(*slots).ok()? })
    };
    let ranges = numbers[..used].iter().map(range).collect::<Option<Vec<_>>>()?;
    LostRows::from_ranges(ranges, layout.rows, layout.slots)
}

fn decode_open_rows(stored: &[[U64; 2]; MAX_OPEN_RANGES], rows: u64) -> Option<Extents> {
    let mut open = Extents::default();
    let mut is_last = false;
    for [start, end] in stored.map(|range| range.map(U64::get)) {
        if (start, end) == (0, 0) {
            is_last = true;
            continue;
        }
        let is_apart = open.ranges().last().is_none_or(|before| before.end < start);
        if is_last || !is_apart || start >= end || end > rows {
            return None;
        }
        open.insert(start..end);
    }
    Some(open)
}

/// Returns true if this is a valid journal size: a power of two up to 4096. If the first superblock is lost, the
/// second one is searched for at the offset that results from each valid size.
pub(crate) fn is_journal_size(images: u32) -> bool {
    images.is_power_of_two() && images <= 4096
}

impl ArrayConfig {
    /// Maximum number of spares in an array.
    pub const MAX_SPARES: usize = MAX_SPARES;
    /// Maximum number of ranges of open rows.
    pub const MAX_OPEN_RANGES: usize = MAX_OPEN_RANGES;

    /// Returns true if the member belongs to the array, regardless of its purpose.
    pub fn has_member(&self, member: MemberId) -> bool {
        let uses_member = |slot: &SlotConfig| slot.member == member || slot.replacement == member;
        member != 0 && (self.slots.iter().any(uses_member) || self.spares.contains(&member))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::MAX_DATA_COLUMNS;

    fn superblock() -> Superblock {
        let layout = ArrayLayout { level: RaidLevel::Raid6, chunk: 16, rows: 640, base_slots: 5, slots: 6 };
        let mut slots: Vec<SlotConfig> =
            (1..=6).map(|member| SlotConfig { member, ..SlotConfig::default() }).collect();
        slots[2] = SlotConfig { member: 0, replacement: 9, rebuilt: Extents::default() };
        slots[2].rebuilt.insert(0..3);
        slots[2].rebuilt.insert(7..9);
        let mut open_rows = Extents::default();
        open_rows.insert(3..70);
        open_rows.insert(128..640);
        let config = ArrayConfig {
            array: 0xFEED_F00D << 64 | 5,
            generation: 12,
            layout,
            journal_images: 8,
            slots,
            spares: vec![7, 8],
            next_member: 10,
            is_open: true,
            journal_floor: 77,
            scrub_cursor: 4,
            open_rows,
            lost_rows: LostRows::default(),
            lifetime: LifetimeTotals::from_numbers(std::array::from_fn(|place| 1 << place)),
        };
        let mut superblock = Superblock { config, member: 3 };
        (5..9).for_each(|row| superblock.config.lost_rows.set(row, 0b101));
        superblock.config.lost_rows.set(639, 0b100000);
        superblock
    }

    #[test]
    fn a_superblock_round_trips_and_every_bit_flip_is_rejected() {
        let mut block = [0; BLOCK];
        superblock().encode(&mut block);
        assert_eq!(Superblock::decode(&block), Some(superblock()));
        for bit in (0..2260 * 8).chain([BLOCK * 8 - 1]) {
            block[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Superblock::decode(&block), None, "bit {bit}");
            block[bit / 8] ^= 1 << (bit % 8);
        }
        assert!(Superblock::decode(&block[1..]).is_none() && Superblock::decode(&[0; BLOCK]).is_none());
    }

    #[test]
    fn impossible_values_with_valid_checksums_are_rejected() {
        let mut block = [0; BLOCK];
        let changes: [fn(&mut Superblock); 14] = [
            |block| block.config.lost_rows.set(640, 1),
            |block| block.config.lost_rows.set(3, 1 << 6),
            |block| block.config.layout.rows = 65,
            |block| block.config.layout.chunk = 3,
            |block| block.config.layout.slots = 33,
            |block| block.config.layout.base_slots = 2,
            |block| block.config.journal_images = 0,
            |block| block.config.slots[1].rebuilt.insert(0..99),
            |block| block.config.generation = 0,
            |block| block.config.generation = MAX_NUMBER,
            |block| block.config.journal_floor = u64::MAX,
            |block| block.config.next_member = u32::MAX,
            |block| block.config.open_rows.insert(600..641),
            |block| block.config.is_open = false,
        ];
        for change in changes {
            let mut superblock = superblock();
            change(&mut superblock);
            superblock.encode(&mut block);
            assert_eq!(Superblock::decode(&block), None);
        }
    }

    #[test]
    fn the_bytes_of_the_largest_array_do_not_overflow() {
        let mut block = [0; BLOCK];
        let mut decode = |rows| {
            let mut superblock = superblock();
            let layout = &mut superblock.config.layout;
            let slots = MAX_DATA_COLUMNS;
            *layout = ArrayLayout { level: RaidLevel::Raid0, rows, base_slots: slots, slots, ..*layout };
            superblock.config.slots = vec![SlotConfig::default(); slots];
            superblock.encode(&mut block);
            Superblock::decode(&block)
        };
        let largest = decode(MAX_ROWS - ZONE_ROWS).unwrap();
        let bytes = u128::from(MAX_ROWS - ZONE_ROWS) * (MAX_DATA_COLUMNS * BLOCK) as u128;
        assert_eq!(u128::from(largest.config.layout.bytes()), bytes);
        assert_eq!(decode(MAX_ROWS), None);
        assert_eq!(decode((1 << 48) - ZONE_ROWS), None);
    }

    #[test]
    fn superblocks_of_earlier_versions_have_no_lost_rows() {
        let mut earlier = superblock();
        earlier.config.lost_rows = LostRows::default();
        let mut block = [0; BLOCK];
        earlier.encode(&mut block);
        assert!(block[2200..].iter().all(|byte| *byte == 0));
        assert_eq!(Superblock::decode(&block), Some(earlier));
    }

    #[test]
    fn lost_row_ranges_are_ordered_and_at_the_start() {
        let layout = superblock().config.layout;
        let lost = |ranges: &[[u64; 3]]| {
            let mut stored = [[U64::ZERO; 3]; LostRows::MAX_RANGES];
            stored.iter_mut().zip(ranges).for_each(|(place, range)| *place = range.map(U64::new));
            decode_lost_rows(&stored, &layout).map(|lost| lost.len())
        };
        assert_eq!(lost(&[]), Some(0));
        assert_eq!(lost(&[[0, 5, 1], [5, 640, 0b111111]]), Some(640));
        let wrong: [&[[u64; 3]]; 7] = [
            &[[5, 5, 1]],
            &[[6, 5, 1]],
            &[[5, 641, 1]],
            &[[5, 9, 0]],
            &[[5, 9, 1 << 40]],
            &[[5, 9, 1], [8, 11, 1]],
            &[[5, 9, 1], [0, 0, 0], [11, 12, 1]],
        ];
        assert!(wrong.iter().all(|ranges| lost(ranges).is_none()));
    }

    #[test]
    fn open_row_ranges_are_ordered_disjoint_and_limited() {
        let open = |ranges: &[[u64; 2]]| {
            let mut stored = [[U64::ZERO; 2]; MAX_OPEN_RANGES];
            stored.iter_mut().zip(ranges).for_each(|(place, range)| *place = range.map(U64::new));
            decode_open_rows(&stored, 640).map(|open| open.len())
        };
        assert_eq!(open(&[]), Some(0));
        assert_eq!(open(&[[0, 5], [6, 640]]), Some(639));
        let wrong: [&[[u64; 2]]; 8] = [
            &[[5, 5]],
            &[[6, 5]],
            &[[5, 641]],
            &[[5, u64::MAX]],
            &[[5, 9], [9, 11]],
            &[[5, 9], [7, 11]],
            &[[50, 90], [7, 11]],
            &[[5, 9], [0, 0], [11, 12]],
        ];
        assert!(wrong.iter().all(|ranges| open(ranges).is_none()));
        let mut most = superblock();
        most.config.open_rows = Extents::default();
        (0..MAX_OPEN_RANGES as u64).for_each(|at| most.config.open_rows.insert(10 * at..10 * at + 3));
        let mut block = [0; BLOCK];
        most.encode(&mut block);
        assert_eq!(Superblock::decode(&block), Some(most));
    }
}
