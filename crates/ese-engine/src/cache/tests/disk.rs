//! An in-memory file, and a log that consists only of positions. Each page stores the log position and the undo that
//! must be logged before the page is written.
//!
//! Every page stores one record: a value, the end of the log record that set it, and the id of the undo that it
//! depends on. When a page is written, the disk panics if the page's log records are not durable, if its undo is not
//! logged, if it has another write in flight, or if its checksum is wrong.

use std::collections::{BTreeSet, HashSet};
use std::io;
use std::path::Path;
use std::time::Duration;

use ese_format::checksum::{PageIntegrity, seal_page, verify_page};
use ese_format::page::{NodeFlags, Page, PageFlags, PageMut};
use ese_format::{LogPosition, PageNumber, PageSize, TreeId};
use jetcell_sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use jetcell_sync::{Arc, Mutex, mpsc};
use jetcell_vfs::{Clock, File, IoReason, Transfer, TransferKind};

use crate::cache::{DeferredUndo, ProtectedBatch, TornPageGuard, WriteAhead};
use crate::{InstanceFailure, Result};

pub const SIZE: PageSize = PageSize::KIB_4;

#[derive(Default)]
pub struct TestClock(AtomicU64);

impl Clock for TestClock {
    fn unix_ms(&self) -> i64 {
        0
    }
    fn monotonic(&self) -> Duration {
        Duration::from_micros(self.0.load(Ordering::Relaxed))
    }
    fn sleep(&self, duration: Duration) {
        self.0.fetch_add(duration.as_micros() as u64, Ordering::Relaxed);
        // The sleep is long enough for the other thread to run.
        jetcell_sync::thread::sleep(Duration::from_micros(20));
    }
}

/// Returns the position with this number. The number goes into the segment field, because all offsets before the first
/// record of a segment count as equal.
pub fn position(number: u64) -> LogPosition {
    LogPosition::from_u64(number << 16)
}

pub fn number_of(position: LogPosition) -> u64 {
    position.to_u64() >> 16
}

/// A log that has positions but no records.
#[derive(Default)]
pub struct TestLog {
    tip: AtomicU64,
    durable: AtomicU64,
    undo_ids: AtomicU64,
    pub undo_logged: Mutex<HashSet<u64>>,
    pub flushes: AtomicU64,
    pub refuse_undo: AtomicBool,
    pub refuse_protection: AtomicBool,
    pub refuse_flush: AtomicBool,
    /// Function that is called during a flush.
    pub during_flush: Mutex<Option<Box<dyn FnMut() + Send>>>,
    /// While this mutex is locked, flushes are counted and then block.
    pub gate: Mutex<()>,
}

impl TestLog {
    pub fn tip(&self) -> LogPosition {
        position(self.tip.load(Ordering::SeqCst))
    }

    pub fn append(&self) -> LogPosition {
        position(self.tip.fetch_add(1, Ordering::SeqCst) + 1)
    }

    pub fn undo(self: &Arc<Self>) -> Arc<TestUndo> {
        let id = self.undo_ids.fetch_add(1, Ordering::SeqCst) + 1;
        Arc::new(TestUndo { id, log: self.clone(), settled: Mutex::new(None) })
    }
}

impl WriteAhead for TestLog {
    fn durable(&self) -> LogPosition {
        position(self.durable.load(Ordering::SeqCst))
    }
    fn flush(&self, upto: LogPosition) -> Result<()> {
        assert!(upto <= self.tip(), "flush of a position that was never appended");
        self.flushes.fetch_add(1, Ordering::SeqCst);
        drop(self.gate.lock());
        if self.refuse_flush.load(Ordering::SeqCst) {
            return Err(crate::Error::ReadOnly(InstanceFailure::Ended));
        }
        let meanwhile = self.during_flush.lock().take();
        if let Some(mut meanwhile) = meanwhile {
            meanwhile();
            *self.during_flush.lock() = Some(meanwhile);
        }
        self.durable.fetch_max(number_of(upto), Ordering::SeqCst);
        Ok(())
    }
    fn request_flush(&self, _upto: LogPosition) {}
    fn torn_page_guard(&self) -> Option<&dyn TornPageGuard> {
        Some(self)
    }
}

impl TornPageGuard for TestLog {
    fn batch_limit(&self) -> usize {
        usize::MAX
    }
    fn protect(&self, _pages: &[(PageNumber, &[u8])]) -> Result<ProtectedBatch> {
        if self.refuse_protection.load(Ordering::SeqCst) {
            Err(crate::Error::ReadOnly(InstanceFailure::NoPreparedLog))
        } else {
            Ok(Box::new(()))
        }
    }
}

/// The before-image of one change.
pub struct TestUndo {
    pub id: u64,
    log: Arc<TestLog>,
    settled: Mutex<Option<LogPosition>>,
}

impl TestUndo {
    /// Commits the transaction with a record that ends at `end`.
    pub fn commit(&self, end: LogPosition) {
        self.log.undo_logged.lock().insert(self.id);
        *self.settled.lock() = Some(end);
    }
}

impl DeferredUndo for TestUndo {
    fn log(&self) -> Result<Option<LogPosition>> {
        if self.log.refuse_undo.load(Ordering::SeqCst) {
            return Err(crate::Error::DiskFull { path: "log".into(), advice: None });
        }
        let end = self.log.append();
        self.log.undo_logged.lock().insert(self.id);
        *self.settled.lock() = Some(end);
        Ok(Some(end))
    }
    fn resolved_at(&self) -> Option<LogPosition> {
        *self.settled.lock()
    }
}

/// A simulated file with faults that tests can enable.
pub struct TestDisk {
    bytes: Mutex<Vec<u8>>,
    log: Arc<TestLog>,
    worker: Option<Mutex<mpsc::Sender<Transfer>>>,
    writing: Mutex<BTreeSet<u64>>,
    pub reads: Mutex<Vec<u32>>,
    pub writes: Mutex<Vec<(u32, usize)>>,
    pub fail_reads: AtomicBool,
    pub fail_writes: AtomicBool,
    pub fail_sync: AtomicBool,
    /// Number of upcoming reads that will return wrong bytes.
    pub bad_reads: AtomicU64,
    /// While this mutex is locked, reads and completions of asynchronous transfers wait.
    pub gate: Mutex<()>,
    held: Mutex<Vec<Transfer>>,
    /// Whether transfers are held back until [`TestDisk::release`] is called.
    pub hold: AtomicBool,
    /// Maximum number of pages in transfers that are held back. When this is exceeded, the oldest transfers are
    /// performed.
    pub hold_at_most: AtomicUsize,
}

impl TestDisk {
    pub fn new(pages: u32, log: Arc<TestLog>, background: bool) -> Arc<TestDisk> {
        let mut bytes = vec![0; SIZE.bytes() * (pages as usize + 2)];
        for number in 1..=pages {
            let number = PageNumber::fixed(number);
            let page = &mut bytes[SIZE.offset_of(number) as usize..][..SIZE.bytes()];
            format(page, number);
            seal_page(page, SIZE, number);
        }
        let (sender, receiver) = mpsc::channel::<Transfer>();
        let disk = Arc::new(TestDisk {
            bytes: Mutex::new(bytes),
            log,
            worker: background.then(|| Mutex::new(sender)),
            writing: Mutex::default(),
            reads: Mutex::default(),
            writes: Mutex::default(),
            fail_reads: AtomicBool::new(false),
            fail_writes: AtomicBool::new(false),
            fail_sync: AtomicBool::new(false),
            bad_reads: AtomicU64::new(0),
            gate: Mutex::default(),
            held: Mutex::default(),
            hold: AtomicBool::new(false),
            hold_at_most: AtomicUsize::new(usize::MAX),
        });
        if background {
            let weak = Arc::downgrade(&disk);
            jetcell_sync::thread::spawn(move || {
                // Completes transfers out of order, as devices do.
                let mut queue = Vec::new();
                while let Ok(transfer) = receiver.recv() {
                    queue.push(transfer);
                    queue.extend(receiver.try_iter().take(7));
                    queue.reverse();
                    for transfer in queue.drain(..) {
                        match weak.upgrade() {
                            Some(disk) => disk.perform(transfer),
                            None => return,
                        }
                    }
                }
            });
        }
        disk
    }

    /// Returns the bytes of a page on the device.
    pub fn stored(&self, page: u32) -> Vec<u8> {
        let start = SIZE.offset_of(PageNumber::fixed(page)) as usize;
        self.bytes.lock()[start..start + SIZE.bytes()].to_vec()
    }

    pub fn value(&self, page: u32) -> u64 {
        value(&self.stored(page))
    }

    pub fn damage(&self, page: u32, change: impl FnOnce(&mut [u8])) {
        let start = SIZE.offset_of(PageNumber::fixed(page)) as usize;
        change(&mut self.bytes.lock()[start..start + SIZE.bytes()]);
    }

    /// Returns the transfers that are held back: first page, number of pages, and reason.
    pub fn held(&self) -> Vec<(u32, usize, IoReason)> {
        let describe = |transfer: &Transfer| {
            (first_page(transfer.offset) as u32, transfer.buffer.len() / SIZE.bytes(), transfer.reason)
        };
        self.held.lock().iter().map(describe).collect()
    }

    /// Performs the transfers that were held back.
    pub fn release(&self) {
        self.hold.store(false, Ordering::SeqCst);
        let held = std::mem::take(&mut *self.held.lock());
        held.into_iter().for_each(|transfer| self.perform(transfer));
    }

    fn hold(&self, transfer: Transfer) {
        let most = self.hold_at_most.load(Ordering::SeqCst);
        let mut held = self.held.lock();
        held.push(transfer);
        while held.iter().map(|transfer| transfer.buffer.len() / SIZE.bytes()).sum::<usize>() > most {
            let oldest = held.remove(0);
            self.perform(oldest);
        }
    }

    fn perform(&self, mut transfer: Transfer) {
        drop(self.gate.lock());
        let result = match transfer.kind {
            TransferKind::Read => self.read(transfer.offset, &mut transfer.buffer),
            TransferKind::Write => self.write(transfer.offset, &transfer.buffer),
        };
        if transfer.kind == TransferKind::Write {
            let mut writing = self.writing.lock();
            pages_of(transfer.offset, &transfer.buffer).for_each(|page| assert!(writing.remove(&page)));
        }
        (transfer.done)(result, transfer.buffer);
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.reads.lock().extend(pages_of(offset, buffer).map(|page| page as u32));
        if self.fail_reads.load(Ordering::SeqCst) {
            return Err(io::Error::other("read fault"));
        }
        let bytes = self.bytes.lock();
        let from = bytes.get(offset as usize..offset as usize + buffer.len());
        buffer.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
        let less = |left: u64| left.checked_sub(1);
        if self.bad_reads.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok() {
            buffer[100..120].fill(0xa5);
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if self.fail_writes.load(Ordering::SeqCst) {
            return Err(io::Error::other("write fault"));
        }
        for (page, bytes) in pages_of(offset, data).zip(data.chunks_exact(SIZE.bytes())) {
            let number = PageNumber::fixed(page as u32);
            assert_eq!(verify_page(&mut bytes.to_vec(), SIZE, number), PageIntegrity::Good);
            let (_, end, undo) = record(bytes);
            assert!(end <= self.log.durable(), "page {page} written before its log was durable");
            assert!(
                undo == 0 || self.log.undo_logged.lock().contains(&undo),
                "page {page} written before its undo"
            );
        }
        self.writes.lock().push((first_page(offset) as u32, data.len() / SIZE.bytes()));
        self.bytes.lock()[offset as usize..offset as usize + data.len()].copy_from_slice(data);
        Ok(())
    }
}

fn first_page(offset: u64) -> u64 {
    offset / SIZE.get() as u64 - 1
}

fn pages_of(offset: u64, data: &[u8]) -> impl Iterator<Item = u64> + use<> {
    let first = first_page(offset);
    first..first + (data.len() / SIZE.bytes()) as u64
}

impl File for TestDisk {
    fn path(&self) -> &Path {
        Path::new("test.edb")
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8], _: IoReason) -> io::Result<()> {
        drop(self.gate.lock());
        self.read(offset, buffer)
    }
    fn write_at(&self, _: u64, _: &[u8], _: IoReason) -> io::Result<()> {
        unreachable!("the cache writes in batches")
    }
    fn submit(&self, batch: Vec<Transfer>) {
        for transfer in batch {
            if transfer.kind == TransferKind::Write {
                let mut writing = self.writing.lock();
                for page in pages_of(transfer.offset, &transfer.buffer) {
                    assert!(writing.insert(page), "page {page} has two writes in flight");
                }
            }
            if self.hold.load(Ordering::SeqCst) {
                self.hold(transfer);
            } else if let Some(worker) = &self.worker {
                worker.lock().send(transfer).unwrap();
            } else {
                self.perform(transfer);
            }
        }
    }
    fn sync(&self, _: IoReason) -> io::Result<()> {
        if self.fail_sync.load(Ordering::SeqCst) { Err(io::Error::other("sync fault")) } else { Ok(()) }
    }
    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.lock().len() as u64)
    }
    fn grow(&self, len: u64) -> io::Result<()> {
        self.bytes.lock().resize(len as usize, 0);
        Ok(())
    }
    fn truncate(&self, len: u64) -> io::Result<()> {
        self.bytes.lock().truncate(len as usize);
        Ok(())
    }
}

/// Formats a leaf with one empty record.
pub fn format(page: &mut [u8], number: PageNumber) {
    let flags = PageFlags::ROOT | PageFlags::LEAF | PageFlags::NEW_RECORD | PageFlags::NEW_CHECKSUM;
    let mut page = PageMut::format(page, SIZE, number, TreeId(2), flags);
    page.insert_node(0, NodeFlags::empty(), b"key", &[0; 24]).unwrap();
}

fn record(page: &[u8]) -> (u64, LogPosition, u64) {
    let data = Page::new(page, SIZE).node(0).unwrap().data;
    let word = |at: usize| u64::from_le_bytes(data[at..at + 8].try_into().unwrap());
    (word(0), position(word(8)), word(16))
}

pub fn value(page: &[u8]) -> u64 {
    record(page).0
}

pub fn set_value(page: &mut [u8], value: u64, end: LogPosition, undo: u64) {
    let data = [value, number_of(end), undo].map(u64::to_le_bytes).concat();
    PageMut::new(page, SIZE).replace_data(0, &data).unwrap();
}
