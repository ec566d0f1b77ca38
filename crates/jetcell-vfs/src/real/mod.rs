//! The machine's file system.
//!
//! Invariants: creations, removals and renames are durable only after `sync_directory`, except that new directories
//! are durable immediately; a failed `grow` does not change the length. This module does not cache file contents.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use jetcell_sync::Arc;
use rustix::fs::{AtFlags, CWD, FallocateFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::backend_choice::Backend;
use crate::confinement::{Confinement, ResolvedPath};
use crate::descriptor::{Descriptor, set_direct};
use crate::engine::TransferEngine;
use crate::lock::FileLock;
use crate::output_file::create_private_directory;
use crate::replaced_file::unique_unfinished;
use crate::retry::retry;
use crate::{Clock, DirectoryLock, File, IoBuffer, IoReason, OpenMode, RealClock, Transfer, Vfs};

/// Smallest block size of any supported device, in bytes.
const SECTOR: usize = 512;
/// Size in bytes of each write of zeros, on file systems that cannot reserve space.
const ZEROS: usize = 1 << 20;

/// Options for accessing the machine's file system.
#[derive(Clone, Copy, Debug)]
pub struct RealOptions {
    /// Engine that runs asynchronous transfers.
    pub backend: Backend,
    /// Bypass the kernel's cache if the file system supports it.
    pub direct: bool,
}

impl Default for RealOptions {
    fn default() -> RealOptions {
        RealOptions { backend: Backend::Auto, direct: true }
    }
}

/// The machine's file system.
pub struct RealVfs {
    engine: Arc<dyn TransferEngine>,
    direct: bool,
    smallest_transfer: usize,
    confinement: Confinement,
    clock: Arc<RealClock>,
}

impl RealVfs {
    /// Creates the file system and starts the threads that run transfers. Fails if they cannot start, or if
    /// `io_uring` was requested and the kernel refuses it.
    pub fn new(options: RealOptions) -> io::Result<RealVfs> {
        let engine = options.backend.start()?;
        let smallest_transfer = IoBuffer::ALIGNMENT;
        let (direct, confinement) = (options.direct, Confinement::default());
        Ok(RealVfs { engine, direct, smallest_transfer, confinement, clock: Arc::new(RealClock::new()) })
    }

    /// Confines paths in a directory, which need not exist yet. Symbolic links in the directory are refused instead
    /// of followed, and only regular files are opened. Paths outside the directory are not affected.
    ///
    /// # Errors
    /// Returns an error if the directory's path cannot be resolved.
    pub fn confined_to(mut self, directory: &Path) -> io::Result<RealVfs> {
        self.confinement.add(directory)?;
        Ok(self)
    }

    #[cfg(test)]
    pub(crate) fn confinement_mut(&mut self) -> &mut Confinement {
        &mut self.confinement
    }

    fn descriptor(&self, path: &Path, mode: OpenMode, direct: bool) -> io::Result<Descriptor> {
        Descriptor::open_at(&self.confinement.resolve(path)?, path, mode, direct)
    }

    /// Returns the type of the entry at a path, or `None` if it does not exist. If `follows` is false, the type of a
    /// link itself is returned.
    fn file_type(&self, path: &Path, follows: bool) -> io::Result<Option<FileType>> {
        let at = match self.confinement.resolve(path) {
            Err(error) if is_missing(&error) => return Ok(None),
            resolved => resolved?,
        };
        let found = if follows {
            at.file_type()
        } else {
            rustix::fs::statat(at.directory(), at.name(), AtFlags::SYMLINK_NOFOLLOW)
                .map(|found| FileType::from_raw_mode(found.st_mode))
        };
        match found {
            Ok(found) => Ok(Some(found)),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Creates the confined directory `root`, and those directories of `created` that are confined. Fails if
    /// `directory` cannot be opened afterwards.
    fn create_confined(&self, root: &Path, created: &[&Path], directory: &Path) -> io::Result<()> {
        create_private_directory(root)?;
        for path in created.iter().rev() {
            if self.confinement.root_of(path).is_none() {
                continue;
            }
            let at = self.confinement.resolve(path)?;
            match rustix::fs::mkdirat(at.directory(), at.name(), Mode::RWXU) {
                // Another process has created the directory concurrently.
                Err(Errno::EXIST) => {}
                made => made.map_err(|error| at.to_io_error(error))?,
            }
        }
        open_directory(&self.confinement.resolve(directory)?).map(|_| ())
    }

    /// Allows transfers of `bytes` (512 or more) that bypass the kernel's cache. They fail on devices that do not
    /// support this size. [`File::smallest_transfer`] returns the size that a file supports.
    #[must_use]
    pub fn with_smallest_transfer(self, bytes: usize) -> RealVfs {
        RealVfs { smallest_transfer: bytes.clamp(SECTOR, IoBuffer::ALIGNMENT), ..self }
    }

    /// Returns the name of the engine: `io_uring` or `threads`.
    pub fn backend_name(&self) -> &'static str {
        self.engine.name()
    }
}

/// Returns true if files in `directory` can bypass the kernel's cache. This is determined with a test file, which is
/// removed afterwards.
pub fn direct_io_available(directory: &Path) -> bool {
    let unnamed = rustix::fs::openat(
        CWD,
        directory,
        OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC,
        Mode::RUSR | Mode::WUSR,
    );
    let file = unnamed.map_err(io::Error::from).or_else(|_| unlinked_file(directory));
    file.is_ok_and(|file| {
        let mut buffer = IoBuffer::zeroed(IoBuffer::ALIGNMENT);
        set_direct(&file)
            && rustix::io::pwrite(&file, &buffer, 0) == Ok(buffer.len())
            && rustix::io::pread(&file, &mut *buffer, 0) == Ok(buffer.len())
    })
}

/// Creates a file and removes its name, for file systems that do not support unnamed files (`O_TMPFILE`).
fn unlinked_file(directory: &Path) -> io::Result<OwnedFd> {
    let path = directory.join(format!(".direct-io-probe-{}", std::process::id()));
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
    let file = rustix::fs::openat(CWD, &path, flags, Mode::RUSR | Mode::WUSR)?;
    rustix::fs::unlink(&path)?;
    Ok(file)
}

fn open_directory(at: &ResolvedPath<'_>) -> io::Result<OwnedFd> {
    let opened = at.open(OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty());
    opened.map_err(|error| match at.file_type() {
        // If a directory is a link, the kernel reports that it is not a directory.
        Ok(FileType::Symlink) => at.to_io_error(Errno::LOOP),
        _ => error.into(),
    })
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Returns the regular files in an open directory, excluding links.
fn files_in(opened: &OwnedFd, directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in rustix::fs::Dir::read_from(opened)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        let kind = match entry.file_type() {
            FileType::Unknown => match rustix::fs::statat(opened, name, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => continue,
                found => FileType::from_raw_mode(found?.st_mode),
            },
            known => known,
        };
        if kind == FileType::RegularFile {
            paths.push(directory.join(name));
        }
    }
    paths.sort();
    Ok(paths)
}

impl Vfs for RealVfs {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let descriptor = self.descriptor(path, mode, self.direct)?.with_alignment(self.smallest_transfer);
        Ok(Arc::new(RealFile { descriptor: Arc::new(descriptor), engine: self.engine.clone() }))
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        Ok(self.file_type(path, true)?.is_some())
    }

    fn is_regular_file(&self, path: &Path) -> io::Result<bool> {
        Ok(self.file_type(path, false)? == Some(FileType::RegularFile))
    }

    fn is_confined(&self, directory: &Path) -> bool {
        self.confinement.root_of(directory).is_some()
    }

    fn unfinished_path(&self, path: &Path) -> PathBuf {
        unique_unfinished(path)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let at = self.confinement.resolve(path)?;
        Ok(rustix::fs::unlinkat(at.directory(), at.name(), AtFlags::empty())?)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (from, to) = (self.confinement.resolve(from)?, self.confinement.resolve(to)?);
        Ok(rustix::fs::renameat(from.directory(), from.name(), to.directory(), to.name())?)
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
        let opened = open_directory(&self.confinement.resolve(directory)?)?;
        Ok(retry(|| rustix::fs::fsync(&opened))?)
    }

    fn create_directory(&self, directory: &Path) -> io::Result<()> {
        let Some(root) = self.confinement.root_of(directory) else {
            return create_private_directory(directory);
        };
        let mut created = Vec::new();
        for path in directory.ancestors().filter(|path| !path.as_os_str().is_empty()) {
            if self.exists(path)? {
                break;
            }
            created.push(path);
        }
        self.create_confined(root, &created, directory)?;
        created
            .iter()
            .rev()
            .filter_map(|path| path.parent())
            .try_for_each(|parent| self.sync_directory(parent))
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        if self.is_confined(directory) {
            let opened = open_directory(&self.confinement.resolve(directory)?)?;
            return files_in(&opened, directory);
        }
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(directory)? {
            let path = entry?.path();
            // A file whose metadata cannot be read must not be treated as missing.
            match std::fs::metadata(&path) {
                Ok(found) if found.is_file() => paths.push(path),
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                _ => {}
            }
        }
        paths.sort();
        Ok(paths)
    }

    fn free_space(&self, path: &Path) -> io::Result<u64> {
        let mut existing = Path::new(".");
        for path in path.ancestors() {
            if self.exists(path)? {
                existing = path;
                break;
            }
        }
        let volume = rustix::fs::statvfs(existing)?;
        Ok(volume.f_bavail.saturating_mul(volume.f_frsize))
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn DirectoryLock>> {
        Ok(Box::new(FileLock::acquire(&self.confinement.resolve(path)?, &*self.clock)?))
    }

    fn lock_directory(&self, directory: &Path) -> io::Result<Box<dyn DirectoryLock>> {
        self.lock(directory)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (from, to) = (self.confinement.resolve(from)?, self.confinement.resolve(to)?);
        let flags = AtFlags::empty();
        match rustix::fs::linkat(from.directory(), from.name(), to.directory(), to.name(), flags) {
            Err(Errno::OPNOTSUPP | Errno::PERM) => Err(io::ErrorKind::Unsupported.into()),
            other => Ok(other?),
        }
    }

    fn clone_file(&self, from: &Path, to: &Path) -> io::Result<()> {
        let source = self.descriptor(from, OpenMode::Read, false)?;
        let target = self.descriptor(to, OpenMode::CreateNew, false)?;
        let cloned = rustix::fs::ioctl_ficlone(target.control(), source.control());
        cloned.map_err(|error| {
            let _ = self.remove(to);
            match error {
                Errno::OPNOTSUPP | Errno::NOTTY | Errno::NOSYS | Errno::INVAL => {
                    io::ErrorKind::Unsupported.into()
                }
                other => other.into(),
            }
        })
    }

    fn same_file(&self, one: &Path, other: &Path) -> bool {
        let place = |path: &Path| std::fs::metadata(path).map(|file| (file.dev(), file.ino())).ok();
        one == other || place(one).is_some_and(|found| place(other) == Some(found))
    }

    // Shuttle does not support scoped threads that may fail to start.
    #[cfg(not(shuttle))]
    fn sync_files(&self, files: &[&dyn File], reason: IoReason) -> Vec<io::Result<()>> {
        let Some((last, others)) = files.split_last() else { return vec![] };
        jetcell_sync::thread::scope(|scope| {
            let mut started = Vec::with_capacity(others.len());
            for &file in others {
                let thread = jetcell_sync::thread::Builder::new().name("vfs-sync".into());
                started.push(thread.spawn_scoped(scope, move || crate::abort_on_panic(|| file.sync(reason))));
            }
            let last = last.sync(reason);
            let mut results = Vec::with_capacity(files.len());
            for (thread, file) in started.into_iter().zip(others) {
                results.push(match thread {
                    Ok(thread) => thread.join().expect("a panic ends the process"),
                    // The system cannot start another thread.
                    Err(_) => file.sync(reason),
                });
            }
            results.push(last);
            results
        })
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }
}

struct RealFile {
    descriptor: Arc<Descriptor>,
    engine: Arc<dyn TransferEngine>,
}

impl RealFile {
    fn extend(&self, from: u64, to: u64) -> io::Result<()> {
        let file = self.descriptor.control();
        match retry(|| rustix::fs::fallocate(file, FallocateFlags::empty(), from, to - from)) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => self.write_zeros(from, to),
            other => Ok(other?),
        }
    }

    fn write_zeros(&self, mut from: u64, to: u64) -> io::Result<()> {
        let zeros = IoBuffer::zeroed(ZEROS);
        while from < to {
            // Each write ends at an aligned offset, because only aligned writes bypass the cache.
            let len = (ZEROS as u64 - from % ZEROS as u64).min(to - from);
            self.descriptor.write_all_at(from, &zeros[..len as usize])?;
            from += len;
        }
        Ok(())
    }
}

impl File for RealFile {
    fn path(&self) -> &Path {
        self.descriptor.path()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8], _reason: IoReason) -> io::Result<()> {
        self.descriptor.read_exact_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, data: &[u8], _reason: IoReason) -> io::Result<()> {
        self.descriptor.write_all_at(offset, data)
    }

    fn write_parts_durable(&self, offset: u64, parts: &[&[u8]], reason: IoReason) -> io::Result<()> {
        self.descriptor.write_all_parts_at(offset, parts)?;
        self.sync(reason)
    }

    fn submit(&self, batch: Vec<Transfer>) {
        if !batch.is_empty() {
            self.engine.submit(&self.descriptor, batch);
        }
    }

    fn sync(&self, _reason: IoReason) -> io::Result<()> {
        Ok(retry(|| rustix::fs::fdatasync(self.descriptor.control()))?)
    }

    fn smallest_transfer(&self) -> usize {
        self.descriptor.smallest_transfer()
    }

    fn len(&self) -> io::Result<u64> {
        self.descriptor.len()
    }

    fn next_data(&self, offset: u64) -> io::Result<u64> {
        self.descriptor.next_data(offset)
    }

    fn grow(&self, len: u64) -> io::Result<()> {
        let old = self.len()?;
        if len < old {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        if len == old {
            return Ok(());
        }
        self.extend(old, len).inspect_err(|_| {
            // If the truncation fails too, only the first error is reported.
            let _ = rustix::fs::ftruncate(self.descriptor.control(), old);
        })
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        if len > self.len()? {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok(rustix::fs::ftruncate(self.descriptor.control(), len)?)
    }

    fn punch_hole(&self, offset: u64, len: u64) -> io::Result<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match retry(|| rustix::fs::fallocate(self.descriptor.control(), flags, offset, len)) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Err(io::ErrorKind::Unsupported.into()),
            other => Ok(other?),
        }
    }

    fn reserve(&self, offset: u64, len: u64) -> io::Result<()> {
        let flags = FallocateFlags::KEEP_SIZE;
        match retry(|| rustix::fs::fallocate(self.descriptor.control(), flags, offset, len)) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            other => Ok(other?),
        }
    }
}

#[cfg(test)]
mod tests;
