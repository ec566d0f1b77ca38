//! A file system that records each transfer: kind, file, reason, offset and bytes.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::path::Path;

use jetcell_sync::{Arc, Mutex};
use jetcell_vfs::{File, FileLayer, IoReason, OpenMode, SimVfs, Transfer, TransferKind, Vfs, VfsLayer};
use twox_hash::XxHash3_64;

/// Kind of operation: the operation, the kind of file, and the reason.
type TracedOperationKind = (String, &'static str, Option<IoReason>);

#[derive(Default)]
struct OperationTrace {
    /// Number of operations, and number of bytes.
    sums: BTreeMap<TracedOperationKind, (u64, u64)>,
    /// Hash of all operations in order, including offsets and content.
    hash: u64,
}

impl OperationTrace {
    fn add(&mut self, what: &str, data: &[u8]) {
        for part in [what.as_bytes(), data] {
            self.hash = XxHash3_64::oneshot_with_seed(self.hash, part);
        }
    }
}

/// Records the transfers of a disk.
#[derive(Clone)]
pub struct TracedVfs {
    disk: SimVfs,
    recorded: Arc<Mutex<OperationTrace>>,
}

struct TracedFile {
    inner: Arc<dyn File>,
    trace: TracedVfs,
}

impl TracedVfs {
    pub fn new(disk: SimVfs) -> TracedVfs {
        TracedVfs { disk, recorded: Arc::default() }
    }

    /// Returns a file system for another disk that adds to the same record.
    pub fn on(&self, disk: SimVfs) -> TracedVfs {
        TracedVfs { disk, recorded: self.recorded.clone() }
    }

    pub fn disk(&self) -> &SimVfs {
        &self.disk
    }

    fn record(
        &self,
        what: &'static str,
        path: &Path,
        reason: Option<IoReason>,
        offset: u64,
        bytes: u64,
        data: &[u8],
    ) {
        let kind = path.extension().map_or("other".into(), |end| end.to_string_lossy().into_owned());
        let mut recorded = self.recorded.lock();
        let sum = recorded.sums.entry((kind, what, reason)).or_default();
        *sum = (sum.0 + 1, sum.1 + bytes);
        recorded.add(&format!("{what} {} {reason:?} {offset} {bytes}", path.display()), data);
    }

    /// Records another event that occurs between operations.
    pub fn mark(&self, what: &str, data: &[u8]) {
        self.recorded.lock().add(what, data);
    }

    /// Returns a line for each kind of operation, and a hash of all operations.
    pub fn text(&self) -> String {
        let recorded = self.recorded.lock();
        let mut text = String::new();
        for ((kind, what, reason), (count, bytes)) in &recorded.sums {
            let reason = reason.map_or(String::new(), |reason| format!("{reason:?}"));
            let _ = writeln!(text, "{kind:<5} {what:<8} {reason:<16} {count:>8} {bytes:>12}");
        }
        let _ = writeln!(text, "all   {:016x}", recorded.hash);
        text
    }
}

impl VfsLayer for TracedVfs {
    fn inner(&self) -> &dyn Vfs {
        &self.disk
    }
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let inner = self.disk.open(path, mode)?;
        Ok(Arc::new(TracedFile { inner, trace: self.clone() }))
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.record("rename", to, None, 0, 0, &[]);
        self.disk.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.record("remove", path, None, 0, 0, &[]);
        self.disk.remove(path)
    }
}

impl FileLayer for TracedFile {
    fn inner(&self) -> &dyn File {
        &*self.inner
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8], reason: IoReason) -> io::Result<()> {
        self.trace.record("read", self.inner.path(), Some(reason), offset, buffer.len() as u64, &[]);
        self.inner.read_at(offset, buffer, reason)
    }
    fn write_at(&self, offset: u64, data: &[u8], reason: IoReason) -> io::Result<()> {
        self.trace.record("write", self.inner.path(), Some(reason), offset, data.len() as u64, data);
        self.inner.write_at(offset, data, reason)
    }
    fn submit(&self, batch: Vec<Transfer>) {
        for transfer in &batch {
            let (what, data) = match transfer.kind {
                TransferKind::Read => ("read", &[][..]),
                TransferKind::Write => ("write", &transfer.buffer[..]),
            };
            let bytes = transfer.buffer.len() as u64;
            self.trace.record(what, self.inner.path(), Some(transfer.reason), transfer.offset, bytes, data);
        }
        self.inner.submit(batch);
    }
    fn sync(&self, reason: IoReason) -> io::Result<()> {
        self.trace.record("sync", self.inner.path(), Some(reason), 0, 0, &[]);
        self.inner.sync(reason)
    }
    fn grow(&self, len: u64) -> io::Result<()> {
        self.trace.record("grow", self.inner.path(), None, 0, len, &[]);
        self.inner.grow(len)
    }
    fn truncate(&self, len: u64) -> io::Result<()> {
        self.trace.record("truncate", self.inner.path(), None, 0, len, &[]);
        self.inner.truncate(len)
    }
}
