//! Database paths in the form used by log records and the attachment list.

/// Encodes a path in the form used by log records: UTF-16 with a final NUL.
pub fn encode_path(path: &str) -> Vec<u8> {
    path.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect()
}

/// Decodes a UTF-16 path up to its NUL. Unpaired surrogates become U+FFFD.
pub fn decode_path(bytes: &[u8]) -> String {
    let units = bytes.as_chunks::<2>().0.iter().map(|unit| u16::from_le_bytes(*unit));
    char::decode_utf16(units.take_while(|&unit| unit != 0))
        .map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER))
        .collect()
}
