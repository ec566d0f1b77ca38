//! In-memory file system with a few files.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jetcell_vfs::{Clock, DirectoryLock, File, IoReason, OpenMode, Transfer, TransferKind, Vfs};

pub struct MemoryDirectory {
    pub path: PathBuf,
    pub bytes: Arc<Mutex<Vec<u8>>>,
    /// Number of zero bytes after the contents.
    pub zeros: u64,
    /// Whether the zero bytes are a hole.
    pub is_sparse: bool,
    /// Additional files, for checks of a whole directory.
    pub others: Vec<(PathBuf, Vec<u8>)>,
    /// Number of bytes that were read.
    pub read: Arc<AtomicU64>,
}

impl MemoryDirectory {
    pub fn new(bytes: Vec<u8>) -> MemoryDirectory {
        let (path, bytes) = (PathBuf::from("database.edb"), Arc::new(Mutex::new(bytes)));
        MemoryDirectory { path, bytes, zeros: 0, is_sparse: true, others: Vec::new(), read: Arc::default() }
    }

    /// Creates a directory with these log files.
    #[allow(dead_code, reason = "not every test program checks logs")]
    pub fn directory(files: Vec<(&str, Vec<u8>)>) -> MemoryDirectory {
        let others = files.into_iter().map(|(name, bytes)| (PathBuf::from(name), bytes)).collect();
        MemoryDirectory { others, ..MemoryDirectory::new(Vec::new()) }
    }
}

fn unsupported<T>() -> io::Result<T> {
    Err(io::ErrorKind::Unsupported.into())
}

impl File for MemoryDirectory {
    fn path(&self) -> &Path {
        &self.path
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8], _: IoReason) -> io::Result<()> {
        self.read.fetch_add(buffer.len() as u64, Ordering::Relaxed);
        let bytes = self.bytes.lock().unwrap();
        let to_the_end = offset + buffer.len() as u64 == bytes.len() as u64 + self.zeros;
        let aligned = buffer.len().is_multiple_of(4096) || to_the_end;
        assert!(offset.is_multiple_of(4096) && aligned, "unaligned read");
        let start = usize::try_from(offset).unwrap();
        if start + buffer.len() > bytes.len() + self.zeros as usize {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let source = bytes.get(start..).unwrap_or_default();
        let (known, behind) = buffer.split_at_mut(source.len().min(buffer.len()));
        known.copy_from_slice(&source[..known.len()]);
        behind.fill(0);
        Ok(())
    }
    fn submit(&self, batch: Vec<Transfer>) {
        for mut transfer in batch {
            assert_eq!(transfer.kind, TransferKind::Read);
            let result = self.read_at(transfer.offset, &mut transfer.buffer, transfer.reason);
            (transfer.done)(result, transfer.buffer);
        }
    }
    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.lock().unwrap().len() as u64 + self.zeros)
    }
    fn next_data(&self, offset: u64) -> io::Result<u64> {
        let data = self.bytes.lock().unwrap().len() as u64;
        Ok(if offset < data || !self.is_sparse { offset } else { data + self.zeros })
    }
    fn write_at(&self, _: u64, _: &[u8], _: IoReason) -> io::Result<()> {
        unsupported()
    }
    fn sync(&self, _: IoReason) -> io::Result<()> {
        unsupported()
    }
    fn grow(&self, _: u64) -> io::Result<()> {
        unsupported()
    }
    fn truncate(&self, _: u64) -> io::Result<()> {
        unsupported()
    }
}

impl Vfs for MemoryDirectory {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        assert_eq!(mode, OpenMode::Read, "a check opens for reading only");
        let other = self.others.iter().find(|(name, _)| name == path);
        let bytes =
            other.map_or_else(|| Arc::clone(&self.bytes), |(_, bytes)| Arc::new(Mutex::new(bytes.clone())));
        let MemoryDirectory { zeros, is_sparse, ref read, .. } = *self;
        let (path, read) = (path.to_owned(), read.clone());
        Ok(Arc::new(MemoryDirectory { path, bytes, zeros, is_sparse, others: Vec::new(), read }))
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        Ok(path == self.path || self.others.iter().any(|(name, _)| name == path))
    }
    fn remove(&self, _: &Path) -> io::Result<()> {
        unsupported()
    }
    fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
        unsupported()
    }
    fn sync_directory(&self, _: &Path) -> io::Result<()> {
        unsupported()
    }
    fn create_directory(&self, _: &Path) -> io::Result<()> {
        unsupported()
    }
    fn list(&self, _: &Path) -> io::Result<Vec<PathBuf>> {
        Ok(self.others.iter().map(|(path, _)| path.clone()).collect())
    }
    fn free_space(&self, _: &Path) -> io::Result<u64> {
        unsupported()
    }
    fn lock(&self, _: &Path) -> io::Result<Box<dyn DirectoryLock>> {
        unsupported()
    }
    fn clock(&self) -> Arc<dyn Clock> {
        struct StoppedClock;
        impl Clock for StoppedClock {
            fn unix_ms(&self) -> i64 {
                0
            }
            fn monotonic(&self) -> Duration {
                Duration::ZERO
            }
            fn sleep(&self, _: Duration) {}
        }
        Arc::new(StoppedClock)
    }
}
