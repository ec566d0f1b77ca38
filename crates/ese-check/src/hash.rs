//! Hashes for sums and filters: the same in every run, and quick on the short keys of trees.

use twox_hash::XxHash3_64;

/// Of one string of bytes.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot(bytes)
}

/// Of two, told apart.
pub(crate) fn hash_pair(first: &[u8], second: &[u8]) -> u64 {
    // An odd factor keeps the two from being exchanged.
    hash(first).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32) ^ hash(second)
}
