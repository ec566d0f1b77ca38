//! The background checksum scan of an open database. The scan reads the file from its first page to its end, pass after
//! pass, in extents of 256 KiB past the cache, with a pause after each read. It checks each page by checksum and page
//! number. ESE: online database scan, background database maintenance.
//!
//! Invariants:
//! - One step is one read and the check of its pages. A step never evicts pages that sessions use.
//! - No false findings: a suspect page is read again while the cache blocks writes of it, and a page with a newer state
//!   in memory is not judged by its old state on disk.
//! - The scan repairs nothing. A page of zeros counts as never written; only its tree could show that a write was lost.
//! - All reads have the reason [`IoReason::Scan`], so that none counts as work of a session.
//!
//! Not implemented: which tree a page belongs to, the structure of pages, progress that survives a restart.

use jetcell_sync::Arc;
use jetcell_sync::atomic::{AtomicBool, Ordering};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use ese_format::PageNumber;
use ese_format::checksum::{PageIntegrity, verify_page};
use jetcell_sync::Mutex;
use jetcell_vfs::{IoBuffer, IoReason};

use crate::Result;
use crate::cache::OnDiskPage;
use crate::storage::DatabaseFile;

/// Bytes of one read.
pub const EXTENT_BYTES: usize = 256 << 10;

/// Maximum number of findings kept, one per page. Further bad pages are only counted.
pub const FINDINGS_KEPT: usize = 1000;

/// How often the scan retries a page that is being written, and the time between two tries.
const ATTEMPTS: u32 = 200;
const RETRY_AFTER: Duration = Duration::from_millis(1);

/// What is wrong with a page on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageFlaw {
    /// Single flipped bits, which the checksum locates: `8 * byte + bit`. Reading the page corrects them in memory.
    FlippedBits(Vec<u32>),
    /// A valid page, but another one. ESE: -1118.
    WrongPage(u32),
    /// The checksum is wrong and cannot be corrected. ESE: -1018.
    Checksum,
    /// The device reports an error for the page. ESE: -1022.
    Unreadable(String),
}

impl fmt::Display for PageFlaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PageFlaw::FlippedBits(bits) => {
                let bits: Vec<String> = bits.iter().map(|bit| format!("{}.{}", bit / 8, bit % 8)).collect();
                write!(f, "flipped bits at byte.bit {}", bits.join(", "))
            }
            PageFlaw::WrongPage(stored) => write!(f, "holds page {stored} (-1118)"),
            PageFlaw::Checksum => f.write_str("wrong checksum (-1018)"),
            PageFlaw::Unreadable(why) => write!(f, "cannot be read: {why} (-1022)"),
        }
    }
}

/// Progress of a scan, in all its passes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScanProgress {
    /// Whether the scan is running.
    pub running: bool,
    /// Passes that reached the end of the file.
    pub passes: u64,
    /// Number of extents read.
    pub reads: u64,
    /// Number of bytes read.
    pub bytes: u64,
    /// Number of pages read.
    pub pages: u64,
    /// Number of pages of zeros among them.
    pub uninitialized: u64,
    /// Number of pages that were read again because they looked wrong at first.
    pub examined_again: u64,
    /// Number of bad pages, counted once per pass, including pages with flipped bits.
    pub bad: u64,
    /// The last page read in this pass; `None` before the first read.
    pub position: Option<PageNumber>,
    /// Start of the pass, in milliseconds since 1970 UTC.
    pub pass_began: Option<i64>,
    /// End of the previous pass.
    pub last_pass_ended: Option<i64>,
    /// Findings by page; the first [`FINDINGS_KEPT`].
    pub findings: BTreeMap<PageNumber, PageFlaw>,
}

/// The scan of one database.
pub(crate) struct DatabaseScan {
    file: Arc<DatabaseFile>,
    /// Held during a step.
    work: Mutex<Option<Work>>,
    /// Tells the step to end early.
    stop: AtomicBool,
    progress: Mutex<ScanProgress>,
}

struct Work {
    buffer: IoBuffer,
    pause: Duration,
    next: PageNumber,
    /// Time at which the next read may begin.
    due: Duration,
}

const FIRST: PageNumber = PageNumber::fixed(1);

impl DatabaseScan {
    pub fn new(file: Arc<DatabaseFile>) -> DatabaseScan {
        DatabaseScan { file, work: Mutex::default(), stop: AtomicBool::default(), progress: Mutex::default() }
    }

    /// Progress since the database was attached.
    pub fn progress(&self) -> ScanProgress {
        self.progress.lock().clone()
    }

    /// Starts a scan. Returns `false` if one is running already.
    pub fn begin(&self, pause: Duration) -> bool {
        let mut work = self.work.lock();
        if work.is_some() {
            return false;
        }
        let due = self.file.vfs.clock().monotonic();
        *work = Some(Work { buffer: IoBuffer::zeroed(EXTENT_BYTES), pause, next: FIRST, due });
        self.stop.store(false, Ordering::Release);
        let mut progress = self.progress.lock();
        progress.running = true;
        progress.position = None;
        true
    }

    /// Stops the scan and waits for the current step.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        *self.work.lock() = None;
        self.progress.lock().running = false;
    }

    /// Makes one read of the scan if it is due. Returns the time until the next read; `None` if no scan is running.
    pub fn step(&self) -> Result<Option<Duration>> {
        let mut work = self.work.lock();
        let Some(work) = work.as_mut() else { return Ok(None) };
        let clock = self.file.vfs.clock();
        let early = work.due.saturating_sub(clock.monotonic());
        if !early.is_zero() {
            return Ok(Some(early));
        }
        let outcome = self.scan_extent(work);
        work.due = clock.monotonic().saturating_add(work.pause);
        outcome.map(|()| Some(work.pause))
    }

    fn scan_extent(&self, work: &mut Work) -> Result<()> {
        let now = || self.file.vfs.clock().unix_ms();
        let page_bytes = self.file.page_size.bytes();
        let last = self.file.file_pages()?;
        if work.next == FIRST {
            self.progress.lock().pass_began = Some(now());
        }
        let left = last.saturating_add(1).saturating_sub(work.next.get()) as usize;
        let count = left.min(EXTENT_BYTES / page_bytes);
        let bytes = &mut work.buffer[..count * page_bytes];
        if !bytes.is_empty() {
            // At least one page of an extent that cannot be read is unreadable, so each page is read separately.
            let offset = self.file.page_size.offset_of(work.next);
            let whole = self.file.file.read_at(offset, bytes, IoReason::Scan).is_ok();
            for (index, page) in bytes.chunks_exact_mut(page_bytes).enumerate() {
                if self.stop.load(Ordering::Acquire) {
                    return Ok(());
                }
                self.judge(work.next.plus(index as u32), page, whole)?;
            }
        }
        let end = work.next.plus(count as u32);
        let mut progress = self.progress.lock();
        progress.reads += u64::from(count > 0);
        progress.bytes += (count * page_bytes) as u64;
        progress.position = PageNumber::new(end.get() - 1);
        work.next = end;
        if end.get() > last {
            progress.passes += 1;
            progress.last_pass_ended = Some(now());
            work.next = FIRST;
        }
        Ok(())
    }

    fn judge(&self, number: PageNumber, page: &mut [u8], was_read: bool) -> Result<()> {
        let first =
            if was_read { verify_page(page, self.file.page_size, number) } else { PageIntegrity::Bad };
        let in_doubt = !matches!(first, PageIntegrity::Good | PageIntegrity::Zero);
        let (zero, flaw) = match first {
            _ if in_doubt => self.judge_again(number, page)?,
            first => (first == PageIntegrity::Zero, None),
        };
        let mut progress = self.progress.lock();
        progress.pages += 1;
        progress.uninitialized += u64::from(zero);
        progress.examined_again += u64::from(in_doubt);
        if let Some(flaw) = flaw {
            progress.bad += 1;
            if progress.findings.len() < FINDINGS_KEPT || progress.findings.contains_key(&number) {
                progress.findings.insert(number, flaw);
            }
        }
        Ok(())
    }

    /// Whether the page is zero, and what is wrong with it, without a concurrent write.
    fn judge_again(&self, number: PageNumber, page: &mut [u8]) -> Result<(bool, Option<PageFlaw>)> {
        for _ in 0..ATTEMPTS {
            if self.stop.load(Ordering::Acquire) {
                break;
            }
            let flaw =
                match self.file.cache.verify_on_disk(self.file.page_key(number), page, IoReason::Scan)? {
                    OnDiskPage::Busy => {
                        self.file.vfs.clock().sleep(RETRY_AFTER);
                        continue;
                    }
                    OnDiskPage::Superseded => return Ok((false, None)),
                    OnDiskPage::Unreadable(error) => PageFlaw::Unreadable(error.to_string()),
                    OnDiskPage::Verified(verdict) => match verdict {
                        PageIntegrity::Good => return Ok((false, None)),
                        PageIntegrity::Zero => return Ok((true, None)),
                        PageIntegrity::Repaired { bits } => PageFlaw::FlippedBits(bits),
                        // A small page shows a wrong number only by its checksum, so any damage looks like some other
                        // number.
                        PageIntegrity::WrongPage { stored } if stored <= self.file.file_pages()? => {
                            PageFlaw::WrongPage(stored)
                        }
                        PageIntegrity::WrongPage { .. } | PageIntegrity::Bad => PageFlaw::Checksum,
                    },
                };
            return Ok((false, Some(flaw)));
        }
        // A page that is written all the time is checked in the next pass.
        Ok((false, None))
    }
}

#[cfg(test)]
#[path = "scan_tests.rs"]
mod tests;
