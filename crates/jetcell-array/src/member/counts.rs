//! Counters of member transfers, by purpose.

use jetcell_vfs::TransferKind;

/// Member transfer counters for one purpose.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct TransferCounters {
    /// Number of read commands.
    pub reads: u64,
    /// Number of blocks in the read commands.
    pub blocks_read: u64,
    /// Number of write commands.
    pub writes: u64,
    /// Number of blocks in the write commands.
    pub blocks_written: u64,
}

/// Member transfer counters, by purpose. A command that transfers data or parity together with records counts as a
/// data and parity command. Each of its blocks is still counted under its own purpose.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct MemberTransferCounters {
    /// Transfers of data and parity, made in place.
    pub data_and_parity: TransferCounters,
    /// Transfers of the journal.
    pub journal: TransferCounters,
    /// Transfers of block records and superblocks.
    pub records: TransferCounters,
    /// All transfers of rebuilds, copies and scrubs, regardless of their content.
    pub maintenance: TransferCounters,
}

/// Totals since the array was created, as stored in its superblocks.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct LifetimeTotals {
    /// Number of blocks read for callers.
    pub blocks_read: u64,
    /// Number of committed blocks that callers wrote.
    pub blocks_written: u64,
    /// Number of blocks with a wrong checksum, a wrong location or an outdated generation that were found by callers'
    /// reads and writes. Blocks found by scrubs and rebuilds are reported separately.
    pub defects: u64,
    /// Member transfers, by purpose.
    pub members: MemberTransferCounters,
}

impl TransferCounters {
    pub(super) fn add(&mut self, kind: TransferKind, commands: u64, blocks: u64) {
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

    fn from_numbers([reads, blocks_read, writes, blocks_written]: [u64; 4]) -> TransferCounters {
        TransferCounters { reads, blocks_read, writes, blocks_written }
    }

    /// Returns the sum of the two sets of counters.
    #[must_use]
    pub fn plus(&self, other: &TransferCounters) -> TransferCounters {
        let (one, other) = (self.numbers(), other.numbers());
        TransferCounters::from_numbers(std::array::from_fn(|place| one[place].saturating_add(other[place])))
    }

    /// Returns the difference from an earlier state.
    #[must_use]
    pub fn since(&self, earlier: &TransferCounters) -> TransferCounters {
        let (one, other) = (self.numbers(), earlier.numbers());
        TransferCounters::from_numbers(std::array::from_fn(|place| one[place].saturating_sub(other[place])))
    }
}

impl MemberTransferCounters {
    /// Returns the sum over all purposes.
    pub fn total(&self) -> TransferCounters {
        self.by_purpose().iter().fold(TransferCounters::default(), |sum, (_, transfers)| sum.plus(transfers))
    }

    /// Returns the transfers for each purpose, with the purpose's name in reports.
    pub fn by_purpose(&self) -> [(&'static str, TransferCounters); 4] {
        [
            ("data_and_parity", self.data_and_parity),
            ("journal", self.journal),
            ("records", self.records),
            ("maintenance", self.maintenance),
        ]
    }
}

/// Number of integers that represent a [`LifetimeTotals`] in a superblock.
pub(crate) const LIFETIME_NUMBERS: usize = 3 + 4 * 4;

impl LifetimeTotals {
    pub(crate) fn numbers(&self) -> [u64; LIFETIME_NUMBERS] {
        let mut numbers = [0; LIFETIME_NUMBERS];
        numbers[..3].copy_from_slice(&[self.blocks_read, self.blocks_written, self.defects]);
        for (place, (_, transfers)) in numbers[3..].chunks_exact_mut(4).zip(self.members.by_purpose()) {
            place.copy_from_slice(&transfers.numbers());
        }
        numbers
    }

    pub(crate) fn from_numbers(numbers: [u64; LIFETIME_NUMBERS]) -> LifetimeTotals {
        let counters_for = |purpose: usize| {
            TransferCounters::from_numbers(std::array::from_fn(|place| numbers[3 + purpose * 4 + place]))
        };
        let members = MemberTransferCounters {
            data_and_parity: counters_for(0),
            journal: counters_for(1),
            records: counters_for(2),
            maintenance: counters_for(3),
        };
        LifetimeTotals { blocks_read: numbers[0], blocks_written: numbers[1], defects: numbers[2], members }
    }

    /// Returns the sum of the two sets of totals.
    #[must_use]
    pub fn plus(&self, other: &LifetimeTotals) -> LifetimeTotals {
        let (one, other) = (self.numbers(), other.numbers());
        LifetimeTotals::from_numbers(std::array::from_fn(|place| one[place].saturating_add(other[place])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetime_totals_round_trip_and_additions_saturate() {
        let numbers = std::array::from_fn(|place| place as u64 + 1);
        let lifetime = LifetimeTotals::from_numbers(numbers);
        assert_eq!(lifetime.numbers(), numbers);
        assert_eq!(lifetime.members.maintenance.blocks_written, LIFETIME_NUMBERS as u64);
        let most = LifetimeTotals::from_numbers([u64::MAX; LIFETIME_NUMBERS]);
        assert_eq!(most.plus(&lifetime), most);
    }
}
