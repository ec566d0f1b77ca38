//! The plain LZ77 stream of XPRESS (MS-XCA, without Huffman coding).
//!
//! ```text
//!  | u32 flags | token | token | ... 32 tokens | u32 flags | ...      flags from the most significant bit
//!  0: literal byte
//!  1: u16 = (distance - 1) << 3 | min(length - 3, 7)
//!     length field 7: + a nibble (low half of a fresh byte; the next such token takes its high half)
//!     nibble 15: + a byte;  byte 255: a u16 instead, length - 3;  u16 0: a u32 instead
//! ```
//!
//! Unused flags of the last word are ones.

use super::CompressionError;

const MIN_MATCH: usize = 3;
const MAX_DISTANCE: usize = 1 << 13;

struct Stream<'a> {
    rest: &'a [u8],
    /// High half of the last nibble byte, if it has not been used yet.
    nibble: Option<u8>,
}

impl Stream<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], CompressionError> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(CompressionError::Corrupt)?;
        self.rest = rest;
        Ok(*taken)
    }

    fn nibble(&mut self) -> Result<u8, CompressionError> {
        if let Some(high) = self.nibble.take() {
            return Ok(high);
        }
        let [byte] = self.take()?;
        self.nibble = Some(byte >> 4);
        Ok(byte & 15)
    }

    fn match_len(&mut self, field: u16) -> Result<usize, CompressionError> {
        if field < 7 {
            return Ok(usize::from(field) + MIN_MATCH);
        }
        let nibble = self.nibble()?;
        if nibble < 15 {
            return Ok(usize::from(nibble) + 7 + MIN_MATCH);
        }
        let [byte] = self.take()?;
        if byte < 255 {
            return Ok(usize::from(byte) + 15 + 7 + MIN_MATCH);
        }
        let len = match u16::from_le_bytes(self.take()?) {
            0 => u32::from_le_bytes(self.take()?),
            len => len.into(),
        };
        if len < 15 + 7 {
            return Err(CompressionError::Corrupt);
        }
        Ok((len as usize).saturating_add(MIN_MATCH))
    }
}

/// Decompresses `stream` to exactly `len` bytes.
pub(super) fn decompress(stream: &[u8], len: usize) -> Result<Vec<u8>, CompressionError> {
    let mut stream = Stream { rest: stream, nibble: None };
    let mut plain = Vec::with_capacity(len);
    let (mut flags, mut flags_left) = (0u32, 0);
    while plain.len() < len {
        if flags_left == 0 {
            flags = u32::from_le_bytes(stream.take()?);
            flags_left = 32;
        }
        flags_left -= 1;
        if flags >> flags_left & 1 == 0 {
            let [literal] = stream.take()?;
            plain.push(literal);
            continue;
        }
        let token = u16::from_le_bytes(stream.take()?);
        let distance = usize::from(token >> 3) + 1;
        let count = stream.match_len(token & 7)?;
        let start = plain.len().checked_sub(distance).ok_or(CompressionError::Corrupt)?;
        if count > len - plain.len() {
            return Err(CompressionError::Corrupt);
        }
        // Copy byte by byte, because a match may overlap its own output.
        for at in start..start + count {
            let byte = plain.get(at).copied().ok_or(CompressionError::Corrupt)?;
            plain.push(byte);
        }
    }
    Ok(plain)
}

/// Output buffer, with the offsets of words that will be filled in later.
struct Writer<'o> {
    out: &'o mut Vec<u8>,
    flags: u32,
    flag_count: u32,
    flags_at: usize,
    nibble_at: Option<usize>,
}

impl Writer<'_> {
    fn flag(&mut self, bit: u32) {
        self.flags = self.flags << 1 | bit;
        self.flag_count += 1;
        if self.flag_count == 32 {
            self.end_flags();
            self.flags_at = self.out.len();
            self.out.extend_from_slice(&[0; 4]);
        }
    }

    fn end_flags(&mut self) {
        let unused = 32 - self.flag_count;
        let flags = (u64::from(self.flags) << unused | ((1u64 << unused) - 1)) as u32;
        if let Some(place) = self.out.get_mut(self.flags_at..self.flags_at + 4) {
            place.copy_from_slice(&flags.to_le_bytes());
        }
        (self.flags, self.flag_count) = (0, 0);
    }

    fn nibble(&mut self, value: u8) {
        match self.nibble_at.take().and_then(|at| self.out.get_mut(at)) {
            Some(byte) => *byte |= value << 4,
            None => {
                self.nibble_at = Some(self.out.len());
                self.out.push(value);
            }
        }
    }

    fn matched(&mut self, distance: usize, len: usize) {
        let len = len - MIN_MATCH;
        let token = (distance - 1) << 3 | len.min(7);
        self.out.extend_from_slice(&(token as u16).to_le_bytes());
        if len >= 7 {
            self.nibble((len - 7).min(15) as u8);
        }
        if len >= 7 + 15 {
            self.out.push((len - 7 - 15).min(255) as u8);
        }
        if len >= 7 + 15 + 255 {
            self.out.extend_from_slice(&(len as u16).to_le_bytes());
        }
    }
}

/// Hash table of the latest position of each three-byte sequence. If two sequences have the same hash, the later one
/// replaces the earlier one.
struct MatchTable([u16; 1 << MatchTable::BITS]);

impl MatchTable {
    const BITS: u32 = 12;

    /// Records `at` as the latest position of the three bytes there, and returns the previous position.
    fn replace(&mut self, plain: &[u8], at: usize) -> Option<usize> {
        let [a, b, c] = *plain.get(at..)?.first_chunk::<MIN_MATCH>()?;
        let hash = u32::from_le_bytes([a, b, c, 0]).wrapping_mul(0x9E37_79B1) >> (32 - MatchTable::BITS);
        // 0 means that no position is recorded.
        let place = self.0.get_mut(hash as usize)?;
        usize::from(std::mem::replace(place, (at + 1) as u16)).checked_sub(1)
    }
}

/// Appends the compressed stream for `plain` (at most 65,535 bytes). The algorithm is greedy, and its only match
/// candidate is the latest occurrence of the next three bytes.
pub(super) fn compress(plain: &[u8], out: &mut Vec<u8>) {
    let mut latest = MatchTable([0; 1 << MatchTable::BITS]);
    let flags_at = out.len();
    out.extend_from_slice(&[0; 4]);
    let mut writer = Writer { out, flags: 0, flag_count: 0, flags_at, nibble_at: None };
    let mut at = 0;
    while let Some((&literal, _)) = plain.get(at..).and_then(<[u8]>::split_first) {
        let before = latest.replace(plain, at).filter(|before| at - before <= MAX_DISTANCE);
        let len = before.map_or(0, |before| common_len(plain, before, at));
        let step = if let (Some(before), true) = (before, len >= MIN_MATCH) {
            writer.matched(at - before, len);
            writer.flag(1);
            len
        } else {
            writer.out.push(literal);
            writer.flag(0);
            1
        };
        for passed in at + 1..at + step {
            latest.replace(plain, passed);
        }
        at += step;
    }
    writer.end_flags();
}

fn common_len(plain: &[u8], before: usize, at: usize) -> usize {
    let (old, new) = (plain.get(before..).unwrap_or_default(), plain.get(at..).unwrap_or_default());
    old.iter().zip(new).take_while(|(a, b)| a == b).count()
}
