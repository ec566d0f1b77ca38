//! Hashing of numbers that nobody chooses to collide, the same way in every run.

use std::hash::{BuildHasherDefault, Hasher};

/// Spreads neighbouring numbers over all bits.
pub(crate) fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// For maps with `u64` keys.
pub(crate) type BuildMixHasher = BuildHasherDefault<MixHasher>;

/// Hashes one `u64` with [`mix`].
#[derive(Default)]
pub(crate) struct MixHasher(u64);

impl Hasher for MixHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = mix(self.0 ^ word);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
