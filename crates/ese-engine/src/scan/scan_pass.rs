//! The scan of one database, performed in steps.

use std::time::Duration;

use ese_format::PageNumber;
use ese_format::checksum::is_zero;
use ese_format::page::PageFlags;
use jetcell_sync::Arc;

use super::batch_reader::{BatchReader, BatchSource, PageBatch};
use super::check_page::{check_page, report_flaw};
use super::check_record::{self, ZeroPage};
use super::progress::MAX_FINDINGS;
use super::zero::{log_bytes_of_page, zero_page};
use super::{PageFlaw, ScanOptions, ScanProgress};
use crate::events::{EventKind, PassReport};
use crate::task::{
    MaintenancePass, MaintenanceThrottle, PassLimits, PassStep, PassTimes, StateStore, TaskEvent, TaskHost,
};
use crate::{Error, Result};

/// Poll interval of a scan that is waiting for clean pages.
const CLEAN_PAGE_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Number of pages after which progress is stored, as in ESE. Progress is also stored after a fixed time.
const PAGES_PER_SAVE: u64 = 256;
const SAVE_AFTER: Duration = Duration::from_secs(1);

const FIRST: PageNumber = PageNumber::fixed(1);

/// The state of a scan that is stored in its database.
#[derive(Clone, Default)]
pub(crate) struct ScanState {
    /// Report on the pass. Its seconds and days are current only in events and in the database.
    pub report: PassReport,
    /// Next page of the pass. `None` if no pass is in progress.
    pub next: Option<PageNumber>,
}

/// A pass that reads and verifies the pages of a database.
pub(crate) struct ScanPass {
    host: Arc<TaskHost<ScanProgress>>,
    options: ScanOptions,
    store: Option<Box<dyn StateStore<ScanState>>>,
    state: ScanState,
    batches: BatchReader,
    /// Whether the state of each page is logged so that copies can compare it.
    compares: bool,
}

/// Counters and findings of one step.
#[derive(Default)]
struct ScanStep {
    pages: u64,
    uninitialized: u64,
    examined_again: u64,
    findings: Vec<(PageNumber, PageFlaw)>,
    /// Pages that may be overwritten, because they are good on disk or have a newer version in memory.
    candidates: Vec<PageNumber>,
    /// Good pages, with additional information about all-zero pages.
    good: Vec<(PageNumber, Option<ZeroPage>)>,
    pass: PassReport,
    zeroed: u64,
}

impl MaintenancePass for ScanPass {
    type Progress = ScanProgress;

    fn limits(&self) -> PassLimits {
        PassLimits {
            pages_per_save: PAGES_PER_SAVE,
            save_after: SAVE_AFTER,
            retry_after: Duration::ZERO,
            pass_interval: None,
            clean_page_poll: self.options.zero.then_some(CLEAN_PAGE_POLL_INTERVAL),
            // The pages of a bulk load are not durable yet, and are not in the cache while they are written.
            waits_for_bulk_loads: true,
        }
    }

    fn is_in_pass(&self) -> bool {
        self.state.next.is_some()
    }

    fn times(&mut self) -> PassTimes<'_> {
        let PassReport { began_unix_ms, seconds, invocations, days, .. } = &mut self.state.report;
        PassTimes { began_unix_ms: *began_unix_ms, seconds, invocations, days }
    }

    fn visited(&self) -> u64 {
        self.state.report.pages
    }

    fn begin(&mut self) -> Result<()> {
        self.choose_source();
        let file = &self.host.file;
        let began_unix_ms = file.vfs.clock().unix_ms();
        let (database, zeroing) = (file.path.clone(), self.options.zero);
        self.state = ScanState {
            report: PassReport { database, zeroing, began_unix_ms, invocations: 1, ..PassReport::default() },
            next: Some(FIRST),
        };
        self.host.progress().pass_began = Some(began_unix_ms);
        Ok(())
    }

    /// Reads a batch and processes its pages.
    fn step(&mut self) -> Result<PassStep> {
        let host = self.host.clone();
        let file = &host.file;
        let page_bytes = file.page_size.bytes();
        let last = file.file_pages()?;
        let first = self.state.next.unwrap_or(FIRST);
        let batch = self.batch(first, last);
        let count = batch.len / page_bytes;
        let end = first.plus(count as u32);
        let mut step = ScanStep::default();
        if batch.len > 0 {
            let time = file.db_time();
            if self.compares {
                // Operations that bypass the cache must not write a page later while it is in the cache.
                file.unsettled.add_all_through(last);
            }
            // If a batch could not be read, at least one of its pages is unreadable, so each page is read separately.
            let (result, mut bytes, loaded) = self.batches.read(batch);
            // A throttled scan does not read ahead, because the data would be out of date after the pause.
            let next = self.batch(end, last);
            if next.len > 0 && self.options.throttle == MaintenanceThrottle::default() {
                self.batches.read_ahead(next);
            }
            for (index, page) in bytes.chunks_exact_mut(page_bytes).enumerate() {
                if host.is_stopping() {
                    return Ok(PassStep::Interrupted);
                }
                let number = first.plus(index as u32);
                let newest = loaded.get(index).is_some_and(Option::is_some);
                let check = check_page(&host, number, page, result.is_ok())?;
                step.pages += 1;
                step.uninitialized += u64::from(check.is_zero);
                step.examined_again += u64::from(check.in_doubt);
                step.findings.extend(check.flaw.map(|flaw| (number, flaw)));
                if self.compares {
                    let is_zero = is_zero(page);
                    let zero = is_zero.then_some(ZeroPage { time, is_newest: newest });
                    step.good.extend((is_zero || check.flags.is_some()).then_some((number, zero)));
                }
                if let Some(flags) = check.flags
                    && self.options.zero
                {
                    // If the page was already in memory, the version there may be newer.
                    if newest && flags.contains(PageFlags::SCRUBBED) {
                        step.pass.unchanged += 1;
                    } else {
                        step.candidates.push(number);
                    }
                }
            }
            self.batches.recycle(bytes);
            if !self.zero(&mut step)? {
                return Ok(PassStep::Interrupted);
            }
            check_record::log_pages(&host.services, file, std::mem::take(&mut step.good));
        }
        self.count(step, batch.len, end);
        self.state.next = Some(end);
        if end.get() <= last {
            return Ok(PassStep::Read(batch.len));
        }
        if self.compares {
            let _ = check_record::log_end(file);
        }
        Ok(PassStep::ReadLast(batch.len))
    }

    fn save(&mut self) -> Result<()> {
        self.store.as_ref().map_or(Ok(()), |store| store.save(&self.state))
    }

    fn end(&mut self) -> Result<()> {
        let next = self.state.next.take();
        self.save().inspect_err(|_| self.state.next = next)?;
        let mut progress = self.host.progress();
        progress.passes += 1;
        progress.last_pass_ended = Some(self.host.file.vfs.clock().unix_ms());
        self.show(&mut progress);
        Ok(())
    }

    fn show(&self, progress: &mut ScanProgress) {
        progress.pass = self.state.report.clone();
    }

    fn event(&self, event: TaskEvent<'_>) -> Option<EventKind> {
        let (database, zeroing) = (self.host.file.path.clone(), self.options.zero);
        Some(match event {
            TaskEvent::Started => EventKind::PassStarted { database, zeroing },
            TaskEvent::Resumed => {
                let page = self.state.next.unwrap_or(FIRST);
                EventKind::PassResumed { report: self.state.report.clone(), page }
            }
            TaskEvent::Interrupted => EventKind::PassInterrupted { database, zeroing },
            TaskEvent::Completed => EventKind::PassCompleted(self.state.report.clone()),
            TaskEvent::Paused => EventKind::ZeroingPaused { database },
            TaskEvent::Continued => EventKind::ZeroingContinued { database },
            TaskEvent::Failed(error) => {
                EventKind::PassFailed { database, zeroing, error: error.jet_code(), what: error.full_text() }
            }
        })
    }

    fn release_memory(&mut self, pause: Option<Duration>) {
        match pause {
            Some(pause) => self.batches.release_for(pause),
            None => self.batches.forget(),
        }
    }
}

impl ScanPass {
    /// Creates the pass for a scan that is starting. If the stored pass has the same purpose, the new pass resumes it.
    pub fn new(
        host: &Arc<TaskHost<ScanProgress>>,
        options: ScanOptions,
        store: Option<Box<dyn StateStore<ScanState>>>,
    ) -> Result<ScanPass> {
        let file = &host.file;
        let stored = store.as_ref().map_or(Ok(None), |store| store.load())?;
        let mut state = stored.filter(|state| state.report.zeroing == options.zero).unwrap_or_default();
        state.report.database = file.path.clone();
        let batches = BatchReader::new(BatchSource::File(file.file.clone()));
        let mut pass = ScanPass { host: host.clone(), options, store, state, batches, compares: false };
        pass.choose_source();
        if pass.options.zero || pass.compares {
            // Unused pages will be read into the cache and changed there, and those changes are logged.
            file.unsettled.add_all_through(file.file_pages()?);
        }
        host.progress().position = None;
        Ok(pass)
    }

    /// Selects the batch source. The scan reads through the cache if it changes pages or logs their state for copies.
    fn choose_source(&mut self) {
        let file = &self.host.file;
        self.compares = self.options.compare_copies && file.log.has_copies();
        self.batches = BatchReader::new(if self.options.zero || self.compares {
            BatchSource::Cache(file.clone())
        } else {
            BatchSource::File(file.file.clone())
        });
    }

    /// Returns the batch that begins with page `first`. The batch is empty after the last page.
    fn batch(&self, first: PageNumber, last: u32) -> PageBatch {
        let size = self.host.file.page_size;
        let left = last.saturating_add(1).saturating_sub(first.get()) as usize;
        let pages = left.min(self.options.pages_per_batch(size));
        PageBatch { first, offset: size.offset_of(first), len: pages * size.bytes() }
    }

    /// Adds the results of a step to the counters and reports its findings.
    fn count(&mut self, step: ScanStep, bytes: usize, end: PageNumber) {
        let pass = &mut self.state.report;
        pass.pages += step.pages;
        pass.uninitialized += step.uninitialized;
        pass.bad += step.findings.len() as u64;
        pass.unchanged += step.pass.unchanged;
        pass.unused_zeroed += step.pass.unused_zeroed;
        pass.used += step.pass.used;
        pass.records_zeroed += step.pass.records_zeroed;
        pass.chunks_zeroed += step.pass.chunks_zeroed;
        for (page, flaw) in &step.findings {
            report_flaw(&self.host.file, *page, flaw);
        }
        let mut progress = self.host.progress();
        progress.reads += u64::from(bytes > 0);
        progress.bytes += bytes as u64;
        progress.position = PageNumber::new(end.get() - 1);
        progress.pages += step.pages;
        progress.uninitialized += step.uninitialized;
        progress.examined_again += step.examined_again;
        progress.bad += step.findings.len() as u64;
        progress.zeroed += step.zeroed;
        self.show(&mut progress);
        for (page, flaw) in step.findings {
            progress.corrected += u64::from(matches!(flaw, PageFlaw::FlippedBits(_)));
            if progress.findings.len() < MAX_FINDINGS || progress.findings.contains_key(&page) {
                progress.findings.insert(page, flaw);
            }
        }
    }

    /// Overwrites remnants of deleted data. Returns `false` if the scan was asked to stop.
    fn zero(&self, step: &mut ScanStep) -> Result<bool> {
        let (file, services) = (&self.host.file, &self.host.services);
        let cache = file.cache.counters();
        let log_bytes = log_bytes_of_page(file.page_size, cache.dirty, cache.frames);
        for page in std::mem::take(&mut step.candidates) {
            if self.host.is_stopping() {
                return Ok(false);
            }
            let zeroed = match zero_page(services, file, page, log_bytes) {
                Ok(zeroed) => zeroed,
                // The page was good when it was first read. The next pass determines whether it is bad.
                Err(Error::Corrupt { .. }) => continue,
                Err(error) => return Err(error),
            };
            step.pass.unchanged += u64::from(zeroed.unchanged);
            step.pass.unused_zeroed += u64::from(zeroed.unused);
            step.pass.used += u64::from(zeroed.used);
            step.pass.records_zeroed += zeroed.records;
            step.pass.chunks_zeroed += zeroed.chunks;
            step.zeroed += u64::from(zeroed.changed);
        }
        Ok(true)
    }
}
