//! A file system that stores changes separately and leaves the underlying files unmodified.
//!
//! An in-place recovery is first tried on an overlay, so a failed attempt does not change any file.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jetcell_sync::Mutex;

use crate::overlay::changed_runs::ChangedRuns;
use crate::{
    Clock, DirectoryLock, File, IoBuffer, IoReason, OpenMode, Transfer, TransferKind, Vfs, VfsLayer,
};

mod changed_runs;

/// Granularity of changes in bytes. All transfers consist of whole blocks.
const BLOCK: usize = 4096;
/// Size in bytes of each write of zeros.
const ZEROS: usize = 1 << 20;
/// Growth increment of the scratch file in bytes.
const SCRATCH_STEP: u64 = 4 << 20;

/// A writable file system layered on a read-only one.
///
/// Changed blocks are stored in a scratch file, which may be unnamed. The overlay uses about 50 bytes of memory for
/// each run of blocks that are adjacent in both files, such as a page. All accesses to a file must use the same path.
/// Locks do not apply to the underlying files.
pub struct OverlayVfs {
    below: Arc<dyn Vfs>,
    scratch: Arc<ScratchFile>,
    files: Mutex<BTreeMap<PathBuf, Option<Arc<OverlayContent>>>>,
    locked: Arc<Mutex<BTreeSet<PathBuf>>>,
}

impl OverlayVfs {
    /// Creates an overlay that stores changes in `scratch`, an empty file that is open for writing.
    pub fn new(below: Arc<dyn Vfs>, scratch: Arc<dyn File>) -> OverlayVfs {
        let scratch = Arc::new(ScratchFile { file: scratch, used: Mutex::default() });
        OverlayVfs { below, scratch, files: Mutex::default(), locked: Arc::default() }
    }

    /// Returns the content of the file at a path, or an error if the file does not exist.
    fn content(&self, path: &Path) -> io::Result<Arc<OverlayContent>> {
        let mut files = self.files.lock();
        if let Some(known) = files.get(path) {
            return known.clone().ok_or_else(|| io::ErrorKind::NotFound.into());
        }
        let below = self.below.open(path, OpenMode::Read)?;
        let len = below.len()?;
        // A trailing partial block cannot be read.
        let below_len = len / BLOCK as u64 * BLOCK as u64;
        let blocks = OverlayBlocks { changed: ChangedRuns::default(), len, below_len };
        let content = Arc::new(OverlayContent {
            below: Some(below),
            blocks: Mutex::new(blocks),
            scratch: self.scratch.clone(),
        });
        files.insert(path.to_path_buf(), Some(content.clone()));
        Ok(content)
    }
}

impl VfsLayer for OverlayVfs {
    fn inner(&self) -> &dyn Vfs {
        &*self.below
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let content = match mode {
            OpenMode::Read | OpenMode::Write | OpenMode::WriteOwn => self.content(path)?,
            OpenMode::CreateNew if Vfs::exists(self, path)? => {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            OpenMode::CreateNew => {
                let content = Arc::new(OverlayContent {
                    below: None,
                    blocks: Mutex::default(),
                    scratch: self.scratch.clone(),
                });
                self.files.lock().insert(path.to_path_buf(), Some(content.clone()));
                content
            }
        };
        Ok(Arc::new(OverlayFile { path: path.to_path_buf(), content, writable: mode != OpenMode::Read }))
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        match self.files.lock().get(path) {
            Some(known) => Ok(known.is_some()),
            None => self.below.exists(path),
        }
    }

    fn is_regular_file(&self, path: &Path) -> io::Result<bool> {
        match self.files.lock().get(path) {
            Some(known) => Ok(known.is_some()),
            None => self.below.is_regular_file(path),
        }
    }

    fn clone_file(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        // The underlying file system must not be changed.
        Err(io::ErrorKind::Unsupported.into())
    }

    fn link(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.content(path)?;
        self.files.lock().insert(path.to_path_buf(), None);
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let content = self.content(from)?;
        let mut files = self.files.lock();
        files.insert(from.to_path_buf(), None);
        files.insert(to.to_path_buf(), Some(content));
        Ok(())
    }

    fn sync_directory(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn create_directory(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        let mut paths: BTreeSet<PathBuf> = match self.below.list(directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeSet::new(),
            paths => paths?.into_iter().collect(),
        };
        for (path, content) in self.files.lock().iter().filter(|(path, _)| path.parent() == Some(directory)) {
            match content {
                Some(_) => paths.insert(path.clone()),
                None => paths.remove(path),
            };
        }
        Ok(paths.into_iter().collect())
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn DirectoryLock>> {
        if self.locked.lock().insert(path.to_path_buf()) {
            Ok(Box::new(OverlayLock { path: path.to_path_buf(), locked: self.locked.clone() }))
        } else {
            Err(io::ErrorKind::WouldBlock.into())
        }
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.below.clock()
    }
}

struct OverlayLock {
    path: PathBuf,
    locked: Arc<Mutex<BTreeSet<PathBuf>>>,
}

impl DirectoryLock for OverlayLock {}

impl Drop for OverlayLock {
    fn drop(&mut self) {
        self.locked.lock().remove(&self.path);
    }
}

/// The scratch file, which stores the changed blocks of all files.
struct ScratchFile {
    file: Arc<dyn File>,
    /// Number of bytes in use, and number of bytes allocated.
    used: Mutex<(u64, u64)>,
}

impl ScratchFile {
    /// Reserves `bytes` in the scratch file. Returns the offset of the reserved range.
    fn reserve(&self, bytes: u64) -> io::Result<u64> {
        let mut used = self.used.lock();
        let (start, allocated) = *used;
        let end = start + bytes;
        if end > allocated {
            let allocated = end.next_multiple_of(SCRATCH_STEP);
            self.file.grow(allocated)?;
            used.1 = allocated;
        }
        used.0 = end;
        Ok(start)
    }
}

/// Content of a file, independent of the file's name.
struct OverlayContent {
    below: Option<Arc<dyn File>>,
    blocks: Mutex<OverlayBlocks>,
    scratch: Arc<ScratchFile>,
}

#[derive(Default)]
struct OverlayBlocks {
    changed: ChangedRuns,
    len: u64,
    /// Length up to which unchanged blocks are read from the underlying file. Beyond it, unchanged blocks read as
    /// zeros.
    below_len: u64,
}

impl OverlayBlocks {
    fn is_unchanged(&self, offset: u64, len: u64) -> bool {
        offset + len <= self.below_len && self.changed.parts(offset, len).next().is_none()
    }
}

impl OverlayContent {
    fn read(&self, offset: u64, buffer: &mut [u8], reason: IoReason) -> io::Result<()> {
        let blocks = self.blocks.lock();
        let end = offset + buffer.len() as u64;
        if end > blocks.len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let from_below = blocks.below_len.saturating_sub(offset).min(buffer.len() as u64) as usize;
        let (below, behind) = buffer.split_at_mut(from_below);
        if let Some(file) = self.below.as_ref().filter(|_| from_below > 0) {
            file.read_at(offset, below, reason)?;
        }
        behind.fill(0);
        for (at, place, len) in blocks.changed.parts(offset, buffer.len() as u64) {
            let start = (at - offset) as usize;
            let part = buffer.get_mut(start..start + len as usize).unwrap_or_default();
            self.scratch.file.read_at(place, part, reason)?;
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8], reason: IoReason) -> io::Result<()> {
        let len = data.len() as u64;
        let mut blocks = self.blocks.lock();
        let place = match blocks.changed.position(offset, len) {
            Some(place) => place,
            None => self.scratch.reserve(len)?,
        };
        self.scratch.file.write_at(place, data, reason)?;
        blocks.changed.set(offset, place, len);
        blocks.len = blocks.len.max(offset + len);
        Ok(())
    }
}

/// An open file with the path that was used to open it.
struct OverlayFile {
    path: PathBuf,
    content: Arc<OverlayContent>,
    writable: bool,
}

impl OverlayFile {
    fn check_writable(&self) -> io::Result<()> {
        if self.writable { Ok(()) } else { Err(io::ErrorKind::PermissionDenied.into()) }
    }
}

impl File for OverlayFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8], reason: IoReason) -> io::Result<()> {
        self.content.read(offset, buffer, reason)
    }

    fn write_at(&self, offset: u64, data: &[u8], reason: IoReason) -> io::Result<()> {
        self.check_writable()?;
        self.content.write(offset, data, reason)
    }

    fn submit(&self, batch: Vec<Transfer>) {
        let mut from_below = Vec::new();
        for mut transfer in batch {
            let Transfer { kind, offset, reason, .. } = transfer;
            let len = transfer.buffer.len() as u64;
            if kind == TransferKind::Read && self.content.blocks.lock().is_unchanged(offset, len) {
                from_below.push(transfer);
                continue;
            }
            let result = match kind {
                TransferKind::Read => self.read_at(offset, &mut transfer.buffer, reason),
                TransferKind::Write => self.write_at(offset, &transfer.buffer, reason),
            };
            (transfer.done)(result, transfer.buffer);
        }
        if let Some(below) = self.content.below.as_ref().filter(|_| !from_below.is_empty()) {
            below.submit(from_below);
        }
    }

    fn sync(&self, _: IoReason) -> io::Result<()> {
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.content.blocks.lock().len)
    }

    fn grow(&self, len: u64) -> io::Result<()> {
        self.check_writable()?;
        let mut blocks = self.content.blocks.lock();
        blocks.len = blocks.len.max(len);
        Ok(())
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.check_writable()?;
        let mut blocks = self.content.blocks.lock();
        blocks.changed.truncate(len.next_multiple_of(BLOCK as u64));
        blocks.len = blocks.len.min(len);
        blocks.below_len = blocks.below_len.min(len);
        Ok(())
    }

    fn punch_hole(&self, offset: u64, len: u64) -> io::Result<()> {
        self.check_writable()?;
        let end = offset.saturating_add(len).min(self.len()?);
        let zeros = IoBuffer::zeroed((end.saturating_sub(offset) as usize).min(ZEROS));
        (offset..end).step_by(ZEROS).try_for_each(|at| {
            let len = ((end - at) as usize).min(ZEROS);
            self.content.write(at, &zeros[..len], IoReason::Other)
        })
    }
}

#[cfg(test)]
mod tests;
