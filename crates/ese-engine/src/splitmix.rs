//! Integer hashing with SplitMix64's output function.
//!
//! The result is the same in every run, which deterministic tests require. The keys are page numbers and object ids.
//! An attacker cannot choose them, so the hash needs no secret seed.

use std::hash::{BuildHasherDefault, Hasher};

/// SplitMix64's finalizer. It maps adjacent numbers to results that differ in bits throughout the word.
pub(crate) fn mix64(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// Builds hashers for hash maps with `u64` keys.
pub(crate) type BuildSplitMixHasher = BuildHasherDefault<SplitMixHasher>;

/// Hashes one `u64` with [`mix64`].
#[derive(Default)]
pub(crate) struct SplitMixHasher(u64);

impl Hasher for SplitMixHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = mix64(self.0 ^ word);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
