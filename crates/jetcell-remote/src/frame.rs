//! Frames that separate messages in a byte stream.
//!
//! ```text
//! length of what follows: u32 | number of the request: u32 | message
//! ```
//!
//! Numbers are little-endian. A reply has the same number as its request. Memory is allocated only as bytes arrive,
//! so a false length does not cause a large allocation.

use std::io::{self, Read, Write};

/// Maximum number of file bytes in one message.
pub const MAX_CHUNK: usize = 1 << 20;
/// Maximum frame length: a chunk and the fields around it.
pub const MAX_FRAME: usize = MAX_CHUNK + 4096;
/// Maximum length of a frame from a client that has not yet sent the token.
pub const MAX_GREETING: usize = 2048;

/// Size of a request number in bytes.
const NUMBER_LEN: usize = 4;

/// Reads a frame of at most `max_len` bytes. Returns `None` if the stream ended before the frame.
///
/// # Errors
///
/// Returns errors from the stream. In addition, returns `InvalidData` if the frame is longer than `max_len` or too
/// short to contain a request number, and `UnexpectedEof` if the stream ends within the frame.
pub fn read_frame(stream: &mut dyn Read, max_len: usize) -> io::Result<Option<(u32, Vec<u8>)>> {
    let mut length = [0; 4];
    let mut have = 0;
    while have < length.len() {
        match stream.read(&mut length[have..]) {
            Ok(0) if have == 0 => return Ok(None),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(came) => have += came,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let length = u32::from_le_bytes(length) as usize;
    if length > max_len || length < NUMBER_LEN {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the frame length is invalid"));
    }
    let mut number = [0; NUMBER_LEN];
    stream.read_exact(&mut number)?;
    let mut message = Vec::new();
    stream.take((length - NUMBER_LEN) as u64).read_to_end(&mut message)?;
    if message.len() != length - NUMBER_LEN {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some((u32::from_le_bytes(number), message)))
}

/// Writes a frame with a single write.
pub fn write_frame(stream: &mut dyn Write, number: u32, message: &[u8]) -> io::Result<()> {
    let length = u32::try_from(message.len() + NUMBER_LEN).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut frame = Vec::with_capacity(message.len() + 8);
    frame.extend_from_slice(&length.to_le_bytes());
    frame.extend_from_slice(&number.to_le_bytes());
    frame.extend_from_slice(message);
    stream.write_all(&frame)?;
    stream.flush()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn frames_round_trip() {
        let mut stream = Vec::new();
        write_frame(&mut stream, 7, b"one").unwrap();
        write_frame(&mut stream, u32::MAX, b"").unwrap();
        let mut read = &stream[..];
        assert_eq!(read_frame(&mut read, 64).unwrap(), Some((7, b"one".to_vec())));
        assert_eq!(read_frame(&mut read, 64).unwrap(), Some((u32::MAX, Vec::new())));
        assert_eq!(read_frame(&mut read, 64).unwrap(), None);
        for cut in 1..11 {
            let kind = read_frame(&mut &stream[..cut], 64).unwrap_err().kind();
            assert_eq!(kind, io::ErrorKind::UnexpectedEof, "{cut}");
        }
    }

    #[test]
    fn a_false_frame_length_allocates_no_memory() {
        for length in [0, 3, 65, u32::MAX] {
            let bytes = length.to_le_bytes();
            let kind = read_frame(&mut &bytes[..], 64).unwrap_err().kind();
            assert_eq!(kind, io::ErrorKind::InvalidData, "{length}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_decode_to_frames_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut rest = &bytes[..];
            while let Ok(Some((_, message))) = read_frame(&mut rest, 256) {
                prop_assert!(message.len() <= 252);
            }
        }
    }
}
