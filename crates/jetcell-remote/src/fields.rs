//! Message fields: numbers, texts and bytes. A message is read from start to end, and no bytes may be left over.

use std::io;

/// Encodes the fields of a message.
pub struct FieldWriter(Vec<u8>);

impl FieldWriter {
    /// Starts a message of the given kind.
    pub fn new(kind: u8) -> FieldWriter {
        FieldWriter(vec![kind])
    }

    pub fn u8(mut self, value: u8) -> FieldWriter {
        self.0.push(value);
        self
    }

    pub fn u16(mut self, value: u16) -> FieldWriter {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub fn u32(mut self, value: u32) -> FieldWriter {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub fn u64(mut self, value: u64) -> FieldWriter {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// Appends a short text, truncated to 65,535 bytes.
    pub fn text(self, text: &str) -> FieldWriter {
        let mut len = text.len().min(usize::from(u16::MAX));
        while !text.is_char_boundary(len) {
            len -= 1;
        }
        let mut writer = self.u16(len as u16);
        writer.0.extend_from_slice(&text.as_bytes()[..len]);
        writer
    }

    /// Appends bytes that extend to the end of the message.
    pub fn rest(mut self, bytes: &[u8]) -> FieldWriter {
        self.0.extend_from_slice(bytes);
        self
    }

    pub fn finish(self) -> Vec<u8> {
        self.0
    }
}

/// Decodes the fields of a message.
pub struct FieldReader<'m>(&'m [u8]);

/// Returns the error for a message whose layout does not match its kind.
pub fn malformed_message() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the message is malformed")
}

impl<'m> FieldReader<'m> {
    pub fn new(message: &'m [u8]) -> FieldReader<'m> {
        FieldReader(message)
    }

    fn take(&mut self, len: usize) -> io::Result<&'m [u8]> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or_else(malformed_message)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        self.take(N)?.try_into().map_err(|_| malformed_message())
    }

    pub fn u8(&mut self) -> io::Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    pub fn u16(&mut self) -> io::Result<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub fn u32(&mut self) -> io::Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub fn u64(&mut self) -> io::Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub fn flag(&mut self) -> io::Result<bool> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(malformed_message()),
        }
    }

    pub fn text(&mut self) -> io::Result<String> {
        let len = usize::from(self.u16()?);
        let bytes = self.take(len)?;
        std::str::from_utf8(bytes).map(str::to_string).map_err(|_| malformed_message())
    }

    pub fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.0).to_vec()
    }

    /// Returns true if no bytes remain.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns `message`. Fails if any bytes remain.
    pub fn finish<T>(self, message: T) -> io::Result<T> {
        if self.0.is_empty() { Ok(message) } else { Err(malformed_message()) }
    }
}
