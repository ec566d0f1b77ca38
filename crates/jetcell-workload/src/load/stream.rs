//! The generator behind the content of records.

use std::num::Wrapping;

/// The golden ratio as a fraction of 2^64.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// What a state is combined with before it is multiplied by itself; as in wyrand.
const SECRET: u64 = 0x8BB8_4B93_962E_ACC9;

/// Numbers that are made at a time.
const GROUP: usize = 8;

/// A stream of 64-bit numbers: wyrand, which takes one multiplication for a number, with an increment of its own for each key,
/// so that the streams of two keys do not run through the same numbers. Content need not be secret, only incompressible and
/// repeatable.
pub(crate) struct Stream {
    state: Wrapping<u64>,
    increment: Wrapping<u64>,
}

impl Stream {
    /// The stream of a key of several words.
    pub(crate) fn new(key: &[u64]) -> Stream {
        let state = key
            .iter()
            .fold(GOLDEN, |state, word| mix(state.rotate_left(23) ^ mix(word.wrapping_add(GOLDEN))));
        Stream { state: Wrapping(state), increment: Wrapping(mix(state ^ GOLDEN) | 1) }
    }

    /// The next number.
    pub(crate) fn next_u64(&mut self) -> u64 {
        self.state += self.increment;
        let product = u128::from(self.state.0) * u128::from(self.state.0 ^ SECRET);
        product as u64 ^ (product >> 64) as u64
    }

    /// Fills `bytes` with the next numbers, little-endian.
    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        // In groups, whose length the compiler knows.
        let (groups, rest) = bytes.as_chunks_mut::<{ 8 * GROUP }>();
        for group in groups {
            group.as_chunks_mut::<8>().0.iter_mut().for_each(|word| *word = self.next_u64().to_le_bytes());
        }
        for word in rest.chunks_mut(8) {
            word.copy_from_slice(&self.next_u64().to_le_bytes()[..word.len()]);
        }
    }
}

/// The finalizer of SplitMix64: every bit of the result depends on every bit of `number`.
fn mix(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ number >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ number >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With this increment, the numbers are those of another implementation of wyrand.
    #[test]
    fn numbers_are_those_of_wyrand() {
        let mut other = fastrand::Rng::with_seed(1_234_567);
        let mut stream = Stream { state: Wrapping(1_234_567), increment: Wrapping(0x2D35_8DCC_AA6C_78A5) };
        for _ in 0..100 {
            assert_eq!(stream.next_u64(), other.u64(..));
        }
    }

    #[test]
    fn streams_of_other_keys_are_others_and_any_length_is_filled() {
        let filled = |key: &[u64], len: usize| {
            let mut bytes = vec![0; len];
            Stream::new(key).fill(&mut bytes);
            bytes
        };
        let whole = filled(&[1, 2, 3], 64);
        let mut stream = Stream::new(&[1, 2, 3]);
        assert!(
            whole.chunks(8).all(|word| word == stream.next_u64().to_le_bytes()),
            "in the order of the numbers"
        );
        for key in [&[1, 2, 4][..], &[1, 3, 3], &[2, 2, 3], &[1, 2], &[1, 2, 3, 0]] {
            let other = filled(key, 64);
            assert!(whole.chunks(8).all(|word| !other.chunks(8).any(|other| other == word)), "{key:?}");
        }
        let long = filled(&[1, 2, 3], 200);
        for len in 0..200 {
            assert_eq!(filled(&[1, 2, 3], len), long[..len], "{len}");
        }
    }
}
