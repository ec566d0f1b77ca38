//! Generates the content of records.
//!
//! ```text
//!  content  = block | block | ...            each of up to 2048 bytes
//!  block    = NOISE[at ..] xor mask | mask | ...     `at` and the 16 bytes of the mask are numbers of the stream;
//!                                                   each block has its own
//! ```
//!
//! Content need not be secret, only incompressible and repeatable. All content is derived from the same noise, but
//! with different masks. Compression and deduplication search for equal bytes and therefore find none. Generating a
//! random number for every word would take two to three times as long.

/// The golden ratio as a fraction of 2^64.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// Constant that is combined with the state before the multiplication, as in wyrand.
const MULTIPLIER_MASK: u64 = 0x8BB8_4B93_962E_ACC9;

/// Number of words that are written at a time.
const WORDS_PER_GROUP: usize = 8;
/// Number of words in a block.
const WORDS_PER_BLOCK: usize = 256;
/// Number of positions in the noise at which a block can start.
const BLOCK_STARTS: usize = 512;

/// Random words. All content uses the same words.
static NOISE: [u64; BLOCK_STARTS + WORDS_PER_BLOCK] = noise();

/// The key of a random stream, derived from a sequence of words.
#[derive(Clone, Copy)]
pub(crate) struct RandomStreamKey(u64);

impl RandomStreamKey {
    /// Creates a key from one word.
    pub(crate) const fn new(word: u64) -> RandomStreamKey {
        RandomStreamKey(GOLDEN).extended(word)
    }

    /// Returns this key extended by another word.
    pub(crate) const fn extended(self, word: u64) -> RandomStreamKey {
        RandomStreamKey(mix(self.0 ^ word.wrapping_mul(GOLDEN)))
    }

    /// Returns the stream for this key.
    pub(crate) const fn stream(self) -> RandomStream {
        RandomStream { state: self.0, increment: mix(self.0 ^ GOLDEN) | 1 }
    }
}

/// A stream of 64-bit random numbers. The algorithm is wyrand, which needs one multiplication per number. Each key
/// has a different increment, so two streams with different keys do not produce the same sequence.
pub(crate) struct RandomStream {
    state: u64,
    increment: u64,
}

impl RandomStream {
    /// Returns the next number.
    pub(crate) const fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(self.increment);
        let product = self.state as u128 * (self.state ^ MULTIPLIER_MASK) as u128;
        product as u64 ^ (product >> 64) as u64
    }

    /// Fills `bytes` with content of the stream.
    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        for block in bytes.chunks_mut(8 * WORDS_PER_BLOCK) {
            let at = self.next_u64() as usize % BLOCK_STARTS;
            let (even, odd) = (self.next_u64(), self.next_u64());
            // Groups of this length fit the vector registers of a processor.
            let mask = [even, odd, even, odd, even, odd, even, odd];
            let (groups, rest) = block.as_chunks_mut::<{ 8 * WORDS_PER_GROUP }>();
            let (noise, behind) = NOISE[at..at + WORDS_PER_BLOCK].split_at(WORDS_PER_GROUP * groups.len());
            for (group, noise) in groups.iter_mut().zip(noise.as_chunks::<WORDS_PER_GROUP>().0) {
                set_words(group, noise, mask);
            }
            set_words(rest, behind, mask);
        }
    }

    /// Returns the next two numbers in little-endian order.
    pub(crate) const fn next_pair(&mut self) -> [u8; 16] {
        let (first, second) = (self.next_u64(), self.next_u64());
        ((second as u128) << 64 | first as u128).to_le_bytes()
    }
}

/// Sets `bytes` to the masked words of `noise`, at most [`WORDS_PER_GROUP`] words. The last word may be truncated.
#[inline]
fn set_words(bytes: &mut [u8], noise: &[u64], mask: [u64; WORDS_PER_GROUP]) {
    let (words, rest) = bytes.as_chunks_mut::<8>();
    let mut masked = noise.iter().zip(mask).map(|(noise, mask)| (noise ^ mask).to_le_bytes());
    words.iter_mut().zip(&mut masked).for_each(|(word, masked)| *word = masked);
    if let Some(last) = masked.next().filter(|_| !rest.is_empty()) {
        rest.copy_from_slice(&last[..rest.len()]);
    }
}

const fn noise() -> [u64; BLOCK_STARTS + WORDS_PER_BLOCK] {
    let (mut noise, mut at) = ([0; BLOCK_STARTS + WORDS_PER_BLOCK], 0);
    let mut stream = RandomStreamKey::new(0).stream();
    while at < noise.len() {
        noise[at] = stream.next_u64();
        at += 1;
    }
    noise
}

/// Mixes the bits of a number with the finalizer of SplitMix64. Every bit of the result depends on every bit of
/// `number`.
const fn mix(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ number >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ number >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(words: &[u64]) -> RandomStreamKey {
        words.iter().fold(RandomStreamKey::new(0), |key, word| key.extended(*word))
    }

    fn filled(words: &[u64], len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        key(words).stream().fill(&mut bytes);
        bytes
    }

    /// Compares the numbers with those of another wyrand implementation, which uses this increment.
    #[test]
    fn numbers_match_wyrand() {
        let mut other = fastrand::Rng::with_seed(1_234_567);
        let mut stream = RandomStream { state: 1_234_567, increment: 0x2D35_8DCC_AA6C_78A5 };
        for _ in 0..100 {
            assert_eq!(stream.next_u64(), other.u64(..));
        }
    }

    #[test]
    fn content_differs_by_key_and_fills_any_length() {
        let whole = filled(&[1, 2, 3], 64);
        for other in [&[1, 2, 4][..], &[1, 3, 3], &[2, 2, 3], &[1, 2], &[1, 2, 3, 0], &[3, 2, 1]] {
            let other_content = filled(other, 64);
            assert!(
                whole.chunks(8).all(|word| !other_content.chunks(8).any(|other| other == word)),
                "{other:?}"
            );
        }
        const BYTES: usize = 8 * WORDS_PER_BLOCK;
        let long = filled(&[1, 2, 3], 2 * BYTES + 200);
        for len in (0..200).chain(BYTES - 20..BYTES + 20).chain(2 * BYTES - 20..2 * BYTES + 200) {
            assert_eq!(filled(&[1, 2, 3], len), long[..len], "{len}");
        }
    }

    #[test]
    fn zstd_does_not_make_content_smaller() {
        let records = (0..1000u64).map(|id| filled(&[7, id], 500)).chain([filled(&[8], 1 << 20)]);
        let content = records.collect::<Vec<_>>().concat();
        for level in [1, 9, 19] {
            let compressed = zstd::bulk::compress(&content, level).unwrap();
            assert!(compressed.len() >= content.len(), "level {level}: {} bytes", compressed.len());
        }
    }
}
