//! Set of a table's keys that uses a fixed amount of memory: a blocked Bloom filter that several threads fill
//! concurrently.
//!
//! Invariants: a key that was added is always found. The amount of memory does not depend on the number of keys. With
//! one key per 200 bytes of database, the false-positive rate is one or two percent. All bits for a key are in one
//! cache line.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::structure::hash::hash;

/// Minimum and maximum number of bits, equivalent to 8 KiB and 32 MiB.
const BIT_COUNT_LIMITS: (u64, u64) = (1 << 16, 1 << 28);
/// Number of database bytes per bit of the filter.
const BYTES_PER_BIT: u64 = 16;
/// Number of bits set for each key.
const PROBES: u32 = 4;
/// Number of words in a block, which is one cache line.
const WORDS_PER_BLOCK: u64 = 8;

/// An approximate set of keys, in which a lookup occasionally returns a false positive.
pub(crate) struct KeyFilter {
    words: Vec<AtomicU64>,
}

impl KeyFilter {
    /// Creates a filter large enough for the keys of any table in a database of `database_len` bytes.
    pub(crate) fn new(database_len: u64) -> KeyFilter {
        let mut words = Vec::new();
        words.resize_with((KeyFilter::bytes(database_len) / 8) as usize, AtomicU64::default);
        KeyFilter { words }
    }

    /// Removes all keys from the filter.
    pub(crate) fn cleared(mut self) -> KeyFilter {
        self.words.iter_mut().for_each(|word| *word.get_mut() = 0);
        self
    }

    /// Returns the filter size in bytes for a database of `database_len` bytes.
    pub(crate) fn bytes(database_len: u64) -> u64 {
        (database_len / BYTES_PER_BIT).clamp(BIT_COUNT_LIMITS.0, BIT_COUNT_LIMITS.1).next_power_of_two() / 8
    }

    fn bit_positions(&self, key: &[u8]) -> impl Iterator<Item = (&AtomicU64, u64)> {
        let hash = hash(key);
        let group = (hash >> 36) % (self.words.len() as u64 / WORDS_PER_BLOCK).max(1) * WORDS_PER_BLOCK;
        (0..PROBES).filter_map(move |probe| {
            let place = hash >> (9 * probe);
            let word = self.words.get((group + place / 64 % WORDS_PER_BLOCK) as usize)?;
            Some((word, 1 << (place % 64)))
        })
    }

    pub(crate) fn add(&self, key: &[u8]) {
        for (word, bit) in self.bit_positions(key) {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }

    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        self.bit_positions(key).all(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filter_finds_all_added_keys_with_few_false_positives() {
        let filter = KeyFilter::new(200 * 50_000);
        (0..50_000u32).for_each(|key| filter.add(&key.to_be_bytes()));
        assert!((0..50_000u32).all(|key| filter.contains(&key.to_be_bytes())));
        let wrong = (50_000..100_000u32).filter(|key| filter.contains(&key.to_be_bytes())).count();
        assert!(wrong < 2_000, "{wrong} of 50000");
        let filter = filter.cleared();
        assert!(!(0..50_000u32).any(|key| filter.contains(&key.to_be_bytes())));
        assert_eq!(KeyFilter::new(u64::MAX / 2).words.len(), 1 << 22);
    }
}
