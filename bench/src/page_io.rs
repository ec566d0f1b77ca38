//! Page I/O of the engine without a tree: read and verify, or seal and write, random pages at a queue depth. Also the
//! speed of checksums in memory.

use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use ese_format::checksum::{PageIntegrity, seal_page, verify_page};
use ese_format::{PageNumber, PageSize};
use jetcell_vfs::{File, IoBuffer, IoReason, OpenMode, RealOptions, RealVfs, Transfer, TransferKind, Vfs};
use serde::Serialize;

use crate::usage::ProcessUsage;
use crate::workload::FastRandom;

const PAGE_BYTES: u64 = 32 << 10;
/// Bytes of a write while the file is created.
const PREPARE_CHUNK: usize = 1 << 20;
/// Bytes whose checksums are computed: more than processor caches hold.
const CHECKSUM_BYTES: usize = 256 << 20;

/// Result of page I/O.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct PageIoResult {
    /// Pages read and written per second.
    pub iops: f64,
    /// CPU seconds per 10,000 pages.
    pub cpu_per_10k: f64,
    /// Cores that other processes used.
    pub other_cores: f64,
}

fn size() -> Result<PageSize> {
    PageSize::new(PAGE_BYTES as u32).ok_or_else(|| anyhow!("page size"))
}

/// Fills a page with bytes that do not compress and seals it for its page number.
fn make(page: &mut [u8], random: &mut FastRandom, number: PageNumber, size: PageSize) {
    page.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&random.next_u64().to_le_bytes()));
    seal_page(page, size, number);
}

/// Creates a file of valid pages, unless it exists with this size.
pub fn prepare(path: &Path, bytes: u64) -> Result<()> {
    if std::fs::metadata(path).is_ok_and(|metadata| metadata.len() == bytes) {
        return Ok(());
    }
    if path.exists() {
        std::fs::remove_file(path)?;
    }
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    let size = size()?;
    let file = RealVfs::new(RealOptions::default())?.open(path, OpenMode::CreateNew)?;
    file.grow(bytes)?;
    let mut random = FastRandom::new(bytes);
    let mut buffer = IoBuffer::zeroed(PREPARE_CHUNK);
    for at in (0..bytes).step_by(PREPARE_CHUNK) {
        for (index, page) in buffer.chunks_exact_mut(PAGE_BYTES as usize).enumerate() {
            let offset = at + index as u64 * PAGE_BYTES;
            make(page, &mut random, number_at(offset), size);
        }
        file.write_at(at, &buffer, IoReason::Other)?;
    }
    Ok(file.sync(IoReason::Other)?)
}

/// The page number at an offset. These files have no header.
fn number_at(offset: u64) -> PageNumber {
    PageNumber::fixed((offset / PAGE_BYTES) as u32 + 1)
}

/// A transfer before or after it is made. A page to be written is sealed.
struct PageTransfer {
    kind: TransferKind,
    offset: u64,
    buffer: IoBuffer,
}

/// Keeps a number of transfers in flight: each completion starts the next transfer.
struct TransferLoop {
    file: Arc<dyn File>,
    size: PageSize,
    pages: u64,
    read_percent: u64,
    end: Instant,
    state: Mutex<LoopState>,
    /// Notified when a completion starts no further transfer.
    idle: Condvar,
}

struct LoopState {
    random: FastRandom,
    /// Prepared while other transfers were in flight.
    ready: Vec<PageTransfer>,
    /// Transfers in flight, and completed transfers that will start the next one.
    in_flight: u32,
    count: u64,
    failure: Option<String>,
}

impl TransferLoop {
    fn state(&self) -> MutexGuard<'_, LoopState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Draws the next transfer for a buffer, and seals the page if it will be written.
    fn prepare(&self, mut buffer: IoBuffer) -> PageTransfer {
        let (offset, read) = {
            let random = &mut self.state().random;
            (random.next_below(self.pages) * PAGE_BYTES, random.next_below(100) < self.read_percent)
        };
        let kind = if read { TransferKind::Read } else { TransferKind::Write };
        if kind == TransferKind::Write {
            seal_page(&mut buffer, self.size, number_at(offset));
        }
        PageTransfer { kind, offset, buffer }
    }

    /// Counts a transfer, and verifies the page if it was read.
    fn check(&self, step: &mut PageTransfer, result: std::io::Result<()>) {
        let failure = match result {
            Err(error) => Some(format!("page at {}: {error}", step.offset)),
            Ok(()) if step.kind == TransferKind::Write => None,
            Ok(()) => {
                let verdict = verify_page(&mut step.buffer, self.size, number_at(step.offset));
                (verdict != PageIntegrity::Good)
                    .then(|| format!("page at {} failed verification", step.offset))
            }
        };
        let mut state = self.state();
        state.count += 1;
        state.failure = state.failure.take().or(failure);
    }

    /// Starts a prepared transfer, if there is one and the time is not over.
    fn start(self: &Arc<Self>) -> bool {
        if Instant::now() >= self.end {
            return false;
        }
        let mut state = self.state();
        let ready = if state.failure.is_none() { state.ready.pop() } else { None };
        drop(state);
        let Some(PageTransfer { kind, offset, buffer }) = ready else { return false };
        let flow = self.clone();
        let done =
            move |result, buffer| flow.handle_completion(PageTransfer { kind, offset, buffer }, result);
        let (reason, done) = (IoReason::DatabaseRead, Box::new(done));
        self.file.submit(vec![Transfer { kind, offset, buffer, reason, done }]);
        true
    }

    /// Handles a completion. It starts a prepared transfer first, so that the device never waits for the processor;
    /// then it verifies the page and prepares its buffer for a later transfer.
    fn handle_completion(self: &Arc<Self>, mut step: PageTransfer, result: std::io::Result<()>) {
        let followed = self.start();
        self.check(&mut step, result);
        let next = self.prepare(step.buffer);
        self.state().ready.push(next);
        if !followed && !self.start() {
            self.state().in_flight -= 1;
            self.idle.notify_all();
        }
    }
}

/// Runs page I/O at a queue depth for some time.
pub fn run(path: &Path, depth: u32, read_percent: u64, time: Duration) -> Result<PageIoResult> {
    let file = RealVfs::new(RealOptions::default())?.open(path, OpenMode::Write)?;
    let pages = file.len()? / PAGE_BYTES;
    if pages == 0 || depth == 0 {
        bail!("the number of pages and the depth must not be 0");
    }
    let directory = path.parent().unwrap_or(Path::new("."));
    let mut filler = FastRandom::new(1);
    let mut buffer = || {
        let mut buffer = IoBuffer::zeroed(PAGE_BYTES as usize);
        buffer.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&filler.next_u64().to_le_bytes()));
        buffer
    };
    let state = LoopState {
        random: FastRandom::new(u64::from(depth)),
        ready: Vec::new(),
        in_flight: depth,
        count: 0,
        failure: None,
    };
    let flow = Arc::new(TransferLoop {
        file,
        size: size()?,
        pages,
        read_percent,
        end: Instant::now() + time,
        state: Mutex::new(state),
        idle: Condvar::new(),
    });
    let before = ProcessUsage::now(directory)?;
    if depth == 1 {
        // Depth 1 is a session that misses a page: the session calls, and waits in the call.
        let mut buffer = buffer();
        while Instant::now() < flow.end && flow.state().failure.is_none() {
            let mut step = flow.prepare(buffer);
            let result = match step.kind {
                TransferKind::Read => {
                    flow.file.read_at(step.offset, &mut step.buffer, IoReason::DatabaseRead)
                }
                TransferKind::Write => flow.file.write_at(step.offset, &step.buffer, IoReason::EvictionWrite),
            };
            flow.check(&mut step, result);
            buffer = step.buffer;
        }
    } else {
        // One more than are in flight: it is prepared while they run.
        let ready: Vec<PageTransfer> = (0..=depth).map(|_| flow.prepare(buffer())).collect();
        flow.state().ready = ready;
        let started = (0..depth).filter(|_| flow.start()).count() as u32;
        let mut state = flow.state();
        state.in_flight -= depth - started;
        while state.in_flight > 0 {
            state = flow.idle.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
    let used = before.until_now(directory)?;
    let state = flow.state();
    if let Some(failure) = &state.failure {
        bail!("{failure}");
    }
    Ok(PageIoResult {
        iops: state.count as f64 / used.seconds,
        cpu_per_10k: used.cpu_seconds / state.count as f64 * 1e4,
        other_cores: used.other_cores,
    })
}

/// Speed of checksums.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ChecksumResult {
    /// Bytes verified in memory per CPU second by one thread.
    pub bytes_per_second: f64,
    /// Cores that other processes used.
    pub other_cores: f64,
}

/// Verifies pages in memory, without I/O.
pub fn checksum(time: Duration) -> Result<ChecksumResult> {
    let size = size()?;
    let mut random = FastRandom::new(3);
    let mut pages = IoBuffer::zeroed(CHECKSUM_BYTES);
    for (index, page) in pages.chunks_exact_mut(PAGE_BYTES as usize).enumerate() {
        make(page, &mut random, number_at(index as u64 * PAGE_BYTES), size);
    }
    let before = ProcessUsage::now(Path::new("."))?;
    let start = Instant::now();
    let mut bytes = 0u64;
    while start.elapsed() < time {
        for (index, page) in pages.chunks_exact_mut(PAGE_BYTES as usize).enumerate() {
            if verify_page(page, size, number_at(index as u64 * PAGE_BYTES)) != PageIntegrity::Good {
                bail!("page {index} in memory failed verification");
            }
        }
        bytes += CHECKSUM_BYTES as u64;
    }
    let used = before.until_now(Path::new("."))?;
    Ok(ChecksumResult { bytes_per_second: bytes as f64 / used.cpu_seconds, other_cores: used.other_cores })
}
