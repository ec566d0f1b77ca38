//! Verifies each page on its own: checksum and page number. Keeps many reads in flight and uses all processors.
//!
//! Pages beyond the owned space have no meaning and are not checked, but those that are all zero are counted. A zero
//! page is legal unless a tree refers to it, which only the structure check can determine.

pub mod database;
pub(crate) mod flush_types;
pub(crate) mod page_comparison;
pub(crate) mod page_set;
pub(crate) mod page_status;
pub mod reader;
pub(crate) mod spare_buffers;
pub(crate) mod task_reads;
pub(crate) mod verified_pages;

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{io, thread};

use ese_format::PageNumber;
use ese_format::checksum::PageIntegrity;
use jetcell_vfs::{File, IoBuffer, IoReason, Transfer, TransferKind};

use crate::findings::Findings;
use crate::findings::finding::{FindingKind, Severity};
use crate::options::{CheckPhase, CheckProgress, CheckProgressFn};
use crate::pages::database::ReadableDatabase;
use crate::pages::page_set::PageSet;
use crate::pages::page_status::{PageCounts, PageStatus, report};
use crate::pages::verified_pages::VerifiedPages;

/// Number of bytes per read.
const CHUNK_LEN: u32 = 256 * 1024;
/// Maximum number of reads in flight.
const MAX_READS_IN_FLIGHT: usize = 16;
/// Number of reads to prepare in addition to those in flight.
const MAX_PREPARED_READS: usize = 8;
/// Minimum file length in bytes at which the memory for all reads is allocated in one piece.
const MIN_SLAB_FILE_LEN: u64 = 64 << 20;

/// A run of pages that has been read.
struct PageChunk {
    first: PageNumber,
    count: u32,
    result: io::Result<()>,
    buffer: IoBuffer,
}

/// A queue of reads. When a read completes, the next one starts immediately, before a worker has checked the pages.
struct ReadQueue {
    file: Arc<dyn File>,
    max_in_flight: usize,
    state: Mutex<QueueState>,
}

#[derive(Default)]
struct QueueState {
    in_flight: usize,
    /// Reads that have not started, each with its first page.
    ready: VecDeque<(PageNumber, Transfer)>,
}

impl ReadQueue {
    fn new(file: Arc<dyn File>, most: usize) -> Arc<ReadQueue> {
        Arc::new(ReadQueue { file, max_in_flight: most, state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends reads to the queue.
    fn extend(&self, reads: Vec<(PageNumber, Transfer)>) {
        let mut state = self.state();
        state.ready.extend(reads);
        let count = (self.max_in_flight - state.in_flight).min(state.ready.len());
        state.in_flight += count;
        let batch: Vec<Transfer> = state.ready.drain(..count).map(|(_, read)| read).collect();
        drop(state);
        if !batch.is_empty() {
            self.file.submit(batch);
        }
    }

    /// Starts the next read after another read has completed.
    fn start_next(&self) {
        let mut state = self.state();
        let Some((_, next)) = state.ready.pop_front() else {
            state.in_flight -= 1;
            return;
        };
        drop(state);
        self.file.submit(vec![next]);
    }

    /// Removes the reads that have not started. Returns how many there were, and the first page of the first one.
    fn cancel_pending(&self) -> (usize, Option<PageNumber>) {
        let ready = std::mem::take(&mut self.state().ready);
        (ready.len(), ready.front().map(|(first, _)| *first))
    }
}

/// Status of the pages in one chunk.
struct VerifiedChunk {
    verdicts: Vec<(PageNumber, PageStatus)>,
    good: u64,
    zero: Vec<PageNumber>,
    beyond_zero: u64,
    pages: u32,
    buffer: IoBuffer,
}

/// Verifies the pages in `from..=last_owned` that are within the file. Pages in `verified_before` are not read again,
/// but are counted with their known status. Holes in the file consist of zero pages, which are not read. Adds each owned
/// page that is zero to `zero_pages`, except for pages in holes. If the check was cancelled, returns the page at which
/// to resume.
pub(crate) fn verify_pages(
    database: &ReadableDatabase,
    from: PageNumber,
    last_owned: u32,
    verified_before: Option<&VerifiedPages>,
    zero_pages: &mut PageSet,
    findings: &mut Findings,
    progress: Option<&CheckProgressFn>,
) -> (PageCounts, Option<PageNumber>) {
    let (last, file_last) = (last_owned.min(database.file_pages), database.file_pages);
    let from = from.get().min(file_last.saturating_add(1));
    let mut counts = PageCounts {
        beyond_owned: u64::from(database.file_pages - last),
        missing: u64::from(last_owned - last),
        ..verified_before.map_or_else(PageCounts::default, |judged| judged.counts)
    };
    if counts.missing > 0 {
        let what = format!("the file ends after page {last}, but the database owns pages up to {last_owned}");
        findings.add_at_offset(Severity::Warning, FindingKind::FileTruncated, None, what);
    }
    let mut resume = None;
    let (completed, chunks) = channel::<PageChunk>();
    let (judged_sender, judged) = channel::<VerifiedChunk>();
    let chunks = Mutex::new(chunks);
    thread::scope(|scope| {
        for _ in 0..database.threads {
            let (chunks, judged) = (&chunks, judged_sender.clone());
            scope.spawn(move || check_chunks(database, last, verified_before, chunks, &judged));
        }
        drop(judged_sender);
        let pace = &database.pace;
        let per_chunk = (CHUNK_LEN / database.page_size.get()).max(1);
        let (most, ready) =
            if pace.is_limited() { (1, 0) } else { (MAX_READS_IN_FLIGHT, MAX_PREPARED_READS) };
        let queue = ReadQueue::new(database.file.clone(), most);
        let mut next = from;
        let mut outstanding = 0;
        // Allocating all buffers at once allows the kernel to use huge pages. Small files do not need this.
        let mut spare = if u64::from(file_last) * database.page_size.bytes() as u64 >= MIN_SLAB_FILE_LEN {
            IoBuffer::slab(most + ready, CHUNK_LEN as usize).unwrap_or_default()
        } else {
            Vec::new()
        };
        let mut done = u64::from(from) - 1;
        loop {
            let mut reads = Vec::new();
            while outstanding < most + ready && next <= file_last && !pace.is_cancelled() {
                let hole = database.hole_at(PageNumber::fixed(next)).min(file_last - next + 1);
                if hole >= per_chunk {
                    let owned = hole.min(last.saturating_sub(next - 1));
                    let is_counted = |page: &u32| {
                        verified_before.is_some_and(|judged| judged.contains(PageNumber::fixed(*page)))
                    };
                    let counted = (next..next + owned).filter(is_counted).count();
                    counts.zero += u64::from(hole) - counted as u64;
                    counts.beyond_owned_zero += u64::from(hole - owned);
                    next = next.saturating_add(hole);
                    done += u64::from(hole);
                    continue;
                }
                let count = per_chunk.min(file_last - next + 1);
                if verified_before.is_some_and(|judged| {
                    (next..next + count).all(|page| judged.contains(PageNumber::fixed(page)))
                }) {
                    next += count;
                    done += u64::from(count);
                    continue;
                }
                pace.wait(u64::from(count) * database.page_size.bytes() as u64);
                let first = PageNumber::fixed(next);
                reads.push((first, request(database, first, count, spare.pop(), &queue, &completed)));
                outstanding += 1;
                next += count;
            }
            queue.extend(reads);
            if pace.is_cancelled() {
                let (count, first) = queue.cancel_pending();
                outstanding -= count;
                next = first.map_or(next, PageNumber::get);
            }
            if outstanding == 0 {
                break;
            }
            // Workers live until `completed` is dropped, and return each chunk exactly once.
            let Ok(chunk) = judged.recv() else { break };
            outstanding -= 1;
            done += u64::from(chunk.pages);
            counts.good += chunk.good;
            counts.zero += chunk.zero.len() as u64 + chunk.beyond_zero;
            for page in chunk.zero {
                zero_pages.insert(page);
            }
            counts.beyond_owned_zero += chunk.beyond_zero;
            for (page, verdict) in chunk.verdicts {
                report(page, &verdict, &mut counts, findings);
            }
            spare.push(chunk.buffer);
            if let Some(progress) = progress {
                progress(CheckProgress { phase: CheckPhase::Pages, done, total: u64::from(file_last) });
            }
        }
        if next <= file_last {
            resume = Some(PageNumber::fixed(next));
        }
        drop(completed);
    });
    (counts, resume)
}

fn request(
    database: &ReadableDatabase,
    first: PageNumber,
    count: u32,
    spare: Option<IoBuffer>,
    queue: &Arc<ReadQueue>,
    completed: &Sender<PageChunk>,
) -> Transfer {
    let (offset, len, _) = database.aligned_range(first, count);
    let buffer = spare.filter(|buffer| buffer.len() == len).unwrap_or_else(|| IoBuffer::zeroed(len));
    let (queue, completed) = (queue.clone(), completed.clone());
    Transfer {
        kind: TransferKind::Read,
        offset,
        buffer,
        reason: IoReason::Verify,
        done: Box::new(move |result, buffer| {
            queue.start_next();
            // The receiver is dropped only after the check has ended.
            drop(completed.send(PageChunk { first, count, result, buffer }));
        }),
    }
}

fn check_chunks(
    database: &ReadableDatabase,
    last: u32,
    before: Option<&VerifiedPages>,
    chunks: &Mutex<Receiver<PageChunk>>,
    judged: &Sender<VerifiedChunk>,
) {
    loop {
        let chunk = chunks.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(chunk) = chunk else { return };
        if judged.send(check_chunk(database, last, before, chunk)).is_err() {
            return;
        }
    }
}

fn check_chunk(
    database: &ReadableDatabase,
    last: u32,
    before: Option<&VerifiedPages>,
    mut chunk: PageChunk,
) -> VerifiedChunk {
    let mut verdicts = Vec::new();
    let (mut good, mut zero, mut beyond_zero) = (0, Vec::new(), 0);
    let (_, _, start) = database.aligned_range(chunk.first, chunk.count);
    let page_len = database.page_size.bytes();
    for index in 0..chunk.count {
        let number = chunk.first.plus(index);
        if before.is_some_and(|judged| judged.contains(number)) {
            continue;
        }
        let at = start + index as usize * page_len;
        if number.get() > last {
            let page = chunk.buffer.get(at..at + page_len).filter(|_| chunk.result.is_ok());
            beyond_zero += u64::from(page.is_some_and(|page| page.iter().all(|&byte| byte == 0)));
            continue;
        }
        let verdict = match (&chunk.result, chunk.buffer.get_mut(at..at + page_len)) {
            (Ok(()), Some(page)) => database.check_page(page, number),
            // A bad sector must not make the neighbouring pages unreadable, so read each page separately.
            _ => database.check_single_page(number),
        };
        match verdict {
            PageStatus::Page(PageIntegrity::Good, _) => good += 1,
            PageStatus::Page(PageIntegrity::Zero, _) => zero.push(number),
            other => verdicts.push((number, other)),
        }
    }
    VerifiedChunk { verdicts, good, zero, beyond_zero, pages: chunk.count, buffer: chunk.buffer }
}
