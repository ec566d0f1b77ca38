//! Transfers of members, by what they are for.

use jetcell_vfs::TransferKind;

use super::MemberLayout;
use crate::geometry::BLOCK;

/// Transfers of members for one purpose.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Transfers {
    /// Read commands.
    pub reads: u64,
    /// Their blocks.
    pub blocks_read: u64,
    /// Write commands.
    pub writes: u64,
    /// Their blocks.
    pub blocks_written: u64,
}

/// Transfers of members by purpose. A command that moves blocks of data or parity together with records counts as one of data and parity;
/// each block counts where it belongs.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct MemberTransfers {
    /// Blocks of data and parity in their places.
    pub data_and_parity: Transfers,
    /// The journal.
    pub journal: Transfers,
    /// Records of blocks, and superblocks.
    pub records: Transfers,
    /// All that rebuilds, copies and scrubs read and write, whatever it is.
    pub maintenance: Transfers,
}

/// What happened to an array since it was created, as its superblocks note it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct Lifetime {
    /// Blocks that were read for callers.
    pub blocks_read: u64,
    /// Blocks that callers wrote and that were committed.
    pub blocks_written: u64,
    /// Blocks with a wrong checksum, of another place or of an older write that reads and writes of callers met. Those that scrubs and
    /// rebuilds find are in their reports.
    pub defects: u64,
    /// Transfers of members.
    pub members: MemberTransfers,
}

impl Transfers {
    fn add(&mut self, kind: TransferKind, commands: u64, blocks: u64) {
        let (counted, of_blocks) = match kind {
            TransferKind::Read => (&mut self.reads, &mut self.blocks_read),
            TransferKind::Write => (&mut self.writes, &mut self.blocks_written),
        };
        *counted += commands;
        *of_blocks += blocks;
    }

    fn numbers(&self) -> [u64; 4] {
        [self.reads, self.blocks_read, self.writes, self.blocks_written]
    }

    fn of([reads, blocks_read, writes, blocks_written]: [u64; 4]) -> Transfers {
        Transfers { reads, blocks_read, writes, blocks_written }
    }

    /// The sum of both.
    #[must_use]
    pub fn plus(&self, other: &Transfers) -> Transfers {
        let (one, other) = (self.numbers(), other.numbers());
        Transfers::of(std::array::from_fn(|place| one[place].saturating_add(other[place])))
    }

    /// What came since an earlier state.
    #[must_use]
    pub fn since(&self, earlier: &Transfers) -> Transfers {
        let (one, other) = (self.numbers(), earlier.numbers());
        Transfers::of(std::array::from_fn(|place| one[place].saturating_sub(other[place])))
    }
}

impl MemberTransfers {
    /// Of all purposes together.
    pub fn total(&self) -> Transfers {
        self.by_purpose().iter().fold(Transfers::default(), |sum, (_, transfers)| sum.plus(transfers))
    }

    /// Each purpose with the name that reports give it.
    pub fn by_purpose(&self) -> [(&'static str, Transfers); 4] {
        [
            ("data_and_parity", self.data_and_parity),
            ("journal", self.journal),
            ("records", self.records),
            ("maintenance", self.maintenance),
        ]
    }

    /// Counts a transfer by its place on a member. `is_maintenance`: it belongs to a rebuild, copy or scrub.
    pub(crate) fn count(
        &mut self,
        kind: TransferKind,
        layout: &MemberLayout,
        offset: u64,
        bytes: usize,
        is_maintenance: bool,
    ) {
        let blocks = (bytes / BLOCK) as u64;
        if is_maintenance {
            return self.maintenance.add(kind, 1, blocks);
        }
        let records = layout.records_within(offset, blocks);
        match records {
            _ if layout.is_journal(offset) => self.journal.add(kind, 1, blocks),
            _ if records == blocks => self.records.add(kind, 1, blocks),
            _ => {
                self.data_and_parity.add(kind, 1, blocks - records);
                self.records.add(kind, 0, records);
            }
        }
    }
}

/// Numbers of [`Lifetime`] in a superblock.
pub(crate) const LIFETIME_NUMBERS: usize = 3 + 4 * 4;

impl Lifetime {
    pub(crate) fn numbers(&self) -> [u64; LIFETIME_NUMBERS] {
        let mut numbers = [0; LIFETIME_NUMBERS];
        numbers[..3].copy_from_slice(&[self.blocks_read, self.blocks_written, self.defects]);
        for (place, (_, transfers)) in numbers[3..].chunks_exact_mut(4).zip(self.members.by_purpose()) {
            place.copy_from_slice(&transfers.numbers());
        }
        numbers
    }

    pub(crate) fn of(numbers: [u64; LIFETIME_NUMBERS]) -> Lifetime {
        let at =
            |purpose: usize| Transfers::of(std::array::from_fn(|place| numbers[3 + purpose * 4 + place]));
        let members =
            MemberTransfers { data_and_parity: at(0), journal: at(1), records: at(2), maintenance: at(3) };
        Lifetime { blocks_read: numbers[0], blocks_written: numbers[1], defects: numbers[2], members }
    }

    /// The sum of both.
    #[must_use]
    pub fn plus(&self, other: &Lifetime) -> Lifetime {
        let (one, other) = (self.numbers(), other.numbers());
        Lifetime::of(std::array::from_fn(|place| one[place].saturating_add(other[place])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::ZONE_ROWS;

    #[test]
    fn each_block_counts_for_its_purpose_and_each_command_once() {
        let layout = MemberLayout::new(8);
        let mut counted = MemberTransfers::default();
        let mut write = |offset: u64, blocks: usize| {
            counted.count(TransferKind::Write, &layout, offset, blocks * BLOCK, false);
            counted.by_purpose().map(|(_, transfers)| (transfers.writes, transfers.blocks_written))
        };
        assert_eq!(write(0, 1), [(0, 0), (0, 0), (1, 1), (0, 0)]);
        assert_eq!(write(BLOCK as u64, 3), [(0, 0), (1, 3), (1, 1), (0, 0)]);
        assert_eq!(write(layout.superblocks()[1], 1), [(0, 0), (1, 3), (2, 2), (0, 0)]);
        // The records of a zone, and its first two blocks.
        assert_eq!(write(layout.records(1), 3), [(1, 2), (1, 3), (2, 3), (0, 0)]);
        assert_eq!(write(layout.records(1), 1), [(1, 2), (1, 3), (3, 4), (0, 0)]);
        // The last block of a zone, the records of the next one, and a block of it.
        assert_eq!(write(layout.block(ZONE_ROWS - 1), 3), [(2, 4), (1, 3), (3, 5), (0, 0)]);
        counted.count(TransferKind::Read, &layout, layout.block(5), BLOCK, true);
        assert_eq!(counted.total(), Transfers { reads: 1, blocks_read: 1, writes: 6, blocks_written: 12 });
    }

    #[test]
    fn numbers_of_a_superblock_are_all_of_them_and_sums_do_not_overflow() {
        let numbers = std::array::from_fn(|place| place as u64 + 1);
        let lifetime = Lifetime::of(numbers);
        assert_eq!(lifetime.numbers(), numbers);
        assert_eq!(lifetime.members.maintenance.blocks_written, LIFETIME_NUMBERS as u64);
        let most = Lifetime::of([u64::MAX; LIFETIME_NUMBERS]);
        assert_eq!(most.plus(&lifetime), most);
    }
}
