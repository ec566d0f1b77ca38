//! Exclusive file locks, effective within this process and against other processes.
//!
//! The lock is acquired with flock, and the kernel releases it when the process ends. Some network file systems
//! implement flock with a lock that does not conflict within a process, so the locks of this process are also kept in
//! a table. Block devices are additionally opened with `O_EXCL`. Programs that do not use flock, such as mount, mkfs,
//! mdadm and LVM, respect this flag.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use jetcell_sync::Mutex;
use rustix::fs::{CWD, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::confinement::ResolvedPath;
use crate::file_ownership::{NEW_FILE, not_a_file_error};
use crate::{Clock, DirectoryLock};

/// Device and inode of every file locked by this process.
static HELD: Mutex<BTreeSet<(u64, u64)>> = Mutex::new(BTreeSet::new());

/// Time during which locking a busy block device is retried. Some uses are short-lived: udev briefly locks a device
/// after a writer has closed it, and a forked process keeps its parent's claims until it executes its program.
const DEVICE_LOCK_TIMEOUT: Duration = Duration::from_millis(500);

/// Maximum number of attempts to create a lock file that another process creates and removes concurrently.
const CREATIONS: usize = 100;

pub(crate) struct FileLock {
    file: Option<OwnedFd>,
    identity: (u64, u64),
}

impl FileLock {
    /// Locks a file or block device. Waits up to `DEVICE_LOCK_TIMEOUT` for a block device. For a file, fails
    /// immediately if the lock is held.
    pub fn acquire(at: &ResolvedPath<'_>, clock: &dyn Clock) -> io::Result<FileLock> {
        let until =
            clock.monotonic() + if is_block_device(at) { DEVICE_LOCK_TIMEOUT } else { Duration::ZERO };
        loop {
            match FileLock::acquire_now(at) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && clock.monotonic() < until => {
                    clock.sleep(Duration::from_millis(10));
                }
                result => return result,
            }
        }
    }

    fn acquire_now(at: &ResolvedPath<'_>) -> io::Result<FileLock> {
        let file = open(at)?;
        let stat = rustix::fs::fstat(&file)?;
        let is_usual =
            matches!(FileType::from_raw_mode(stat.st_mode), FileType::RegularFile | FileType::Directory);
        if at.refuses_links() && !is_usual {
            return Err(not_a_file_error("a special file"));
        }
        let identity = (stat.st_dev, stat.st_ino);
        let mut held = HELD.lock();
        if held.contains(&identity) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            // Some network file systems lock only files that are open for writing. Locks within this process still
            // exclude each other.
            Err(Errno::BADF | Errno::OPNOTSUPP | Errno::INVAL) if is_directory => {}
            locked => locked?,
        }
        held.insert(identity);
        Ok(FileLock { file: Some(file), identity })
    }
}

impl DirectoryLock for FileLock {}

fn is_block_device(at: &ResolvedPath<'_>) -> bool {
    at.file_type().is_ok_and(|found| found == FileType::BlockDevice)
}

/// Opens a file, and creates it if it is missing. Does not follow a link to create it.
///
/// A block device is claimed. While it is open, the kernel refuses to mount it, to make it part of another device, or
/// to let other programs claim it. If the device is already mounted or claimed, this fails with
/// [`io::ErrorKind::WouldBlock`].
fn open(at: &ResolvedPath<'_>) -> io::Result<OwnedFd> {
    // Without NONBLOCK, opening a pipe would wait until its other end is opened.
    let open = |flags| at.open(flags | OFlags::NONBLOCK, NEW_FILE);
    let is_device = is_block_device(at);
    // O_EXCL claims a device. Together with O_CREAT, it refuses any existing path, including a link.
    let claim = if is_device { OFlags::EXCL } else { OFlags::empty() };
    let existing = || match open(OFlags::RDWR | claim) {
        // A read-only file can still be locked, and so can a directory.
        Err(Errno::ACCESS | Errno::ROFS | Errno::PERM | Errno::ISDIR) => open(OFlags::RDONLY | claim),
        other => other,
    };
    let mut opened = existing();
    // Another process may create or remove the file between the two calls.
    for _ in 0..CREATIONS {
        if !matches!(opened, Err(Errno::NOENT)) {
            break;
        }
        opened = match open(OFlags::RDWR | OFlags::CREATE | OFlags::EXCL) {
            Err(Errno::EXIST) => existing(),
            created => created,
        };
    }
    opened.map_err(|error| match error {
        Errno::NOENT if at.is_link() => not_a_file_error("a link to a file that does not exist"),
        Errno::BUSY if is_device => io::ErrorKind::WouldBlock.into(),
        other => at.to_io_error(other),
    })
}

/// Locks an open file until it is closed. Returns `false` if another open file has the lock.
pub fn try_lock_open(file: &File) -> io::Result<bool> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => Ok(false),
        locked => locked.map(|()| true).map_err(io::Error::from),
    }
}

/// Returns true if this or another process holds the lock on a file. Does not create or change anything. A missing
/// file counts as not locked.
///
/// # Errors
/// Returns an error if the file cannot be opened.
pub fn is_locked(path: &Path) -> io::Result<bool> {
    // Without NONBLOCK, opening a pipe would wait until its other end is opened.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(CWD, path, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(false),
        other => other?,
    };
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) {
        Err(Errno::WOULDBLOCK) => Ok(true),
        // `Err`: the file system does not support locks.
        Err(_) | Ok(()) => Ok(false),
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // The table stays locked until both the file lock and its entry are released. Other threads therefore never
        // see only one of them released.
        let mut held = HELD.lock();
        if let Some(file) = self.file.take() {
            // If the file were only closed, a process that was forked from this one and has not executed a program
            // yet would keep the lock.
            let _ = rustix::fs::flock(&file, FlockOperation::Unlock);
        }
        held.remove(&self.identity);
    }
}
