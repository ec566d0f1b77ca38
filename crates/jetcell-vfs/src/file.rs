//! Interfaces for files, file systems and clocks.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jetcell_sync::Arc;

use crate::IoBuffer;
use crate::path_names::fixed_unfinished_path;

/// Reason for a file I/O operation. Counters, throttles and fault injection distinguish transfers by reason. ESE:
/// `iorp`.
#[doc(alias = "iorp")]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum IoReason {
    /// A page that a session needs now.
    DatabaseRead,
    /// A page that is read ahead.
    Preread,
    /// A dirty page written to advance the checkpoint.
    CheckpointWrite,
    /// A dirty page written to make its frame available.
    EvictionWrite,
    /// A database header or its shadow.
    DatabaseHeader,
    /// Growth of a database file.
    DatabaseExtend,
    /// Log records.
    LogWrite,
    /// Preparation of a log file, or a log header.
    LogFormat,
    /// Log reads by recovery, shipping or verification.
    LogRead,
    /// The checkpoint file.
    CheckpointFile,
    /// Background checksum scan.
    Scan,
    /// Verification after a run, or an offline check.
    Verify,
    /// Backup and restore.
    Backup,
    /// New pages of a bulk load, and the sorted runs that it creates.
    BulkLoad,
    /// Anything else.
    Other,
}

impl IoReason {
    /// All reasons, in declaration order; `reason as usize` indexes tables of this length.
    pub const ALL: [IoReason; 15] = [
        IoReason::DatabaseRead,
        IoReason::Preread,
        IoReason::CheckpointWrite,
        IoReason::EvictionWrite,
        IoReason::DatabaseHeader,
        IoReason::DatabaseExtend,
        IoReason::LogWrite,
        IoReason::LogFormat,
        IoReason::LogRead,
        IoReason::CheckpointFile,
        IoReason::Scan,
        IoReason::Verify,
        IoReason::Backup,
        IoReason::BulkLoad,
        IoReason::Other,
    ];
}

/// The mode in which a file is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpenMode {
    /// Read-only. The file must exist.
    Read,
    /// Read and write. The file must exist.
    Write,
    /// Read and write a file, for directories in which other users can create files. Refuses files that another user
    /// could have prepared.
    ///
    /// The file must be a regular file with exactly one name and must not be a symbolic link. Its owner must be this
    /// user or the owner of its directory. Other files are refused with `InvalidInput`.
    WriteOwn,
    /// Create a file. The path must not exist, not even as a link. Only the user can read and write the new file.
    CreateNew,
}

/// Direction of an asynchronous file transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TransferKind {
    /// From file to buffer.
    Read,
    /// From buffer to file.
    Write,
}

/// An asynchronous file transfer of a whole buffer.
///
/// `done` is called exactly once and receives the buffer. A file may retain a write buffer instead of copying it. In
/// that case, `done` receives a different buffer with the same length and capacity, and arbitrary contents.
pub struct Transfer {
    /// Direction of the transfer.
    pub kind: TransferKind,
    /// File offset in bytes, a multiple of 4096.
    pub offset: u64,
    /// Buffer whose length is a multiple of 4096.
    pub buffer: IoBuffer,
    /// Reason for the transfer, used by counters.
    pub reason: IoReason,
    /// Completion callback. Called once, from a completion thread, or inside `submit` for simulated files and in the
    /// fallback engine. A short transfer is an error. Must not block on I/O.
    pub done: Box<dyn FnOnce(io::Result<()>, IoBuffer) + Send>,
}

/// Interface to an open file. Offsets and lengths of all transfers are multiples of 4096 and buffers come
/// from [`IoBuffer`], because production files are opened with `O_DIRECT`.
#[expect(clippy::len_without_is_empty, reason = "asking for a length is a system call that can fail")]
pub trait File: Send + Sync {
    /// Returns the path with which the file was opened, for messages.
    fn path(&self) -> &Path;
    /// Fills `buffer` from `offset`. Reading past the end is an `UnexpectedEof` error.
    fn read_at(&self, offset: u64, buffer: &mut [u8], reason: IoReason) -> io::Result<()>;
    /// Writes all of `data`. The data is durable only after [`File::sync`].
    fn write_at(&self, offset: u64, data: &[u8], reason: IoReason) -> io::Result<()>;
    /// Writes all of `data` durably: when this returns, the data survives power loss. Counted as one operation.
    fn write_durable(&self, offset: u64, data: &[u8], reason: IoReason) -> io::Result<()> {
        self.write_at(offset, data, reason)?;
        self.sync(reason)
    }
    /// Like [`File::write_durable`], for data in several parts that are written contiguously.
    fn write_parts_durable(&self, offset: u64, parts: &[&[u8]], reason: IoReason) -> io::Result<()> {
        let mut whole = IoBuffer::zeroed(parts.iter().map(|part| part.len()).sum());
        let mut rest = &mut whole[..];
        for part in parts {
            let (place, behind) = rest.split_at_mut(part.len());
            place.copy_from_slice(part);
            rest = behind;
        }
        self.write_durable(offset, &whole, reason)
    }
    /// Starts a batch of transfers with as few system calls as possible and returns. Completions are reported through
    /// [`Transfer::done`]. The caller must not hold a lock that `done` acquires.
    fn submit(&self, batch: Vec<Transfer>);
    /// Makes all previous writes and the file length survive power loss (fdatasync).
    fn sync(&self, reason: IoReason) -> io::Result<()>;
    /// Returns the size in bytes of the smallest transfer that bypasses the kernel's cache. The result is less than
    /// 4096 only if a smaller size was requested when the file system was opened. The file must already contain
    /// written data.
    fn smallest_transfer(&self) -> usize {
        IoBuffer::ALIGNMENT
    }
    /// Returns the length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Returns the offset of the first data at or after `offset`, or the length of the file if only a hole follows. A
    /// file system that does not know its holes returns `offset`.
    fn next_data(&self, offset: u64) -> io::Result<u64> {
        Ok(offset)
    }
    /// Grows the file to `len` bytes with allocated space that reads as zeros. If an error occurs, such as a full
    /// disk, the length is unchanged.
    fn grow(&self, len: u64) -> io::Result<()>;
    /// Truncates the file to `len`.
    fn truncate(&self, len: u64) -> io::Result<()>;
    /// Returns the blocks of a range to the file system. The range then reads as zeros, and the length does not
    /// change.
    ///
    /// The change is durable after [`File::sync`]. A call for a range past the end of the file has no effect, so
    /// callers can use it to test whether holes are supported.
    ///
    /// Fails with `Unsupported` if the file system does not support holes.
    #[doc(alias = "FALLOC_FL_PUNCH_HOLE")]
    fn punch_hole(&self, offset: u64, len: u64) -> io::Result<()> {
        let _ = (offset, len);
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Allocates blocks for the holes in a range, so later writes to the range do not fail for lack of space. The
    /// content does not change.
    fn reserve(&self, offset: u64, len: u64) -> io::Result<()> {
        let _ = (offset, len);
        Ok(())
    }
}

/// A held lock on a directory or file. Dropping it releases the lock.
pub trait DirectoryLock: Send + Sync {}

/// Lock on a directory in a file system without mutual exclusion.
struct NoLock;

impl DirectoryLock for NoLock {}

/// Interface to a file system, real or simulated.
pub trait Vfs: Send + Sync {
    /// Opens a file, with `O_DIRECT` if the file system supports it.
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>>;
    /// Returns true if the path exists. Fails if that cannot be determined, for example because a directory is not
    /// accessible.
    fn exists(&self, path: &Path) -> io::Result<bool>;
    /// Returns true if the path itself is a regular file and not a symbolic link to one. File systems without links
    /// need not implement this method.
    fn is_regular_file(&self, path: &Path) -> io::Result<bool> {
        self.exists(path)
    }
    /// Returns true if paths in `directory` lead only to regular files and directories in it, and links in such paths
    /// are refused. File systems that do not confine paths return `false`.
    fn is_confined(&self, directory: &Path) -> bool {
        let _ = directory;
        false
    }
    /// Returns a path in the same directory for a temporary file, which is renamed to `path` when it is complete.
    ///
    /// Concurrent calls return different paths. On a file system shared by several processes, this includes calls
    /// from other processes.
    fn unfinished_path(&self, path: &Path) -> PathBuf {
        fixed_unfinished_path(path)
    }
    /// Returns the length of a file in bytes.
    fn file_len(&self, path: &Path) -> io::Result<u64> {
        self.open(path, OpenMode::Read)?.len()
    }
    /// Removes a file. The removal is durable after `sync_directory`.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Renames a file atomically, replacing the target. The rename is durable after `sync_directory`.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Makes creations, renames and removals in `directory` durable.
    fn sync_directory(&self, directory: &Path) -> io::Result<()>;
    /// Creates a directory and its parents. Only the user can read the new directories.
    fn create_directory(&self, directory: &Path) -> io::Result<()>;
    /// Returns the paths of the regular files in `directory`, sorted by name.
    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>>;
    /// Returns the number of free bytes available to this process on the volume that contains `path`.
    fn free_space(&self, path: &Path) -> io::Result<u64>;
    /// Acquires an exclusive lock on `path` (a lock file, created if missing, or the database itself). Fails with
    /// `WouldBlock` if another instance in any process holds it.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn DirectoryLock>>;
    /// Acquires an exclusive lock on an existing directory. Fails with `WouldBlock` if another caller in any process
    /// holds it. A file system that no other process uses need not implement exclusion.
    fn lock_directory(&self, directory: &Path) -> io::Result<Box<dyn DirectoryLock>> {
        let _ = directory;
        Ok(Box::new(NoLock))
    }
    /// Creates `to` with the current content of `from` by sharing its blocks, which takes almost no time or space.
    /// The new file is durable after a sync of the file and of its directory.
    ///
    /// Fails with `Unsupported` if the file system cannot share blocks, and with `CrossesDevices` if the paths are on
    /// different file systems. After an error the file `to` does not exist, unless it existed before.
    fn clone_file(&self, from: &Path, to: &Path) -> io::Result<()> {
        let _ = (from, to);
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Creates a hard link `to` to the file `from`. `to` must not exist. The link is durable after `sync_directory`.
    ///
    /// Fails with `Unsupported` if the file system does not support links, and with `CrossesDevices` if the paths are
    /// on different file systems.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let _ = (from, to);
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Returns true if two paths lead to the same file.
    fn same_file(&self, one: &Path, other: &Path) -> bool {
        one == other
    }
    /// Syncs files, concurrently if the file system supports it. Returns the results in the order of `files`.
    fn sync_files(&self, files: &[&dyn File], reason: IoReason) -> Vec<io::Result<()>> {
        files.iter().map(|file| file.sync(reason)).collect()
    }
    /// Returns the clock of this file system.
    fn clock(&self) -> Arc<dyn Clock>;
}

/// Returns true if the error means that a file on another host is currently unreachable. Such an error says nothing
/// about the file itself, and the same call may succeed later.
pub fn is_disconnected(kind: io::ErrorKind) -> bool {
    kind == io::ErrorKind::NotConnected
}

/// Interface to a clock, real or simulated.
pub trait Clock: Send + Sync {
    /// Returns the current time in milliseconds since 1970 UTC.
    fn unix_ms(&self) -> i64;
    /// Returns the monotonic time since an arbitrary starting point.
    fn monotonic(&self) -> Duration;
    /// Pauses the calling thread. A simulated clock advances instead.
    fn sleep(&self, duration: Duration);
}
