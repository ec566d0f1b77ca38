//! Encoding and decoding of the types that make up on-disk structures.
//!
//! Invariants: all values are little-endian and unaligned. Decoding never reads past the input. Memory for a payload
//! is allocated only after its length has been checked against the input. The caller decides what may follow a
//! structure.

use crate::{
    DatabaseIdInLog, DbTime, Generation, LogPosition, LogTime, PageNumber, PageSize, Signature, TreeId,
};

/// Error returned when bytes cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LayoutError {
    /// The input ends inside the structure.
    Truncated { needed: usize, available: usize },
    /// A field has a value that its type does not define.
    Invalid(&'static str),
}

/// Cursor over the bytes being decoded.
pub(crate) struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Input<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Input<'a> {
        Input { bytes, at: 0 }
    }

    /// Returns the number of bytes consumed so far.
    pub(crate) fn consumed(&self) -> usize {
        self.at
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.at >= self.bytes.len()
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Result<&'a [u8], LayoutError> {
        let end = self.at.saturating_add(count);
        let slice = self
            .bytes
            .get(self.at..end)
            .ok_or(LayoutError::Truncated { needed: end, available: self.bytes.len() })?;
        self.at = end;
        Ok(slice)
    }

    /// Returns all remaining bytes.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        let slice = self.bytes.get(self.at..).unwrap_or_default();
        self.at = self.bytes.len();
        slice
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], LayoutError> {
        let mut array = [0; N];
        array.copy_from_slice(self.bytes(N)?);
        Ok(array)
    }
}

/// A value with a fixed-length part. A structure may also have payloads, whose lengths are stored in the fixed part.
pub(crate) trait BinaryLayout: Sized {
    /// Length of the fixed part in bytes.
    const FIXED: usize;

    fn put(&self, out: &mut Vec<u8>);

    fn take(input: &mut Input<'_>) -> Result<Self, LayoutError>;

    /// Skips the fixed part and returns the number of payload bytes that follow it.
    fn payload_len(input: &mut Input<'_>) -> Result<usize, LayoutError> {
        input.bytes(Self::FIXED)?;
        Ok(0)
    }
}

/// An integer type that can store the length of a payload.
pub(crate) trait LengthField: BinaryLayout {
    /// Appends a payload length.
    ///
    /// # Panics
    /// Panics if the length does not fit the field. Record payloads and paths are never that long.
    fn put_len(len: usize, out: &mut Vec<u8>);
    fn take_len(input: &mut Input<'_>) -> Result<usize, LayoutError>;
}

macro_rules! integers {
    ($($int:ty),*) => {$(
        impl BinaryLayout for $int {
            const FIXED: usize = size_of::<$int>();
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
            fn take(input: &mut Input<'_>) -> Result<Self, LayoutError> {
                Ok(<$int>::from_le_bytes(input.array()?))
            }
        }
    )*};
}
integers!(u8, u16, u32, u64, i16, i32, i64);

macro_rules! length_fields {
    ($($int:ty),*) => {$(
        impl LengthField for $int {
            fn put_len(len: usize, out: &mut Vec<u8>) {
                assert!(len <= <$int>::MAX as usize, "payload of {len} bytes exceeds its length field");
                (len as $int).put(out);
            }
            fn take_len(input: &mut Input<'_>) -> Result<usize, LayoutError> {
                Ok(<$int>::take(input)? as usize)
            }
        }
    )*};
}
length_fields!(u16, u32);

/// Implements [`BinaryLayout`] for newtypes, which are stored as their inner value.
macro_rules! newtypes {
    ($($name:ident($int:ty)),*) => {$(
        impl BinaryLayout for $name {
            const FIXED: usize = <$int>::FIXED;
            fn put(&self, out: &mut Vec<u8>) {
                self.0.put(out);
            }
            fn take(input: &mut Input<'_>) -> Result<Self, LayoutError> {
                Ok($name(<$int>::take(input)?))
            }
        }
    )*};
}
newtypes!(DatabaseIdInLog(u8), DbTime(u64), TreeId(u32), Generation(u32));

impl<const N: usize> BinaryLayout for [u8; N] {
    const FIXED: usize = N;

    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, LayoutError> {
        input.array()
    }
}

impl BinaryLayout for PageNumber {
    const FIXED: usize = 4;

    fn put(&self, out: &mut Vec<u8>) {
        self.get().put(out);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, LayoutError> {
        PageNumber::new(u32::take(input)?).ok_or(LayoutError::Invalid("page number 0"))
    }
}

impl BinaryLayout for Option<PageNumber> {
    const FIXED: usize = 4;

    fn put(&self, out: &mut Vec<u8>) {
        PageNumber::to_raw(*self).put(out);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, LayoutError> {
        Ok(PageNumber::new(u32::take(input)?))
    }
}

impl BinaryLayout for PageSize {
    const FIXED: usize = 4;

    fn put(&self, out: &mut Vec<u8>) {
        self.get().put(out);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, LayoutError> {
        PageSize::from_header(u32::take(input)?).ok_or(LayoutError::Invalid("page size"))
    }
}

impl BinaryLayout for LogPosition {
    const FIXED: usize = 8;

    fn put(&self, out: &mut Vec<u8>) {
        self.to_u64().put(out);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, LayoutError> {
        Ok(LogPosition::from_u64(u64::take(input)?))
    }
}

impl BinaryLayout for LogTime {
    const FIXED: usize = 8;

    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, LayoutError> {
        Ok(LogTime(input.array()?))
    }
}

impl BinaryLayout for Signature {
    const FIXED: usize = Signature::LEN;

    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_bytes());
    }

    fn take(input: &mut Input<'_>) -> Result<Self, LayoutError> {
        Ok(Signature::from_bytes(&input.array()?))
    }
}

/// Allows large parts to be boxed, to keep enums small.
impl<T: BinaryLayout> BinaryLayout for Box<T> {
    const FIXED: usize = T::FIXED;

    fn put(&self, out: &mut Vec<u8>) {
        T::put(self, out);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, LayoutError> {
        T::take(input).map(Box::new)
    }
}

/// Stores all bytes up to the end of the enclosing structure.
impl BinaryLayout for Vec<u8> {
    const FIXED: usize = 0;

    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, LayoutError> {
        Ok(input.rest().to_vec())
    }
}
