//! An open file in the real file system: selects a descriptor for each range, and performs synchronous transfers.
//!
//! `O_DIRECT` is set after opening, because some file systems create the file and then refuse the flag. `O_DIRECT`
//! cannot serve ranges whose offset or length is not a multiple of 4096, or of a smaller block size that was
//! requested. Such ranges go through a second, buffered descriptor for the same file; the kernel keeps both views
//! coherent. Transfers from or to unaligned memory go through a bounce buffer.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use jetcell_sync::OnceLock;
use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::confinement::ResolvedPath;
use crate::file_ownership::{NEW_FILE, check_ownership, nofollow_error, not_a_file_error};
use crate::retry::retry;
use crate::{IoBuffer, OpenMode};

const ALIGNMENT: usize = IoBuffer::ALIGNMENT;
/// Maximum size of a bounce buffer in bytes.
const BOUNCE: usize = 1 << 20;
/// Maximum number of parts in one system call. Linux: `IOV_MAX`.
const MAX_PARTS: usize = 1024;

pub(crate) struct Descriptor {
    path: PathBuf,
    access: OFlags,
    file: OwnedFd,
    direct: bool,
    /// `O_DIRECT` is used for ranges whose offset and length are multiples of this number of bytes.
    alignment: usize,
    buffered: OnceLock<OwnedFd>,
}

impl Descriptor {
    #[cfg(test)]
    pub fn open(path: &Path, mode: OpenMode, direct: bool) -> io::Result<Descriptor> {
        Descriptor::open_at(&ResolvedPath::unconfined(path), path, mode, direct)
    }

    /// Opens the file at a resolved path. In a confined directory, it must be a regular file.
    pub fn open_at(
        at: &ResolvedPath<'_>,
        path: &Path,
        mode: OpenMode,
        direct: bool,
    ) -> io::Result<Descriptor> {
        let (access, create) = match mode {
            OpenMode::Read => (OFlags::RDONLY, OFlags::empty()),
            OpenMode::Write => (OFlags::RDWR, OFlags::empty()),
            OpenMode::WriteOwn => (OFlags::RDWR, OFlags::NOFOLLOW),
            OpenMode::CreateNew => (OFlags::RDWR, OFlags::CREATE | OFlags::EXCL),
        };
        // Without NONBLOCK, opening a pipe would wait until its other end is opened.
        let file = match at.open(access | create | OFlags::NONBLOCK, NEW_FILE) {
            Err(Errno::NXIO) => return Err(not_a_file_error("a socket, or a device without a driver")),
            Err(error) if mode == OpenMode::WriteOwn && !at.refuses_links() => {
                return Err(nofollow_error(error));
            }
            other => other.map_err(|error| at.to_io_error(error))?,
        };
        match FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) {
            FileType::BlockDevice if at.refuses_links() => return Err(not_a_file_error("a block device")),
            FileType::Directory => return Err(Errno::ISDIR.into()),
            FileType::Fifo => return Err(not_a_file_error("a pipe")),
            FileType::CharacterDevice => return Err(not_a_file_error("a character device")),
            _ => {}
        }
        if mode == OpenMode::WriteOwn {
            check_ownership(&file, path)?;
        }
        // With NONBLOCK set, io_uring would return an error instead of waiting.
        let flags = rustix::fs::fcntl_getfl(&file)?;
        rustix::fs::fcntl_setfl(&file, flags - OFlags::NONBLOCK)?;
        if mode == OpenMode::Read {
            disable_access_time(&file);
        }
        let direct = direct && set_direct(&file);
        let (path, alignment) = (path.to_owned(), ALIGNMENT);
        Ok(Descriptor { path, access, file, direct, alignment, buffered: OnceLock::new() })
    }

    pub fn with_alignment(self, alignment: usize) -> Descriptor {
        Descriptor { alignment, ..self }
    }

    /// Returns the size in bytes of the smallest direct transfer. Determined by a test read, because not every kernel
    /// reports it.
    pub fn smallest_transfer(&self) -> usize {
        let can = |size: &usize| {
            let mut buffer = IoBuffer::zeroed(*size);
            rustix::io::pread(&self.file, &mut *buffer, *size as u64) == Ok(*size)
        };
        let sizes = std::iter::successors(Some(self.alignment), |size| Some(size * 2));
        let mut smaller = sizes.take_while(|size| *size < ALIGNMENT && self.direct);
        smaller.find(can).unwrap_or(ALIGNMENT)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    #[cfg(test)]
    pub fn is_direct(&self) -> bool {
        self.direct
    }

    /// Makes unaligned ranges fail, as if the buffered descriptor could not be opened.
    #[cfg(test)]
    pub fn without_buffered(self) -> Descriptor {
        Descriptor { direct: true, access: self.access | OFlags::DIRECTORY, ..self }
    }

    /// Returns the descriptor for operations other than transfers.
    pub fn control(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Returns the descriptor that can transfer this range.
    pub fn for_range(&self, offset: u64, len: usize) -> io::Result<BorrowedFd<'_>> {
        let aligned = offset.is_multiple_of(self.alignment as u64) && len.is_multiple_of(self.alignment);
        if !self.direct || aligned {
            return Ok(self.file.as_fd());
        }
        if let Some(file) = self.buffered.get() {
            return Ok(file.as_fd());
        }
        // The path in /proc leads to the file even if it has been renamed.
        let myself = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        let file = rustix::fs::openat(CWD, myself, self.access | OFlags::CLOEXEC, Mode::empty())?;
        Ok(self.buffered.get_or_init(|| file).as_fd())
    }

    /// Returns the size of the file or block device in bytes.
    pub fn len(&self) -> io::Result<u64> {
        Ok(rustix::fs::seek(&self.file, rustix::fs::SeekFrom::End(0))?)
    }

    /// Returns the offset of the first data at or after `offset`, or the size if only a hole follows.
    pub fn next_data(&self, offset: u64) -> io::Result<u64> {
        match rustix::fs::seek(&self.file, rustix::fs::SeekFrom::Data(offset)) {
            Err(Errno::NXIO) => self.len(),
            // Block devices and some file systems do not have holes.
            Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(offset),
            found => Ok(found?),
        }
    }

    pub fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        if !self.needs_bounce_buffer(offset, buffer) {
            return self.read_all(offset, buffer);
        }
        let mut bounce = IoBuffer::zeroed(buffer.len().min(BOUNCE));
        for (index, part) in buffer.chunks_mut(BOUNCE).enumerate() {
            self.read_all(offset + (index * BOUNCE) as u64, &mut bounce[..part.len()])?;
            part.copy_from_slice(&bounce[..part.len()]);
        }
        Ok(())
    }

    pub fn write_all_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if !self.needs_bounce_buffer(offset, data) {
            return self.write_all(offset, data);
        }
        let mut bounce = IoBuffer::zeroed(data.len().min(BOUNCE));
        for (index, part) in data.chunks(BOUNCE).enumerate() {
            bounce[..part.len()].copy_from_slice(part);
            self.write_all(offset + (index * BOUNCE) as u64, &bounce[..part.len()])?;
        }
        Ok(())
    }

    /// Writes several parts contiguously to the file. Uses as few system calls as possible if all parts are aligned.
    pub fn write_all_parts_at(&self, mut offset: u64, parts: &[&[u8]]) -> io::Result<()> {
        let aligned =
            |part: &&[u8]| part.len().is_multiple_of(ALIGNMENT) && !self.needs_bounce_buffer(offset, part);
        if !offset.is_multiple_of(ALIGNMENT as u64) || !parts.iter().all(aligned) {
            for part in parts {
                self.write_all_at(offset, part)?;
                offset += part.len() as u64;
            }
            return Ok(());
        }
        for parts in parts.chunks(MAX_PARTS) {
            let slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
            let written = retry(|| rustix::io::pwritev(&self.file, &slices, offset))?;
            // After a short write, the remaining parts are written separately.
            let mut done = written;
            for part in parts {
                let skipped = done.min(part.len());
                self.write_all_at(offset + skipped as u64, &part[skipped..])?;
                done -= skipped;
                offset += part.len() as u64;
            }
        }
        Ok(())
    }

    fn needs_bounce_buffer(&self, offset: u64, memory: &[u8]) -> bool {
        let ranges_fit =
            offset.is_multiple_of(self.alignment as u64) && memory.len().is_multiple_of(self.alignment);
        self.direct && ranges_fit && !memory.as_ptr().addr().is_multiple_of(ALIGNMENT)
    }

    fn read_all(&self, mut offset: u64, mut buffer: &mut [u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            let file = self.for_range(offset, buffer.len())?;
            match retry(|| rustix::io::pread(file, &mut *buffer, offset))? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => (offset, buffer) = (offset + count as u64, &mut buffer[count..]),
            }
        }
        Ok(())
    }

    fn write_all(&self, mut offset: u64, mut data: &[u8]) -> io::Result<()> {
        while !data.is_empty() {
            let file = self.for_range(offset, data.len())?;
            match retry(|| rustix::io::pwrite(file, data, offset))? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                count => (offset, data) = (offset + count as u64, &data[count..]),
            }
        }
        Ok(())
    }
}

/// Sets `O_DIRECT`. Returns true if the file system accepted the flag.
pub(crate) fn set_direct(file: &OwnedFd) -> bool {
    let flags = rustix::fs::fcntl_getfl(file);
    flags.and_then(|flags| rustix::fs::fcntl_setfl(file, flags | OFlags::DIRECT)).is_ok()
}

/// Disables access time updates for reads through this descriptor.
///
/// Reading a file for inspection should not change its access time. The kernel refuses the flag for files owned by
/// other users; the access time of such files then changes.
fn disable_access_time(file: &OwnedFd) {
    if let Ok(flags) = rustix::fs::fcntl_getfl(file) {
        let _ = rustix::fs::fcntl_setfl(file, flags | OFlags::NOATIME);
    }
}
