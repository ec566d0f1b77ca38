//! The engine's way to pages without a tree: read and verify, or seal and write, pages at random, so many at a time;
//! and the arithmetic of checksums alone.

use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use ese_format::checksum::{PageVerdict, seal_page, verify_page};
use ese_format::{PageNumber, PageSize};
use serde::Serialize;
use vfs::{File, IoBuffer, IoReason, OpenMode, RealOptions, RealVfs, Transfer, TransferKind, Vfs};

use crate::usage::Usage;
use crate::work::Random;

const PAGE: u64 = 32 << 10;
/// Bytes written at a time when the file is made.
const PREPARE: usize = 1 << 20;
/// Bytes whose checksums are computed: more than caches hold.
const ARITHMETIC: usize = 256 << 20;

/// What the path reached.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct PageIoResult {
    /// Pages per second, both ways.
    pub iops: f64,
    /// CPU seconds per 10,000 pages.
    pub cpu_per_10k: f64,
    /// Cores that others used.
    pub other_cores: f64,
}

fn size() -> Result<PageSize> {
    PageSize::new(PAGE as u32).ok_or_else(|| anyhow!("page size"))
}

/// A page with bytes that do not compress, sealed for its place.
fn make(page: &mut [u8], random: &mut Random, number: PageNumber, size: PageSize) {
    page.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&random.word().to_le_bytes()));
    seal_page(page, size, number);
}

/// A file of valid pages; kept if it is there already.
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
    let mut random = Random::new(bytes);
    let mut buffer = IoBuffer::zeroed(PREPARE);
    for at in (0..bytes).step_by(PREPARE) {
        for (index, page) in buffer.chunks_exact_mut(PAGE as usize).enumerate() {
            let offset = at + index as u64 * PAGE;
            make(page, &mut random, number_at(offset), size);
        }
        file.write_at(at, &buffer, IoReason::Other)?;
    }
    Ok(file.sync(IoReason::Other)?)
}

/// The number of the page at an offset; these files have no headers.
fn number_at(offset: u64) -> PageNumber {
    PageNumber::fixed((offset / PAGE) as u32 + 1)
}

/// What ended: the buffer, its offset, and how it went.
struct Ended {
    kind: TransferKind,
    offset: u64,
    buffer: IoBuffer,
    result: std::io::Result<()>,
}

/// Runs the path at a queue depth for some time.
pub fn run(path: &Path, depth: u32, read_percent: u64, time: Duration) -> Result<PageIoResult> {
    let size = size()?;
    let file = RealVfs::new(RealOptions::default())?.open(path, OpenMode::Write)?;
    let pages = file.len()? / PAGE;
    if pages == 0 || depth == 0 {
        bail!("no pages, or no depth");
    }
    let directory = path.parent().unwrap_or(Path::new("."));
    let mut random = Random::new(u64::from(depth));
    let mut next = |buffer: &mut IoBuffer| {
        let offset = random.below(pages) * PAGE;
        let kind = if random.below(100) < read_percent { TransferKind::Read } else { TransferKind::Write };
        if kind == TransferKind::Write {
            seal_page(buffer, size, number_at(offset));
        }
        (kind, offset)
    };
    let check = |ended: &mut Ended| -> Result<()> {
        std::mem::replace(&mut ended.result, Ok(()))?;
        if ended.kind == TransferKind::Read
            && verify_page(&mut ended.buffer, size, number_at(ended.offset)) != PageVerdict::Good
        {
            bail!("page at {} does not verify", ended.offset);
        }
        Ok(())
    };
    let mut filler = Random::new(1);
    let mut buffers: Vec<IoBuffer> = (0..depth).map(|_| IoBuffer::zeroed(PAGE as usize)).collect();
    for buffer in &mut buffers {
        buffer.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&filler.word().to_le_bytes()));
    }
    let before = Usage::now(directory)?;
    let start = Instant::now();
    let mut count = 0u64;
    if let [buffer] = buffers.as_mut_slice() {
        // One at a time is what a session that misses a page does: it calls, and waits in the call.
        while start.elapsed() < time {
            let (kind, offset) = next(buffer);
            let result = match kind {
                TransferKind::Read => file.read_at(offset, buffer, IoReason::DatabaseRead),
                TransferKind::Write => file.write_at(offset, buffer, IoReason::EvictionWrite),
            };
            let taken = std::mem::replace(buffer, IoBuffer::zeroed(0));
            let mut ended = Ended { kind, offset, buffer: taken, result };
            check(&mut ended)?;
            *buffer = ended.buffer;
            count += 1;
        }
    } else {
        let ended: Arc<(Mutex<Vec<Ended>>, Condvar)> = Arc::default();
        let mut under_way = 0;
        let mut submit = |file: &Arc<dyn File>, buffers: Vec<IoBuffer>| {
            let mut batch = Vec::with_capacity(buffers.len());
            for mut buffer in buffers {
                let (kind, offset) = next(&mut buffer);
                let ended = ended.clone();
                let done = move |result, buffer| {
                    if let Ok(mut list) = ended.0.lock() {
                        list.push(Ended { kind, offset, buffer, result });
                    }
                    ended.1.notify_one();
                };
                batch.push(Transfer {
                    kind,
                    offset,
                    buffer,
                    reason: IoReason::DatabaseRead,
                    done: Box::new(done),
                });
            }
            file.submit(batch);
        };
        under_way += buffers.len();
        submit(&file, buffers);
        while under_way > 0 {
            let list = ended.0.lock().map_err(|_| anyhow!("a completion panicked"))?;
            let mut list = ended
                .1
                .wait_while(list, |list| list.is_empty())
                .map_err(|_| anyhow!("a completion panicked"))?;
            let mut some = std::mem::take(&mut *list);
            drop(list);
            some.iter_mut().try_for_each(check)?;
            count += some.len() as u64;
            if start.elapsed() < time {
                submit(&file, some.into_iter().map(|one| one.buffer).collect());
            } else {
                under_way -= some.len();
            }
        }
    }
    let used = before.until_now(directory)?;
    Ok(PageIoResult {
        iops: count as f64 / used.seconds,
        cpu_per_10k: used.cpu_seconds / count as f64 * 1e4,
        other_cores: used.other_cores,
    })
}

/// What computing checksums reached.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ChecksumResult {
    /// Bytes verified per second of CPU, in memory, by one thread.
    pub bytes_per_second: f64,
    /// Cores that others used.
    pub other_cores: f64,
}

/// Verifies pages in memory, without I/O.
pub fn checksum(time: Duration) -> Result<ChecksumResult> {
    let size = size()?;
    let mut random = Random::new(3);
    let mut pages = IoBuffer::zeroed(ARITHMETIC);
    for (index, page) in pages.chunks_exact_mut(PAGE as usize).enumerate() {
        make(page, &mut random, number_at(index as u64 * PAGE), size);
    }
    let before = Usage::now(Path::new("."))?;
    let start = Instant::now();
    let mut bytes = 0u64;
    while start.elapsed() < time {
        for (index, page) in pages.chunks_exact_mut(PAGE as usize).enumerate() {
            if verify_page(page, size, number_at(index as u64 * PAGE)) != PageVerdict::Good {
                bail!("page {index} in memory does not verify");
            }
        }
        bytes += ARITHMETIC as u64;
    }
    let used = before.until_now(Path::new("."))?;
    Ok(ChecksumResult { bytes_per_second: bytes as f64 / used.cpu_seconds, other_cores: used.other_cores })
}
