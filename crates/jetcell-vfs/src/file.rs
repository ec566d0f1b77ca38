//! The interface: what a file, a directory tree and a clock must be able to do.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jetcell_sync::Arc;

use crate::IoBuffer;
use crate::path_names::{UNFINISHED, with_ending};

/// Why a transfer happens. Counters, throttles and fault injection distinguish transfers by it. ESE: `iorp`.
#[doc(alias = "iorp")]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum IoReason {
    /// A page that a session needs now.
    DatabaseRead,
    /// A page read ahead of need.
    Preread,
    /// Dirty page written to advance the checkpoint.
    CheckpointWrite,
    /// Dirty page written to make its frame available.
    EvictionWrite,
    /// Database header and its shadow.
    DatabaseHeader,
    /// Growing a database file.
    DatabaseExtend,
    /// Log records.
    LogWrite,
    /// Preparing or heading a log file.
    LogFormat,
    /// Log read by recovery, shipping or verification.
    LogRead,
    /// The checkpoint file.
    CheckpointFile,
    /// Background checksum scan.
    Scan,
    /// Verification after a run, or an offline check.
    Verify,
    /// Backup and restore.
    Backup,
    /// New pages of a bulk load, and the runs of its sorts.
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

/// How to open a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpenMode {
    /// Must exist; never written.
    Read,
    /// Must exist.
    Write,
    /// Must exist, as a regular file with one name, which is not a symbolic link, and of this user or of the owner of its directory.
    /// Other files are refused with `InvalidInput`. For directories in which other users can create files.
    WriteOwn,
    /// Must not exist, not even as a link. Only the user reads and writes the new file.
    CreateNew,
}

/// Direction of an asynchronous transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TransferKind {
    /// File to buffer.
    Read,
    /// Buffer to file.
    Write,
}

/// One asynchronous transfer of a whole buffer. `done` is called exactly once and receives the buffer. A file may keep the buffer of a
/// write instead of copying it. `done` then receives another one of the same length and capacity, with any content.
pub struct Transfer {
    /// Direction.
    pub kind: TransferKind,
    /// File offset in bytes, a multiple of 4096.
    pub offset: u64,
    /// Length a multiple of 4096.
    pub buffer: IoBuffer,
    /// For counters.
    pub reason: IoReason,
    /// Called once, from a completion thread or (simulated files, fallback) inside `submit`.
    /// A short transfer is an error. Must not block on I/O.
    pub done: Box<dyn FnOnce(io::Result<()>, IoBuffer) + Send>,
}

/// An open file. Offsets and lengths of all transfers are multiples of 4096 and buffers come from [`IoBuffer`],
/// because production files are opened with O_DIRECT.
#[expect(clippy::len_without_is_empty, reason = "asking for a length is a system call that can fail")]
pub trait File: Send + Sync {
    /// The path it was opened by, for messages.
    fn path(&self) -> &Path;
    /// Fills `buffer` from `offset`; reading past the end is `UnexpectedEof`.
    fn read_at(&self, offset: u64, buffer: &mut [u8], reason: IoReason) -> io::Result<()>;
    /// Writes all of `data`; durable only after [`File::sync`].
    fn write_at(&self, offset: u64, data: &[u8], reason: IoReason) -> io::Result<()>;
    /// Writes all of `data` and returns when it survives power loss. Counters count one operation.
    fn write_durable(&self, offset: u64, data: &[u8], reason: IoReason) -> io::Result<()> {
        self.write_at(offset, data, reason)?;
        self.sync(reason)
    }
    /// The same for data in several parts, which follow each other in the file.
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
    /// Starts a batch of transfers with as few system calls as possible and returns; completions come through
    /// [`Transfer::done`]. Callers hold no lock that `done` takes.
    fn submit(&self, batch: Vec<Transfer>);
    /// Everything written (and the length) survives power loss once this returns (fdatasync).
    fn sync(&self, reason: IoReason) -> io::Result<()>;
    /// The smallest transfer that bypasses the kernel's cache, in bytes. A file says less than 4096 only if that was asked for when
    /// its file system was opened; the content must have been written.
    fn smallest_transfer(&self) -> usize {
        IoBuffer::ALIGNMENT
    }
    /// Length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Grows to `len` with allocated space that reads as zeros. On error (disk full) the length is as before.
    fn grow(&self, len: u64) -> io::Result<()>;
    /// Cuts to `len`.
    fn truncate(&self, len: u64) -> io::Result<()>;
    /// Returns the blocks of a range to the file system; the range reads as zeros, and the length stays. Durable after
    /// [`File::sync`]. Does nothing behind the end of the file, so that a caller can ask for an error beforehand.
    ///
    /// Errors: the file system cannot do that (`Unsupported`).
    #[doc(alias = "FALLOC_FL_PUNCH_HOLE")]
    fn punch_hole(&self, offset: u64, len: u64) -> io::Result<()> {
        let _ = (offset, len);
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Gives the holes in a range blocks again, so that writes to it do not fail for lack of space. The content stays.
    fn reserve(&self, offset: u64, len: u64) -> io::Result<()> {
        let _ = (offset, len);
        Ok(())
    }
}

/// Held while this process uses a directory or file; dropping it releases the lock.
pub trait DirectoryLock: Send + Sync {}

/// The lock of a directory in a file system that does not exclude others.
struct Unlocked;

impl DirectoryLock for Unlocked {}

/// A file system: the real one, or a simulated one.
pub trait Vfs: Send + Sync {
    /// Opens a file, with O_DIRECT where the file system can.
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>>;
    /// Whether the path exists. Fails when that cannot be found out, for example without access to a directory.
    fn exists(&self, path: &Path) -> io::Result<bool>;
    /// Whether the path is a regular file itself, and no symbolic link to one. A file system without links need not say.
    fn is_own_file(&self, path: &Path) -> io::Result<bool> {
        self.exists(path)
    }
    /// Whether paths in a directory lead only to regular files and directories in it, and links in them are refused. A file system
    /// that does not confine paths says `false`.
    fn confines(&self, directory: &Path) -> bool {
        let _ = directory;
        false
    }
    /// A path for a file that gets the name `path` when it is finished, in the same directory. Concurrent calls, also of other
    /// processes, get different ones if the file system is shared with other processes.
    fn unfinished_path(&self, path: &Path) -> PathBuf {
        with_ending(path, UNFINISHED)
    }
    /// Length of a file in bytes.
    fn file_len(&self, path: &Path) -> io::Result<u64> {
        self.open(path, OpenMode::Read)?.len()
    }
    /// Removes a file; durable after `sync_directory`.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Renames atomically, replacing the target; durable after `sync_directory`.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Makes creations, renames and removals in `directory` durable.
    fn sync_directory(&self, directory: &Path) -> io::Result<()>;
    /// Creates a directory and its parents. Only the user reads new ones.
    fn create_directory(&self, directory: &Path) -> io::Result<()>;
    /// Paths of the regular files in `directory`, sorted by name.
    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>>;
    /// Bytes free for this process on the volume of `path`.
    fn free_space(&self, path: &Path) -> io::Result<u64>;
    /// Exclusive lock on `path` (a lock file, created if missing, or the database itself). `WouldBlock` when
    /// another instance, of this or another process, holds it.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn DirectoryLock>>;
    /// Exclusive lock on a directory itself, which exists. `WouldBlock` when another caller, of this or another process, holds it. A file
    /// system that no other process uses need not exclude others.
    fn lock_directory(&self, directory: &Path) -> io::Result<Box<dyn DirectoryLock>> {
        let _ = directory;
        Ok(Box::new(Unlocked))
    }
    /// Creates `to` with the content that `from` has now, sharing its blocks, so that it takes no time and no space.
    /// Durable after a sync of the file and of its directory.
    ///
    /// Errors: the file system cannot share blocks (`Unsupported`), or the paths are on different ones
    /// (`CrossesDevices`). After an error there is no file `to`, unless there was one before.
    fn clone_file(&self, from: &Path, to: &Path) -> io::Result<()> {
        let _ = (from, to);
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Gives a file one more name, which must not exist; durable after `sync_directory`.
    ///
    /// Errors: the file system has no links (`Unsupported`), or the paths are on different ones (`CrossesDevices`).
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let _ = (from, to);
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Whether two paths lead to the same file.
    fn same_file(&self, one: &Path, other: &Path) -> bool {
        one == other
    }
    /// Syncs files, at the same time if the file system can. Results are in the order of the files.
    fn sync_files(&self, files: &[&dyn File], reason: IoReason) -> Vec<io::Result<()>> {
        files.iter().map(|file| file.sync(reason)).collect()
    }
    /// The clock of this file system.
    fn clock(&self) -> Arc<dyn Clock>;
}

/// Whether a file cannot be reached now because it is on another host. Nothing is said about the file then, so that the same call
/// may succeed later.
pub fn is_out_of_reach(kind: io::ErrorKind) -> bool {
    kind == io::ErrorKind::NotConnected
}

/// Time, real or simulated.
pub trait Clock: Send + Sync {
    /// Milliseconds since 1970 UTC.
    fn unix_ms(&self) -> i64;
    /// Monotonic time since an arbitrary start.
    fn monotonic(&self) -> Duration;
    /// Pauses the calling thread (simulated: advances the clock).
    fn sleep(&self, duration: Duration);
}
