//! Compression of text to 7-bit characters, packed from the least significant bit up.

use super::CompressionError;

/// Unpacks `packed` into units of `width` bytes. Only the first `last_bits + 1` bits of the last byte are used.
pub(super) fn decompress(
    packed: &[u8],
    last_bits: u8,
    width: usize,
    limit: usize,
) -> Result<Vec<u8>, CompressionError> {
    let bits = packed.len().saturating_sub(1) * 8 + usize::from(last_bits) + 1;
    let units = if packed.is_empty() { 0 } else { bits / 7 };
    if units * width > limit {
        return Err(CompressionError::TooLong { limit });
    }
    let mut plain = Vec::with_capacity(units * width);
    let (mut pending, mut pending_bits) = (0u32, 0);
    let mut bytes = packed.iter();
    for _ in 0..units {
        if pending_bits < 7 {
            pending |= u32::from(bytes.next().copied().unwrap_or(0)) << pending_bits;
            pending_bits += 8;
        }
        plain.push((pending & 0x7f) as u8);
        plain.resize(plain.len() + width - 1, 0);
        pending >>= 7;
        pending_bits -= 7;
    }
    Ok(plain)
}
