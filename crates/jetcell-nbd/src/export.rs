//! What is served: a range of bytes.

use std::io;

/// A read of a batch.
#[derive(Debug)]
pub struct Read<'buffer> {
    /// First byte.
    pub offset: u64,
    /// Filled by the read.
    pub buffer: &'buffer mut [u8],
}

/// Bytes that are all in one state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// Number of bytes.
    pub length: u64,
    /// Nothing is stored for them, and they read as zeros.
    pub is_hole: bool,
}

/// A block device. Connections call it from many threads at once. Ranges are within its size, and never empty.
///
/// Errors become numbers of the protocol: [`io::ErrorKind::StorageFull`] is ENOSPC, [`io::ErrorKind::Unsupported`] ENOTSUP,
/// [`io::ErrorKind::InvalidInput`] EINVAL, and all others EIO.
pub trait Export: Send + Sync {
    /// Bytes. It must not change while the export is served.
    fn size(&self) -> u64;

    /// What it is, for people.
    fn description(&self) -> String;

    /// Bytes of a transfer that needs no more than itself: a power of two.
    fn preferred_block(&self) -> u32;

    /// Whether writes are refused.
    fn is_read_only(&self) -> bool;

    /// Whether [`Export::trim`] frees anything.
    fn can_trim(&self) -> bool;

    /// Reads all of the batch, or fails.
    ///
    /// # Errors
    /// One of them cannot be read.
    fn read(&self, batch: &mut [Read<'_>]) -> io::Result<()>;

    /// Writes. Every later read, of any connection, has the new bytes; they are durable after the next [`Export::flush`].
    ///
    /// # Errors
    /// The bytes cannot be written.
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()>;

    /// Writes zeros. `may_free`: nothing needs to be stored for them.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] if `only_fast`, and it would take as long as a write. Nothing was changed then.
    fn zero(&self, offset: u64, length: u64, may_free: bool, only_fast: bool) -> io::Result<()>;

    /// The content of the range is not needed any more. It may read as anything afterwards.
    ///
    /// # Errors
    /// The range cannot be freed.
    fn trim(&self, offset: u64, length: u64) -> io::Result<()>;

    /// Makes durable what was written before, by any connection.
    ///
    /// # Errors
    /// It did not become durable.
    fn flush(&self) -> io::Result<()>;

    /// The states of a range from its beginning: at least one extent, none empty, and possibly not to the end of the range.
    ///
    /// # Errors
    /// The state cannot be read.
    fn extents(&self, offset: u64, length: u64) -> io::Result<Vec<Extent>>;
}
