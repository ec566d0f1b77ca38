//! Answers requests of the kernel with a [`Vfs`].

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    LockOwner, OpenAccMode, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use jetcell_vfs::{File, IoReason, OpenMode, Vfs};

use super::inodes::InodeTable;

const BLOCK: u32 = 4096;
const IO_REASON: IoReason = IoReason::Other;
const KEEP_SIZE: i32 = 1;
const PUNCH_HOLE: i32 = 2;
/// Lifetime of cached directory attributes. All other attributes are requested each time.
const DIRECTORY_TTL: Duration = Duration::from_secs(3600);

struct ServedState {
    inodes: InodeTable,
    handles: BTreeMap<FileHandle, (INodeNo, Arc<dyn File>)>,
    last_handle: u64,
}

pub(super) struct ServedFileSystem {
    vfs: Arc<dyn Vfs>,
    /// Maximum number of bytes per request.
    max_transfer_bytes: usize,
    state: Mutex<ServedState>,
}

impl ServedFileSystem {
    pub(super) fn new(vfs: Arc<dyn Vfs>, max_transfer_bytes: usize) -> ServedFileSystem {
        let state = ServedState { inodes: InodeTable::new(), handles: BTreeMap::new(), last_handle: 0 };
        ServedFileSystem { vfs, max_transfer_bytes, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, ServedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self, number: INodeNo) -> io::Result<PathBuf> {
        let found = self.state().inodes.path(number).map(Path::to_owned);
        found.ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn child(&self, parent: INodeNo, name: &OsStr) -> io::Result<PathBuf> {
        Ok(self.path(parent)?.join(name))
    }

    fn file(&self, handle: FileHandle) -> io::Result<Arc<dyn File>> {
        let found = self.state().handles.get(&handle).map(|(_, file)| file.clone());
        found.ok_or_else(|| Errno::EBADF.code()).map_err(io::Error::from_raw_os_error)
    }

    fn keep(&self, number: INodeNo, file: Arc<dyn File>) -> FileHandle {
        let mut state = self.state();
        state.last_handle += 1;
        let handle = FileHandle(state.last_handle);
        state.handles.insert(handle, (number, file));
        handle
    }

    fn attributes_of(&self, path: &Path) -> io::Result<FileAttr> {
        let (kind, size) = match self.vfs.file_len(path) {
            Ok(size) => (FileType::RegularFile, size),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let is_directory = path == Path::new("/") || self.vfs.exists(path)?;
                if !is_directory {
                    return Err(error);
                }
                (FileType::Directory, 0)
            }
            Err(error) => return Err(error),
        };
        Ok(attributes(self.state().inodes.number(path), kind, size))
    }

    /// Returns the attributes of a file. The file may be open and have lost its name.
    fn attributes(&self, number: INodeNo) -> io::Result<FileAttr> {
        match self.path(number) {
            Ok(path) => self.attributes_of(&path),
            Err(error) => {
                let open =
                    |state: &ServedState| state.handles.values().find(|(of, _)| *of == number).cloned();
                let (_, file) = open(&self.state()).ok_or(error)?;
                Ok(attributes(number, FileType::RegularFile, file.len()?))
            }
        }
    }

    fn set_length(&self, number: INodeNo, handle: Option<FileHandle>, length: u64) -> io::Result<()> {
        let file = match handle {
            Some(handle) => self.file(handle)?,
            None => self.vfs.open(&self.path(number)?, OpenMode::Write)?,
        };
        if length < file.len()? { file.truncate(length) } else { file.grow(length) }
    }

    fn reply_entry(&self, path: io::Result<PathBuf>, reply: ReplyEntry) {
        match path.and_then(|path| self.attributes_of(&path)) {
            Ok(found) => reply.entry(&ttl(&found), &found, Generation(0)),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn read_some(&self, handle: FileHandle, offset: u64, size: u32) -> io::Result<Vec<u8>> {
        let file = self.file(handle)?;
        let left = file.len()?.saturating_sub(offset).min(u64::from(size)) as usize;
        let mut bytes = vec![0; left.min(self.max_transfer_bytes)];
        if !bytes.is_empty() {
            file.read_at(offset, &mut bytes, IO_REASON)?;
        }
        Ok(bytes)
    }

    fn allocate(&self, handle: FileHandle, offset: u64, length: u64, mode: i32) -> io::Result<()> {
        let file = self.file(handle)?;
        match mode {
            0 => file.grow(file.len()?.max(offset + length)),
            KEEP_SIZE => file.reserve(offset, length),
            mode if mode == KEEP_SIZE | PUNCH_HOLE => file.punch_hole(offset, length),
            _ => Err(ErrorKind::Unsupported.into()),
        }
    }
}

fn attributes(ino: INodeNo, kind: FileType, size: u64) -> FileAttr {
    let perm = if kind == FileType::Directory { 0o777 } else { 0o666 };
    FileAttr {
        ino,
        size,
        blocks: size.div_ceil(512),
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind,
        perm,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: BLOCK,
        flags: 0,
    }
}

fn ttl(found: &FileAttr) -> Duration {
    if found.kind == FileType::Directory { DIRECTORY_TTL } else { Duration::ZERO }
}

/// Converts an error to an errno. Errors of simulated disks have no errno.
fn errno(error: &io::Error) -> Errno {
    match (error.raw_os_error(), error.kind()) {
        (Some(number), _) => Errno::from_i32(number),
        (None, ErrorKind::NotFound) => Errno::ENOENT,
        (None, ErrorKind::AlreadyExists) => Errno::EEXIST,
        (None, ErrorKind::StorageFull) => Errno::ENOSPC,
        (None, ErrorKind::PermissionDenied) => Errno::EACCES,
        (None, ErrorKind::InvalidInput) => Errno::EINVAL,
        (None, ErrorKind::Unsupported) => Errno::EOPNOTSUPP,
        _ => Errno::EIO,
    }
}

fn answer(done: io::Result<()>, reply: ReplyEmpty) {
    match done {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(errno(&error)),
    }
}

impl Filesystem for ServedFileSystem {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.reply_entry(self.child(parent, name), reply);
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(number) {
            Ok(found) => reply.attr(&ttl(&found), &found),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        number: INodeNo,
        _mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        handle: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let done = size.map_or(Ok(()), |size| self.set_length(number, handle, size));
        match done.and_then(|()| self.attributes(number)) {
            Ok(found) => reply.attr(&ttl(&found), &found),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn mkdir(&self, _: &Request, parent: INodeNo, name: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        let made = self.child(parent, name).and_then(|path| {
            self.vfs.create_directory(&path)?;
            Ok(path)
        });
        self.reply_entry(made, reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let done = self.child(parent, name).and_then(|path| {
            self.vfs.remove(&path)?;
            self.state().inodes.removed(&path);
            Ok(())
        });
        answer(done, reply);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        if !flags.is_empty() {
            return reply.error(Errno::EINVAL);
        }
        let paths = self.child(parent, name).and_then(|from| Ok((from, self.child(new_parent, new_name)?)));
        let done = paths.and_then(|(from, to)| {
            self.vfs.rename(&from, &to)?;
            self.state().inodes.renamed(&from, &to);
            Ok(())
        });
        answer(done, reply);
    }

    fn link(&self, _: &Request, number: INodeNo, new_parent: INodeNo, new_name: &OsStr, reply: ReplyEntry) {
        let linked = self.path(number).and_then(|from| {
            let to = self.child(new_parent, new_name)?;
            self.vfs.link(&from, &to)?;
            Ok(to)
        });
        self.reply_entry(linked, reply);
    }

    fn open(&self, _: &Request, number: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let mode = if flags.acc_mode() == OpenAccMode::O_RDONLY { OpenMode::Read } else { OpenMode::Write };
        match self.path(number).and_then(|path| self.vfs.open(&path, mode)) {
            Ok(file) => reply.opened(self.keep(number, file), FopenFlags::FOPEN_DIRECT_IO),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        _mode: u32,
        _umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        let made = self.child(parent, name).and_then(|path| {
            let file = self.vfs.open(&path, OpenMode::CreateNew)?;
            Ok((self.attributes_of(&path)?, file))
        });
        match made {
            Ok((found, file)) => {
                let handle = self.keep(found.ino, file);
                reply.created(&ttl(&found), &found, Generation(0), handle, FopenFlags::FOPEN_DIRECT_IO);
            }
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn read(
        &self,
        _: &Request,
        _number: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.read_some(handle, offset, size) {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn write(
        &self,
        _: &Request,
        _number: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let data = &data[..data.len().min(self.max_transfer_bytes)];
        match self.file(handle).and_then(|file| file.write_at(offset, data, IO_REASON)) {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn release(
        &self,
        _: &Request,
        _number: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        let closed = self.state().handles.remove(&handle);
        drop(closed);
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, handle: FileHandle, _: bool, reply: ReplyEmpty) {
        answer(self.file(handle).and_then(|file| file.sync(IO_REASON)), reply);
    }

    fn fsyncdir(&self, _: &Request, number: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        answer(self.path(number).and_then(|path| self.vfs.sync_directory(&path)), reply);
    }

    fn readdir(&self, _: &Request, number: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        // A `Vfs` lists only files.
        let files = match self.path(number).and_then(|path| self.vfs.list(&path)) {
            Ok(files) => files,
            Err(error) => return reply.error(errno(&error)),
        };
        let skipped = usize::try_from(offset).unwrap_or(usize::MAX);
        for (at, path) in files.iter().enumerate().skip(skipped) {
            let number = self.state().inodes.number(path);
            let name = path.file_name().unwrap_or_default();
            if reply.add(number, at as u64 + 1, FileType::RegularFile, name) {
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let free = self.vfs.free_space(Path::new("/")).unwrap_or(0) / u64::from(BLOCK);
        reply.statfs(free, free, free, 0, 0, BLOCK, 255, BLOCK);
    }

    fn fallocate(
        &self,
        _: &Request,
        _number: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        answer(self.allocate(handle, offset, length, mode), reply);
    }
}
