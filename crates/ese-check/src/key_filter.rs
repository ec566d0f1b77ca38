//! Which keys a table has, in a fixed amount of memory: a Bloom filter.
//!
//! Invariants: a key that was added is always found; the memory does not depend on the number of keys. One key in a
//! hundred that was never added is found, too, when there is a key for every 200 bytes of the database.

use std::hash::{DefaultHasher, Hash, Hasher};

/// Fewest and most bits: 8 KiB and 128 MiB.
const BITS: (u64, u64) = (1 << 16, 1 << 30);
/// Bytes of a database for which there is one bit.
const BYTES_PER_BIT: u64 = 16;
/// Bits per key.
const PROBES: u32 = 3;

/// A set of keys that may contain a few it should not.
pub(crate) struct KeyFilter {
    words: Vec<u64>,
    mask: u64,
}

impl KeyFilter {
    /// For the keys of any table of a database of this many bytes.
    pub(crate) fn new(database_len: u64) -> KeyFilter {
        let bits = (database_len / BYTES_PER_BIT).clamp(BITS.0, BITS.1).next_power_of_two();
        KeyFilter { words: vec![0; (bits / 64) as usize], mask: bits - 1 }
    }

    fn places(&self, key: &[u8]) -> impl Iterator<Item = (usize, u64)> + use<> {
        // The default hasher has fixed keys, so that runs repeat.
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        let (hash, mask) = (hasher.finish(), self.mask);
        let step = hash.rotate_left(32) | 1;
        (0..PROBES).map(move |probe| {
            let bit = hash.wrapping_add(step.wrapping_mul(u64::from(probe))) & mask;
            ((bit / 64) as usize, 1 << (bit % 64))
        })
    }

    pub(crate) fn add(&mut self, key: &[u8]) {
        for (word, bit) in self.places(key) {
            if let Some(word) = self.words.get_mut(word) {
                *word |= bit;
            }
        }
    }

    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        self.places(key).all(|(word, bit)| self.words.get(word).is_some_and(|word| word & bit != 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_is_found_and_little_else() {
        let mut filter = KeyFilter::new(200 * 50_000);
        (0..50_000u32).for_each(|key| filter.add(&key.to_be_bytes()));
        assert!((0..50_000u32).all(|key| filter.contains(&key.to_be_bytes())));
        let wrong = (50_000..100_000u32).filter(|key| filter.contains(&key.to_be_bytes())).count();
        assert!(wrong < 2_000, "{wrong} of 50000");
        assert_eq!(KeyFilter::new(u64::MAX / 2).words.len(), 1 << 24);
    }
}
