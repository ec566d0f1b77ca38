//! Hexadecimal digits.

/// Returns bytes as lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    let mut digits = Vec::new();
    write_hex(bytes, &mut digits);
    digits.into_iter().map(char::from).collect()
}

/// Appends bytes as lower-case hexadecimal digits.
pub fn write_hex(bytes: &[u8], to: &mut Vec<u8>) {
    const DIGITS: [u8; 16] = *b"0123456789abcdef";
    to.reserve(bytes.len() * 2);
    for byte in bytes {
        // Both indexes are less than 16.
        to.extend(
            [byte >> 4, byte & 15].map(|digit| DIGITS.get(usize::from(digit)).copied().unwrap_or(b'?')),
        );
    }
}

/// Formats a number as 16 hexadecimal digits.
pub fn hex64(number: u64) -> String {
    format!("{number:016x}")
}

/// Parses a number of 1 to 16 hexadecimal digits.
pub fn parse_hex64(digits: &str) -> Option<u64> {
    // The standard library also accepts a sign.
    u64::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'))
}

#[cfg(test)]
#[path = "hex_tests.rs"]
mod tests;
