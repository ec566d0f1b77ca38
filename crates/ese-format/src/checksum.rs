//! Checksums of headers, pages and log segments: computation, verification, and correction of single flipped bits.
//!
//! There are two algorithms. Headers, and pages of files older than update 0x0B, are protected by a 32-bit XOR. Other
//! pages and log segments have a 64-bit checksum per block of at most 8 KiB. This checksum can locate a single
//! flipped bit:
//!
//! ```text
//!  63      48 47      32 31                0
//!  |   H     |    L     |  X ^ page number  |    X = XOR of all u32 of the block
//!                                                L = XOR of the indexes of all set bits, H = of their complements
//!  pages up to 8 KiB: one block, checksum in bytes 0..8, which are taken as zero
//!  16 and 32 KiB:     four blocks; the first in bytes 0..8, the others in bytes 40..64 (covered by the first)
//! ```
//!
//! Invariant: a correction is reported only if every block of the page verifies afterwards. Otherwise the bytes are
//! not modified.

use crate::{PageNumber, PageSize};

/// Initial value of the 32-bit XOR. It is also the magic number of a database header.
const XOR_SEED: u32 = 0x89AB_CDEF;
/// Maximum length in bytes of a block protected by the 64-bit checksum, which stores bit indexes in 16 bits.
const MAX_BLOCK: usize = 8192;
/// Length of a log segment in bytes.
pub const SEGMENT_LEN: usize = 4096;
/// Number of checksum blocks in a 16 or 32 KiB page.
const LARGE_PAGE_BLOCKS: usize = 4;
/// Offset of the checksums for blocks 1..4 in a large page.
const LARGE_PAGE_WORDS: usize = 40;
/// Offset of the page number in a large page.
const LARGE_PAGE_NUMBER: usize = 64;
/// Offset of the page-flags byte that selects the checksum algorithm, and the mask for the selecting bit.
const FORMAT_FLAG: (usize, u8) = (37, 0x20);

/// Returns true if all bytes are zero.
pub fn is_zero(bytes: &[u8]) -> bool {
    // Without a branch per byte, the compiler uses vector instructions.
    bytes.chunks(256).all(|chunk| chunk.iter().fold(0, |any, byte| any | byte) == 0)
}

/// Returns the 32-bit XOR of all words in a database or log header except the first, seeded with 0x89ABCDEF.
pub fn header_checksum(page: &[u8]) -> u32 {
    let (words, _) = page.as_chunks::<4>();
    words.iter().skip(1).fold(XOR_SEED, |sum, word| sum ^ u32::from_le_bytes(*word))
}

/// Returns the 64-bit checksum ("XE") of one block, salted with the page number or the log segment index.
///
/// If `header_block` is true, the block starts with its own checksum, which is treated as zero. A block should be 1,
/// 2, 4, or 8 KiB long. For any other length, the checksum covers only the largest power of two up to 8 KiB that
/// fits.
///
/// Each bit of the index word is the parity of the set data bits whose index has that bit set. Folding the upper half
/// of the block onto the lower half yields the parity for the topmost index bit and leaves a block half as long. The
/// computation therefore takes about two XORs per word and needs no population count.
#[doc(alias = "ECC")]
pub fn block_checksum(block: &[u8], number: u32, header_block: bool) -> u64 {
    let (words, _) = block.as_chunks::<8>();
    let Some(len) = words.len().min(MAX_BLOCK / 8).checked_ilog2().map(|bits| 1usize << bits) else {
        return u64::from(number);
    };
    let mut folded = [0u64; MAX_BLOCK / 64];
    // Do the first three folds in one pass, so that each word is read only once and the result stays in the L1 cache.
    let mut word_index = fold_eighths(words, len / 8, &mut folded);
    let mut half = len / 8;
    if len < 8 {
        // The block was not folded by the fast path.
        half = len;
        folded.iter_mut().zip(words).for_each(|(to, word)| *to = u64::from_le_bytes(*word));
    }
    let mut live = folded.get_mut(..half).unwrap_or_default();
    while half > 1 {
        half /= 2;
        let (low, high) = live.split_at_mut(half);
        let mut plane = 0;
        for (low, high) in low.iter_mut().zip(high) {
            plane ^= *high;
            *low ^= *high;
        }
        word_index = word_index << 1 | parity(plane);
        live = low;
    }
    // The excluded word has index 0, so it never contributed to `word_index`.
    let excluded = if header_block { words.first().map_or(0, |word| u64::from_le_bytes(*word)) } else { 0 };
    let all = live.first().copied().unwrap_or_default() ^ excluded;

    const BIT_PLANES: [u64; 6] = [
        0xFFFF_FFFF_0000_0000,
        0xFFFF_0000_FFFF_0000,
        0xFF00_FF00_FF00_FF00,
        0xF0F0_F0F0_F0F0_F0F0,
        0xCCCC_CCCC_CCCC_CCCC,
        0xAAAA_AAAA_AAAA_AAAA,
    ];
    let low = BIT_PLANES.iter().fold(word_index, |index, plane| index << 1 | parity(all & plane));
    let complement = if parity(all) == 1 { len as u64 * 64 - 1 } else { 0 };
    let xor = (all ^ (all >> 32)) as u32 ^ number;
    (low ^ complement) << 48 | low << 32 | u64::from(xor)
}

/// Folds `words` three times, down to its first eighth, which is `eighth` words long. Returns the parities for the
/// three topmost index bits.
fn fold_eighths(words: &[[u8; 8]], eighth: usize, folded: &mut [u64]) -> u64 {
    let mut eighths = words.chunks_exact(eighth.max(1));
    let mut next = || eighths.next().unwrap_or_default().iter().map(|word| u64::from_le_bytes(*word));
    let (a, b, c, d) = (next(), next(), next(), next());
    let (e, f, g, h) = (next(), next(), next(), next());
    let (mut first, mut second, mut third) = (0, 0, 0);
    let eighths = a.zip(b).zip(c).zip(d).zip(e).zip(f).zip(g).zip(h);
    for (to, (((((((a, b), c), d), e), f), g), h)) in folded.iter_mut().take(eighth).zip(eighths) {
        let (cd, ef, gh) = (c ^ d, e ^ f, g ^ h);
        first ^= ef ^ gh;
        second ^= cd ^ gh;
        third ^= b ^ d ^ f ^ h;
        *to = a ^ b ^ cd ^ ef ^ gh;
    }
    parity(first) << 2 | parity(second) << 1 | parity(third)
}

fn parity(word: u64) -> u64 {
    u64::from(word.count_ones() & 1)
}

/// Result of verifying a database page ([`verify_page`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PageIntegrity {
    /// All checksums match.
    Good,
    /// All bytes are zero: the page was never written. ESE: -1019 (`JET_errPageNotInitialized`).
    Zero,
    /// Single flipped bits were corrected in the buffer. The copy on disk is still damaged.
    Repaired {
        /// Offsets of the flipped bits in the page: `8 * byte + bit`.
        bits: Vec<u32>,
    },
    /// The page is undamaged but was written with a different page number. Small pages do not store their number, so
    /// damage to the checksum of a small page looks the same. ESE: -1118.
    WrongPage {
        /// Page number with which the page was written.
        stored: u32,
    },
    /// The page is damaged and cannot be corrected. ESE: -1018 (`JET_errReadVerifyFailure`).
    Bad,
}

/// Verifies a page read from the offset of page `number`, and corrects single flipped bits in place.
pub fn verify_page(page: &mut [u8], size: PageSize, number: PageNumber) -> PageIntegrity {
    if page.len() != size.bytes() {
        return PageIntegrity::Bad;
    }
    if is_zero(page) {
        return PageIntegrity::Zero;
    }
    if !size.is_large() && !has_format_flag(page) {
        return verify_legacy(page, number);
    }
    if let Some(stored) = stored_page_number(page, size, number) {
        return PageIntegrity::WrongPage { stored };
    }
    let mut bits = Vec::new();
    // Check block 0 first, because it covers the stored checksums of the other blocks.
    let repairable = (0..blocks(size)).all(|block| match check_block(page, size, block, number) {
        BlockCheck::Good => true,
        BlockCheck::FlippedBit(bit) => {
            flip(page, bit);
            bits.push(bit);
            true
        }
        BlockCheck::OtherNumber(_) | BlockCheck::Bad => false,
    });
    let sound = repairable
        && (bits.is_empty()
            || (0..blocks(size)).all(|block| check_block(page, size, block, number) == BlockCheck::Good));
    if !sound {
        bits.into_iter().for_each(|bit| flip(page, bit));
        return PageIntegrity::Bad;
    }
    match stored_number(page, size) {
        Some(stored) if stored != number.get() => PageIntegrity::WrongPage { stored },
        _ if bits.is_empty() => PageIntegrity::Good,
        _ => PageIntegrity::Repaired { bits },
    }
}

/// Prepares a page for writing by setting the format flag, the page number (on large pages), and the checksums.
///
/// # Panics
/// Panics if `page` is not `size` bytes long.
pub fn seal_page(page: &mut [u8], size: PageSize, number: PageNumber) {
    assert_eq!(page.len(), size.bytes(), "page length");
    if let Some(byte) = page.get_mut(FORMAT_FLAG.0) {
        *byte |= FORMAT_FLAG.1;
    }
    if size.is_large() {
        put(page, LARGE_PAGE_NUMBER, &number.get().to_le_bytes());
    }
    for block in (0..blocks(size)).rev() {
        let word = computed_word(page, size, block, number.get());
        put(page, word_offset(block), &word.to_le_bytes());
    }
}

/// Result of verifying a single block, such as a log segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockIntegrity {
    /// The checksum matches.
    Good,
    /// One flipped bit was corrected in the buffer.
    Repaired,
    /// The block is damaged, is empty, or was written with a different index.
    Bad,
}

/// Verifies a log segment read from index `index` of its file, and corrects a single flipped bit in place.
pub fn verify_segment(segment: &mut [u8], index: u32) -> BlockIntegrity {
    verify_single(segment, SEGMENT_LEN, index)
}

/// Verifies `len` bytes that form a single block, such as a log segment or a flush map page.
pub(crate) fn verify_single(block: &mut [u8], len: usize, number: u32) -> BlockIntegrity {
    if block.len() != len {
        return BlockIntegrity::Bad;
    }
    let stored = u64_at(block, 0).unwrap_or_default();
    match compare(stored, block_checksum(block, number, true), len) {
        BlockCheck::Good => BlockIntegrity::Good,
        BlockCheck::FlippedBit(bit) => {
            flip(block, bit);
            if block_checksum(block, number, true) == stored {
                return BlockIntegrity::Repaired;
            }
            flip(block, bit);
            BlockIntegrity::Bad
        }
        BlockCheck::OtherNumber(_) | BlockCheck::Bad => BlockIntegrity::Bad,
    }
}

/// Writes the checksum of a log segment into its first eight bytes.
pub fn seal_segment(segment: &mut [u8], index: u32) {
    let word = block_checksum(segment, index, true);
    put(segment, 0, &word.to_le_bytes());
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BlockCheck {
    Good,
    /// One bit is flipped, at this offset in the block or page.
    FlippedBit(u32),
    /// The contents match, but the salt differs. The value is the XOR of the expected and actual numbers.
    OtherNumber(u32),
    Bad,
}

fn compare(stored: u64, computed: u64, block_len: usize) -> BlockCheck {
    if stored == computed {
        return BlockCheck::Good;
    }
    let index_mask = block_len as u64 * 8 - 1;
    let difference = (stored ^ computed) >> 32;
    let xor = (stored ^ computed) as u32;
    if difference == 0 {
        return BlockCheck::OtherNumber(xor);
    }
    let complementary = (difference >> 16 ^ difference) & index_mask == index_mask;
    if complementary && xor.is_power_of_two() && difference & 0xffff <= index_mask {
        BlockCheck::FlippedBit(difference as u32 & 0xffff)
    } else {
        BlockCheck::Bad
    }
}

fn check_block(page: &[u8], size: PageSize, block: usize, number: PageNumber) -> BlockCheck {
    let Some(stored) = u64_at(page, word_offset(block)) else { return BlockCheck::Bad };
    let len = block_len(size);
    match compare(stored, computed_word(page, size, block, number.get()), len) {
        BlockCheck::FlippedBit(bit) => {
            let bit = bit + (block * len * 8) as u32;
            // This flag selected the checksum algorithm, so a correction of the flag itself would prove nothing.
            if bit as usize == FORMAT_FLAG.0 * 8 + FORMAT_FLAG.1.trailing_zeros() as usize {
                BlockCheck::Bad
            } else {
                BlockCheck::FlippedBit(bit)
            }
        }
        other => other,
    }
}

/// Returns the page number with which the page was written, if all its blocks agree on a number other than `number`.
fn stored_page_number(page: &[u8], size: PageSize, number: PageNumber) -> Option<u32> {
    let mut found = None;
    for block in 0..blocks(size) {
        match check_block(page, size, block, number) {
            BlockCheck::OtherNumber(xor) if found.is_none_or(|earlier| earlier == xor) => found = Some(xor),
            _ => return None,
        }
    }
    found.map(|xor| number.get() ^ xor).filter(|stored| *stored != 0)
}

fn verify_legacy(page: &[u8], number: PageNumber) -> PageIntegrity {
    match (u32_at(page, 0), u32_at(page, 4)) {
        (Some(sum), _) if sum != header_checksum(page) => PageIntegrity::Bad,
        (_, Some(stored)) if stored != number.get() => PageIntegrity::WrongPage { stored },
        _ => PageIntegrity::Good,
    }
}

fn has_format_flag(page: &[u8]) -> bool {
    page.get(FORMAT_FLAG.0).is_some_and(|byte| byte & FORMAT_FLAG.1 != 0)
}

fn blocks(size: PageSize) -> usize {
    if size.is_large() { LARGE_PAGE_BLOCKS } else { 1 }
}

fn block_len(size: PageSize) -> usize {
    size.bytes() / blocks(size)
}

fn word_offset(block: usize) -> usize {
    block.checked_sub(1).map_or(0, |later| LARGE_PAGE_WORDS + 8 * later)
}

fn computed_word(page: &[u8], size: PageSize, block: usize, number: u32) -> u64 {
    let len = block_len(size);
    let bytes = page.get(block * len..(block + 1) * len).unwrap_or_default();
    block_checksum(bytes, number, block == 0)
}

fn stored_number(page: &[u8], size: PageSize) -> Option<u32> {
    if size.is_large() { u32_at(page, LARGE_PAGE_NUMBER) } else { None }
}

fn flip(bytes: &mut [u8], bit: u32) {
    if let Some(byte) = bytes.get_mut(bit as usize / 8) {
        *byte ^= 1 << (bit % 8);
    }
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(place) = bytes.get_mut(at..at + value.len()) {
        place.copy_from_slice(value);
    }
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|word| u64::from_le_bytes(*word))
}

/// Returns the little-endian number at an offset, or `None` if the bytes end before it.
pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|word| u32::from_le_bytes(*word))
}

#[cfg(test)]
#[path = "checksum_tests.rs"]
mod tests;
