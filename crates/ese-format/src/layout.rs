//! One declaration per on-disk structure: `layout!` turns a list of fields, in file order, into the struct, its
//! encoder, its decoder and its length, so that a layout is written down exactly once.
//!
//! Invariants: everything is little-endian and unaligned; decoding reads only what the slice holds; a payload is
//! allocated only after its bytes were seen to be there. What may follow a structure is the caller's business.

use crate::{
    DatabaseIdInLog, DbTime, Generation, LogPosition, LogTime, PageNumber, PageSize, Signature, TreeId,
};

/// Why bytes are not the structure they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LayoutError {
    /// The slice ends inside the structure.
    Truncated { needed: usize, available: usize },
    /// A field has a value its type does not know.
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

    /// Bytes consumed so far.
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

    /// All that is left.
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

/// A value with a fixed-length part and, for whole structures, payloads whose lengths stand in that part.
pub(crate) trait Layout: Sized {
    /// Bytes of the fixed part.
    const FIXED: usize;

    fn put(&self, out: &mut Vec<u8>);

    fn take(input: &mut Input<'_>) -> Result<Self, LayoutError>;

    /// Reads over the fixed part and returns how many payload bytes follow it.
    fn payload_len(input: &mut Input<'_>) -> Result<usize, LayoutError> {
        input.bytes(Self::FIXED)?;
        Ok(0)
    }
}

/// An integer that holds the length of a payload.
pub(crate) trait LengthField: Layout {
    /// # Panics
    /// When the payload is longer than the field can say, which no record of a page or path can be.
    fn put_len(len: usize, out: &mut Vec<u8>);
    fn take_len(input: &mut Input<'_>) -> Result<usize, LayoutError>;
}

macro_rules! integers {
    ($($int:ty),*) => {$(
        impl Layout for $int {
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

/// Newtypes stored as their only field.
macro_rules! newtypes {
    ($($name:ident($int:ty)),*) => {$(
        impl Layout for $name {
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

impl<const N: usize> Layout for [u8; N] {
    const FIXED: usize = N;

    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, LayoutError> {
        input.array()
    }
}

impl Layout for PageNumber {
    const FIXED: usize = 4;

    fn put(&self, out: &mut Vec<u8>) {
        self.get().put(out);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, LayoutError> {
        PageNumber::new(u32::take(input)?).ok_or(LayoutError::Invalid("page number 0"))
    }
}

impl Layout for Option<PageNumber> {
    const FIXED: usize = 4;

    fn put(&self, out: &mut Vec<u8>) {
        PageNumber::to_raw(*self).put(out);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, LayoutError> {
        Ok(PageNumber::new(u32::take(input)?))
    }
}

impl Layout for PageSize {
    const FIXED: usize = 4;

    fn put(&self, out: &mut Vec<u8>) {
        self.get().put(out);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, LayoutError> {
        PageSize::new(u32::take(input)?).ok_or(LayoutError::Invalid("page size"))
    }
}

impl Layout for LogPosition {
    const FIXED: usize = 8;

    fn put(&self, out: &mut Vec<u8>) {
        self.to_u64().put(out);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, LayoutError> {
        Ok(LogPosition::from_u64(u64::take(input)?))
    }
}

impl Layout for LogTime {
    const FIXED: usize = 8;

    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, LayoutError> {
        Ok(LogTime(input.array()?))
    }
}

impl Layout for Signature {
    const FIXED: usize = Signature::LEN;

    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_bytes());
    }

    fn take(input: &mut Input<'_>) -> Result<Self, LayoutError> {
        Ok(Signature::from_bytes(&input.array()?))
    }
}

/// Large parts of small-on-average values live on the heap.
impl<T: Layout> Layout for Box<T> {
    const FIXED: usize = T::FIXED;

    fn put(&self, out: &mut Vec<u8>) {
        T::put(self, out);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, LayoutError> {
        T::take(input).map(Box::new)
    }
}

/// Bytes up to the end of what encloses them.
impl Layout for Vec<u8> {
    const FIXED: usize = 0;

    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, LayoutError> {
        Ok(input.rest().to_vec())
    }
}
