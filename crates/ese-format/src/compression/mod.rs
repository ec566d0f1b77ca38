//! Compression of long values.
//!
//! ```text
//!  first byte >> 3   scheme                           first byte & 7, rest of the header
//!    1               7-bit ASCII                      bits used in the last byte, minus one
//!    2               7-bit units of UTF-16            same
//!    3               XPRESS (plain LZ77)              0, u16 plain length
//!    4               erased                           any; no data left
//!    7               LZ4 (one block)                  0, u16 plain length
//! ```
//!
//! All other schemes return an error, as in ESE. Xpress9 (5) and Xpress10 (6) are not supported.

mod seven_bit;
mod xpress;

use thiserror::Error;

/// ESE's error for a value that cannot be decompressed.
pub const DECOMPRESSION_FAILED: (i32, &str) = (-1620, "JET_errDecompressionFailed");

/// Error returned when stored bytes cannot be decompressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum CompressionError {
    /// The value uses a scheme that this crate does not support, or that does not exist.
    #[error("compression scheme {0} is not supported")]
    Unsupported(u8),
    /// The value was erased intentionally.
    #[error("the value was erased")]
    Erased,
    /// The stream ends early or refers to bytes before its start.
    #[error("the compressed bytes are invalid")]
    Corrupt,
    /// The value is longer than the caller allows.
    #[error("the value is longer than the expected {limit} bytes")]
    TooLong {
        /// Maximum length in bytes.
        limit: usize,
    },
    /// The value does not have the expected length.
    #[error("expected {expected} bytes, found {found}")]
    WrongLength {
        /// Expected number of bytes.
        expected: usize,
        /// Actual number of bytes.
        found: usize,
    },
}

const SEVEN_BIT_ASCII: u8 = 1;
const SEVEN_BIT_UNICODE: u8 = 2;
const XPRESS: u8 = 3;
const SCRUB: u8 = 4;
const LZ4: u8 = 7;

/// Maximum length of a value that can be stored compressed within a record.
pub const MAX_INTRINSIC: usize = 64 * 1024;

/// Decompresses `stored`. Fails if the result is longer than `limit`.
pub fn decompress(stored: &[u8], limit: usize) -> Result<Vec<u8>, CompressionError> {
    let Some((&first, rest)) = stored.split_first() else { return Ok(Vec::new()) };
    match first >> 3 {
        SEVEN_BIT_ASCII => seven_bit::decompress(rest, first & 7, 1, limit),
        SEVEN_BIT_UNICODE => seven_bit::decompress(rest, first & 7, 2, limit),
        scheme @ (XPRESS | LZ4) => {
            let (len, stream) = rest.split_first_chunk().ok_or(CompressionError::Corrupt)?;
            let len = usize::from(u16::from_le_bytes(*len));
            if len > limit {
                return Err(CompressionError::TooLong { limit });
            }
            if scheme == XPRESS { xpress::decompress(stream, len) } else { decompress_lz4(stream, len) }
        }
        SCRUB => Err(CompressionError::Erased),
        scheme => Err(CompressionError::Unsupported(scheme)),
    }
}

/// Decompresses an LZ4 block whose plain length is `len`.
fn decompress_lz4(block: &[u8], len: usize) -> Result<Vec<u8>, CompressionError> {
    let mut plain = vec![0; len];
    match lz4_flex::block::decompress_into(block, &mut plain) {
        Ok(found) if found == len => Ok(plain),
        Ok(found) => Err(CompressionError::WrongLength { expected: len, found }),
        Err(_) => Err(CompressionError::Corrupt),
    }
}

/// Overwrites a stored value with `fill` and marks it as erased.
pub fn erase(stored: &mut [u8], fill: u8) {
    stored.fill(fill);
    if let Some(first) = stored.first_mut() {
        *first = SCRUB << 3;
    }
}

/// Compresses `plain` with XPRESS. Returns `None` if the result is not shorter or if `plain` exceeds 65,535 bytes.
pub(crate) fn compress_xpress(plain: &[u8]) -> Option<Vec<u8>> {
    let [low, high] = u16::try_from(plain.len()).ok()?.to_le_bytes();
    // Incompressible data grows by one bit per byte.
    let mut stored = Vec::with_capacity(plain.len() + plain.len() / 8 + 16);
    stored.extend_from_slice(&[XPRESS << 3, low, high]);
    xpress::compress(plain, &mut stored);
    (stored.len() < plain.len()).then_some(stored)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Long value 3 of a real file in its stored form: 1051 bytes compressed to 41.
    const REAL: &str = "181b040f0000004c6f6e6720636f6d70726573736564204153434949207465787420610700 0ffffc03";

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
        digits
            .chunks(2)
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect()
    }

    #[test]
    fn a_real_xpress_value_decompresses_and_compresses_to_the_same_bytes() {
        let plain = ["Long compressed ASCII text ", &"a".repeat(1024)].concat();
        assert_eq!(decompress(&hex(REAL), 2000).unwrap(), plain.as_bytes());
        assert_eq!(compress_xpress(plain.as_bytes()).unwrap(), hex(REAL));
        assert_eq!(decompress(&hex(REAL), 1050), Err(CompressionError::TooLong { limit: 1050 }));
    }

    #[test]
    fn a_real_seven_bit_value_decompresses() {
        let plain = decompress(&hex("0ef4f29c0e6a87f120f6db7d06"), 100).unwrap();
        assert_eq!(plain, b"test max long");
    }

    #[test]
    fn seven_bit_units_expand_to_utf_16() {
        // 'A' and 'B' take 14 bits, so six bits of the last byte are used.
        assert_eq!(decompress(&hex("154121"), 10).unwrap(), b"A\0B\0");
        assert_eq!(decompress(&hex("0d4121"), 10).unwrap(), b"AB");
    }

    #[test]
    fn matches_may_overlap_and_long_ones_use_every_length_form() {
        for len in [3, 9, 10, 24, 25, 279, 280, 281, 5000, 65_534] {
            let plain = [&b"x"[..], &vec![b'y'; len]].concat();
            let stored = compress_xpress(&plain);
            if let Some(stored) = stored {
                assert_eq!(decompress(&stored, plain.len()).unwrap(), plain, "run of {len}");
            } else {
                assert!(len < 25, "run of {len} does not shrink");
            }
        }
    }

    #[test]
    fn each_failure_has_a_distinct_error() {
        assert_eq!(decompress(&[4 << 3, b'L'], 10), Err(CompressionError::Erased));
        for scheme in [0, 5, 6, 8, 31] {
            assert_eq!(decompress(&[scheme << 3, 0], 10), Err(CompressionError::Unsupported(scheme)));
        }
        assert_eq!(decompress(&hex("1804000000008000000000"), 10), Err(CompressionError::Corrupt));
        assert_eq!(decompress(&[], 10).unwrap(), b"");
    }

    #[test]
    fn an_lz4_block_decompresses() {
        // One literal byte, a match that repeats it 19 + 4 times, and five literals.
        let block = [&[0x1f, b'x', 1, 0, 4, 0x50][..], b"hello"].concat();
        let stored = |len: u16| [&[LZ4 << 3][..], &len.to_le_bytes(), &block].concat();
        let plain = [&[b'x'; 24][..], b"hello"].concat();
        assert_eq!(decompress(&stored(29), 29).unwrap(), plain);
        assert_eq!(decompress(&stored(29), 28), Err(CompressionError::TooLong { limit: 28 }));
        assert_eq!(decompress(&stored(28), 40), Err(CompressionError::Corrupt));
        let wrong = CompressionError::WrongLength { expected: 30, found: 29 };
        assert_eq!(decompress(&stored(30), 40), Err(wrong));
        assert_eq!(decompress(&[LZ4 << 3, 1], 10), Err(CompressionError::Corrupt));
        assert_eq!(decompress(&[LZ4 << 3, 5, 0, 0x10], 10), Err(CompressionError::Corrupt));
    }

    proptest! {
        #[test]
        fn compressed_chunks_round_trip(
            words in proptest::collection::vec(proptest::collection::vec(0u8..4, 1..40), 0..6),
            picks in proptest::collection::vec(0usize..6, 0..200),
        ) {
            let plain: Vec<u8> = picks.iter().filter_map(|pick| words.get(*pick)).flatten().copied().collect();
            if let Some(stored) = compress_xpress(&plain) {
                prop_assert!(stored.len() < plain.len());
                prop_assert_eq!(decompress(&stored, plain.len()).unwrap(), plain);
            }
        }

        #[test]
        fn arbitrary_bytes_neither_panic_nor_exceed_the_limit(
            scheme in 0u8..32, bytes in proptest::collection::vec(any::<u8>(), 0..300), limit in 0usize..5000,
        ) {
            let stored = [&[scheme << 3 | bytes.len() as u8 & 7][..], &bytes].concat();
            if let Ok(plain) = decompress(&stored, limit) {
                prop_assert!(plain.len() <= limit);
            }
        }
    }
}
