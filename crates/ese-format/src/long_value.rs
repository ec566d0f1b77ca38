//! Long values: values that are too long for their record and are stored in the long-value tree of the table.
//!
//! ```text
//!  node           key                                   data
//!  root           u32 BE id                             u32 reference count | u32 total size [| u8 flags]
//!  chunk          u32 BE id | u32 BE byte offset        bytes, possibly compressed
//!  64-bit ids     u64 BE id, top bit set                same
//! ```
//!
//! The record stores the id in little-endian order. Offsets refer to the uncompressed value and are multiples of the
//! chunk size. A chunk whose stored length differs from the expected one is compressed. Ids start at 1 and are not
//! reused.
//!
//! The layout was verified on real files, except for 64-bit ids and the flags byte, which follow Microsoft's source.
//! Decryption is not implemented.

use std::fmt;

use smallvec::SmallVec;

use crate::PageSize;
use crate::compression::{self, CompressionError};

/// Identifies a long value within its table. ESE: `LID`.
#[doc(alias = "LID")]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LongValueId(pub u64);

/// Encoded key of a node in a long-value tree. The longest keys have a wide id and an offset.
pub type LongValueKeyBytes = SmallVec<[u8; 12]>;

/// Top bit of an id. In keys, it distinguishes 64-bit ids from 32-bit ids.
const WIDE: u64 = 1 << 63;

impl LongValueId {
    /// Returns true if the id is eight bytes long rather than four.
    pub const fn is_wide(self) -> bool {
        self.0 & WIDE != 0
    }

    /// Decodes an id from the form stored in records. Returns `None` unless `bytes` is four bytes long, or eight
    /// bytes long with the top bit set.
    pub fn from_record(bytes: &[u8]) -> Option<LongValueId> {
        if let Ok(narrow) = bytes.try_into() {
            return Some(LongValueId(u32::from_le_bytes(narrow).into()));
        }
        let id = LongValueId(u64::from_le_bytes(bytes.try_into().ok()?));
        id.is_wide().then_some(id)
    }

    /// Encodes the id in the form stored in records.
    pub fn to_record(self) -> SmallVec<[u8; 8]> {
        let bytes = self.0.to_le_bytes();
        SmallVec::from_slice(if self.is_wide() { &bytes } else { &bytes[..4] })
    }

    /// Returns the key of the value's root node.
    pub fn root_key(self) -> LongValueKeyBytes {
        let bytes = self.0.to_be_bytes();
        SmallVec::from_slice(if self.is_wide() { &bytes } else { &bytes[4..] })
    }

    /// Returns the key of the chunk that starts at byte `offset` of the value.
    pub fn chunk_key(self, offset: u32) -> LongValueKeyBytes {
        let mut key = self.root_key();
        key.extend_from_slice(&offset.to_be_bytes());
        key
    }

    /// Returns the next id of the same width.
    #[must_use]
    pub const fn next(self) -> LongValueId {
        LongValueId(self.0 + 1)
    }
}

impl fmt::Debug for LongValueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lv{:#x}", self.0)
    }
}

/// Key of a node in a long-value tree.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum LongValueKey {
    /// Root node, which stores the reference count and the size.
    Root(LongValueId),
    /// Chunk that starts at this offset in the value.
    Chunk(LongValueId, u32),
}

impl LongValueKey {
    /// Decodes a node key.
    pub fn decode(key: &[u8]) -> Option<LongValueKey> {
        // The first bit distinguishes an eight-byte id from a four-byte id followed by an offset.
        let wide = key.first()? & 0x80 != 0 && key.len() >= 8;
        let (id, offset) = key.split_at_checked(if wide { 8 } else { 4 })?;
        let id = id.iter().fold(0, |id, byte| id << 8 | u64::from(*byte));
        Some(match offset {
            [] => LongValueKey::Root(LongValueId(id)),
            _ => LongValueKey::Chunk(LongValueId(id), u32::from_be_bytes(offset.try_into().ok()?)),
        })
    }

    /// Returns the value to which the node belongs.
    pub const fn id(self) -> LongValueId {
        match self {
            LongValueKey::Root(id) | LongValueKey::Chunk(id, _) => id,
        }
    }
}

/// Data of the root node of a long value. ESE: `LVROOT`.
#[doc(alias = "LVROOT")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LongValueRoot {
    /// Number of records that refer to the value. A value with no references is waiting to be deleted.
    pub references: u32,
    /// Length of the uncompressed value in bytes.
    pub size: u32,
    /// Flags of the value; bit 0 means encrypted. Stored only if not zero.
    pub flags: u8,
}

impl LongValueRoot {
    /// Creates the root of a value with one reference.
    pub const fn new(size: u32) -> LongValueRoot {
        LongValueRoot { references: 1, size, flags: 0 }
    }

    /// Decodes the data of a root node, which is eight or nine bytes long.
    pub fn decode(data: &[u8]) -> Option<LongValueRoot> {
        let (references, rest) = data.split_first_chunk()?;
        let (size, flags) = rest.split_first_chunk()?;
        let flags = match flags {
            [] => 0,
            [flags] => *flags,
            _ => return None,
        };
        Some(LongValueRoot {
            references: u32::from_le_bytes(*references),
            size: u32::from_le_bytes(*size),
            flags,
        })
    }

    /// Encodes the data of a root node.
    pub fn encode(self) -> SmallVec<[u8; 16]> {
        let mut data = SmallVec::new();
        data.extend_from_slice(&self.references.to_le_bytes());
        data.extend_from_slice(&self.size.to_le_bytes());
        if self.flags != 0 {
            data.push(self.flags);
        }
        data
    }

    /// Returns true if the chunks are encrypted.
    pub const fn is_encrypted(self) -> bool {
        self.flags & 1 != 0
    }

    /// Returns the uncompressed length of the chunk at `offset`, or 0 beyond the end of the value.
    pub fn chunk_len(self, offset: u32, chunk_size: usize) -> usize {
        chunk_size.min(self.size.saturating_sub(offset) as usize)
    }
}

/// Returns the default chunk size in bytes, which yields one chunk per small page and four per large page. It applies
/// unless the table's `LVChunkMax` is set.
#[doc(alias = "LVChunkMost")]
pub const fn chunk_size(size: PageSize) -> usize {
    match size.get() {
        16384 => 4050,
        32768 => 8150,
        small => small as usize - 82,
    }
}

/// Returns the uncompressed bytes of a stored chunk, whose length must be `expected`.
///
/// # Errors
/// Returns an error if the chunk cannot be decompressed or has a different length.
pub fn decode_chunk(stored: &[u8], expected: usize) -> Result<std::borrow::Cow<'_, [u8]>, CompressionError> {
    if stored.len() == expected {
        return Ok(stored.into());
    }
    let plain = compression::decompress(stored, expected)?;
    if plain.len() == expected {
        Ok(plain.into())
    } else {
        Err(CompressionError::WrongLength { expected, found: plain.len() })
    }
}

/// Returns the bytes to store for a chunk. Compresses a chunk only if common readers would otherwise mistake it for
/// compressed data.
///
/// libesedb decompresses every chunk that starts with 0x18. dissect.esedb tries to decompress every chunk from the
/// third on, and fails or returns wrong data if the first byte is in 0x08..=0x1F or 0x28..=0x37. If compression does
/// not make such a chunk smaller, the chunk is stored uncompressed, which is valid.
pub fn encode_chunk(plain: &[u8], index: usize) -> std::borrow::Cow<'_, [u8]> {
    let misread = match plain.first() {
        Some(0x18) => true,
        Some(0x08..=0x1f | 0x28..=0x37) => index >= 2,
        _ => false,
    };
    match misread.then(|| compression::compress_xpress(plain)).flatten() {
        Some(compressed) => compressed.into(),
        None => plain.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::borrow::Cow;

    #[test]
    fn keys_and_roots_of_a_real_value() {
        let id = LongValueId::from_record(&[5, 0, 0, 0]).unwrap();
        assert_eq!(id.root_key()[..], [0, 0, 0, 5]);
        assert_eq!(id.chunk_key(0x1000)[..], [0, 0, 0, 5, 0, 0, 0x10, 0]);
        assert_eq!(LongValueKey::decode(&[0, 0, 0, 5]), Some(LongValueKey::Root(id)));
        assert_eq!(LongValueKey::decode(&id.chunk_key(7)), Some(LongValueKey::Chunk(id, 7)));
        let root = LongValueRoot::decode(&[1, 0, 0, 0, 0x6c, 7, 0, 0]).unwrap();
        assert_eq!(root, LongValueRoot::new(1900));
        assert_eq!(
            (root.chunk_len(0, 4014), root.chunk_len(1800, 4014), root.chunk_len(4014, 4014)),
            (1900, 100, 0)
        );
    }

    #[test]
    fn wide_ids_keep_the_wide_encoding() {
        let id = LongValueId(WIDE | 3);

        let record = id.to_record();
        assert_eq!(record[..], [3, 0, 0, 0, 0, 0, 0, 0x80]);
        assert_eq!(LongValueId::from_record(&record), Some(id));
        assert_eq!(LongValueKey::decode(&id.root_key()), Some(LongValueKey::Root(id)));
        assert_eq!(LongValueKey::decode(&id.chunk_key(9)), Some(LongValueKey::Chunk(id, 9)));
        assert!(id.next().is_wide());
        assert_eq!(LongValueId::from_record(&[3, 0, 0, 0, 0, 0, 0, 0]), None);
    }

    #[test]
    fn damaged_nodes_are_rejected() {
        for len in [0, 1, 3, 5, 6, 7, 9, 13] {
            assert_eq!(LongValueKey::decode(&vec![1; len]), None, "{len}");
        }
        assert_eq!(LongValueRoot::decode(&[0; 7]), None);
        assert_eq!(LongValueRoot::decode(&[0; 10]), None);
        assert_eq!(decode_chunk(&[0, 1, 2], 5).unwrap_err(), CompressionError::Unsupported(0));
        let wrong = CompressionError::WrongLength { expected: 6, found: 1 };
        assert_eq!(decode_chunk(&[7 << 3, 1, 0, 0x10, 9], 6).unwrap_err(), wrong);
    }

    #[test]
    fn ambiguous_chunks_are_compressed_when_compression_saves_space() {
        let chunk = |first| [&[first][..], &[7; 500]].concat();
        for (first, index, compressed) in [
            (0x18, 0, true),
            (0x08, 1, false),
            (0x08, 2, true),
            (0x37, 5, true),
            (0x38, 5, false),
            (0x20, 2, false),
        ] {
            let plain = chunk(first);
            let stored = encode_chunk(&plain, index);
            assert_eq!(matches!(stored, Cow::Owned(_)), compressed, "{first:#x} in chunk {index}");
            assert_eq!(decode_chunk(&stored, plain.len()).unwrap(), plain);
        }
        assert_eq!(*encode_chunk(&[0x18, 1, 2, 3], 0), [0x18, 1, 2, 3], "does not shrink");
    }

    #[test]
    fn chunk_sizes() {
        let sizes = [2048, 4096, 8192, 16384, 32768].map(|bytes| chunk_size(PageSize::new(bytes).unwrap()));
        assert_eq!(sizes, [1966, 4014, 8110, 4050, 8150]);
    }
}
