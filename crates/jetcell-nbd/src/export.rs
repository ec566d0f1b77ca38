//! Interface of the block devices that the server exports.

use std::io;

/// One read in a batch of block device reads.
#[derive(Debug)]
pub struct ExportRead<'buffer> {
    /// Offset of the first byte.
    pub offset: u64,
    /// Buffer that the read fills.
    pub buffer: &'buffer mut [u8],
}

/// A byte range on a block device whose allocation state is uniform.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AllocationExtent {
    /// Length in bytes.
    pub length: u64,
    /// Whether nothing is stored for the range. Such a range reads as zeros.
    pub is_hole: bool,
}

/// Interface to a block device that is exported over NBD. Connections call it concurrently from many threads.
/// Ranges passed to it are never empty, and do not exceed its size.
///
/// Errors are converted to protocol error numbers: [`io::ErrorKind::StorageFull`] to ENOSPC,
/// [`io::ErrorKind::Unsupported`] to ENOTSUP, [`io::ErrorKind::InvalidInput`] to EINVAL, and all others to EIO.
pub trait BlockExport: Send + Sync {
    /// Returns the size in bytes. It must not change while the export is served.
    fn size(&self) -> u64;

    /// Returns a human-readable description.
    fn description(&self) -> String;

    /// Returns the smallest transfer size in bytes that does not cause additional reads or writes. It is a power of
    /// two.
    fn preferred_block(&self) -> u32;

    /// Returns true if writes are refused.
    fn is_read_only(&self) -> bool;

    /// Returns true if [`BlockExport::trim`] frees space.
    fn can_trim(&self) -> bool;

    /// Reads the whole batch, or fails.
    ///
    /// # Errors
    /// Returns an error if one of the ranges cannot be read.
    fn read(&self, batch: &mut [ExportRead<'_>]) -> io::Result<()>;

    /// Writes bytes. All later reads on any connection return the new bytes. The bytes are durable after the next
    /// [`BlockExport::flush`].
    ///
    /// # Errors
    /// Returns an error if the bytes cannot be written.
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()>;

    /// Writes zeros. If `may_free` is set, the range may be deallocated instead.
    ///
    /// # Errors
    /// Returns [`io::ErrorKind::Unsupported`] if `only_fast` is set and writing zeros would take as long as a normal
    /// write. In this case, nothing was changed.
    fn zero(&self, offset: u64, length: u64, may_free: bool, only_fast: bool) -> io::Result<()>;

    /// Discards the content of a range, which may then have any content.
    ///
    /// # Errors
    /// Returns an error if the range cannot be freed.
    fn trim(&self, offset: u64, length: u64) -> io::Result<()>;

    /// Makes all previous writes durable, including those of other connections.
    ///
    /// # Errors
    /// Returns an error if the writes did not become durable.
    fn flush(&self) -> io::Result<()>;

    /// Returns the allocation states within a range, starting at its beginning. There is at least one extent, and
    /// none is empty. The extents need not cover the entire range.
    ///
    /// # Errors
    /// Returns an error if the state cannot be read.
    fn extents(&self, offset: u64, length: u64) -> io::Result<Vec<AllocationExtent>>;
}
