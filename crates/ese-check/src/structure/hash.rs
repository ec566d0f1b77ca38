//! Hash functions for sums and filters. They are deterministic across runs and fast for short keys.

use twox_hash::XxHash3_64;

/// Returns the hash of a byte string.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot(bytes)
}

/// Returns the hash of an ordered pair of byte strings.
pub(crate) fn hash_pair(first: &[u8], second: &[u8]) -> u64 {
    // The odd factor makes the result depend on the order of the two strings.
    hash(first).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32) ^ hash(second)
}
