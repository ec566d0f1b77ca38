//! The scan of one database, performed in steps.

use jetcell_sync::Arc;
use jetcell_sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ese_format::PageNumber;
use ese_format::checksum::{PageIntegrity, verify_page};
use ese_format::page::{Page, PageFlags};
use ese_format::space::Extent;
use jetcell_sync::Mutex;
use jetcell_vfs::IoReason;

use super::batch_reader::{BatchReader, BatchSource, PageBatch};
use super::check_record::{self, ZeroPage};
use super::progress::MAX_FINDINGS;
use super::zero::{log_bytes_of_page, zero_page};
use super::{PageFlaw, ScanOptions, ScanProgress};
use crate::cache::OnDiskVerification;
use crate::events::{EventKind, PageDamage, PageDamageKind, PassReport};
use crate::pace::{CleanPageWait, CleanPageWaitEvent, MaintenancePacer, MaintenanceThrottle};
use crate::storage::DatabaseFile;
use crate::transaction::Services;
use crate::{Error, Result};

/// Maximum number of retries for a page that is being written. The next constant is the time between attempts.
const ATTEMPTS: u32 = 200;
const RETRY_AFTER: Duration = Duration::from_millis(1);

/// Poll interval of a scan that is waiting for its database's turn.
const TURN_WAIT: Duration = Duration::from_millis(100);

/// Maximum poll interval of a scan that is waiting for its window.
const WINDOW_WAIT: Duration = Duration::from_secs(60);

/// Poll interval of a scan that is waiting for clean pages.
const CLEAN_WAIT: Duration = Duration::from_millis(5);

/// Maximum number of page writes that the scan starts at each poll.
const CLEANED_PAGES: usize = 256;

/// Number of pages after which progress is stored, as in ESE. Progress is also stored after a fixed time.
const PAGES_PER_SAVE: u64 = 256;
const SAVE_AFTER: Duration = Duration::from_secs(1);

const DAY_MS: i64 = 86_400_000;

const FIRST: PageNumber = PageNumber::fixed(1);

/// Stores a scan's progress in its database.
pub(crate) trait ScanProgressStore: Send + Sync {
    /// Loads the report on an interrupted pass, and the pass's next page. Returns `None` if no pass was interrupted.
    fn load(&self) -> Result<Option<(PassReport, PageNumber)>>;
    /// Stores the progress. `next` is `None` when the pass is complete.
    fn save(&self, pass: &PassReport, next: Option<PageNumber>) -> Result<()>;
}

/// The scan of one database.
pub(crate) struct DatabaseScan {
    file: Arc<DatabaseFile>,
    services: Arc<Services>,
    /// Held during a step.
    work: Mutex<Option<ScanState>>,
    /// Asks the current step to end early.
    stop: AtomicBool,
    progress: Mutex<ScanProgress>,
}

struct ScanState {
    options: ScanOptions,
    keeper: Option<Box<dyn ScanProgressStore>>,
    batches: BatchReader,
    pace: MaintenancePacer,
    next: PageNumber,
    /// Earliest time at which the next read may begin.
    due: Duration,
    /// Report on the current pass. Its seconds are not up to date; the running time is in `ran`.
    pass: PassReport,
    /// Running time of the pass.
    ran: Duration,
    /// Number of pages and running time of the pass when its progress was last stored.
    saved: (u64, Duration),
    clean_pages: CleanPageWait,
    /// Whether the state of each page is logged so that copies can compare it.
    compares: bool,
    /// True until the pass performs its first read in this window.
    suspended: bool,
}

/// Counters and findings of one step.
#[derive(Default)]
struct ScanStep {
    pages: u64,
    uninitialized: u64,
    examined_again: u64,
    findings: Vec<(PageNumber, PageFlaw)>,
    /// Pages that may be overwritten, because the page on disk is good or memory has a newer version.
    candidates: Vec<PageNumber>,
    /// Good pages, with additional information about all-zero pages.
    good: Vec<(PageNumber, Option<ZeroPage>)>,
    pass: PassReport,
    zeroed: u64,
}

impl DatabaseScan {
    pub fn new(file: Arc<DatabaseFile>, services: Arc<Services>) -> DatabaseScan {
        DatabaseScan {
            file,
            services,
            work: Mutex::default(),
            stop: AtomicBool::default(),
            progress: Mutex::default(),
        }
    }

    /// Returns the progress since the database was attached.
    pub fn progress(&self) -> ScanProgress {
        self.progress.lock().clone()
    }

    /// Starts a scan. Returns `false` if one is already running.
    pub fn begin(&self, options: ScanOptions, keeper: Option<Box<dyn ScanProgressStore>>) -> Result<bool> {
        let mut work = self.work.lock();
        if work.is_some() {
            return Ok(false);
        }
        let stored = keeper.as_ref().map_or(Ok(None), |keeper| keeper.load())?;
        let mut begun = ScanState {
            pace: MaintenancePacer::new(self.file.cache.fault_times()),
            options,
            keeper,
            batches: BatchReader::new(BatchSource::File(self.file.file.clone())),
            next: FIRST,
            due: self.file.vfs.clock().monotonic(),
            pass: PassReport::default(),
            ran: Duration::ZERO,
            saved: (0, Duration::ZERO),
            clean_pages: CleanPageWait::default(),
            compares: false,
            suspended: true,
        };
        self.choose_source(&mut begun);
        if let Some((pass, next)) = stored.filter(|(pass, _)| pass.zeroing == begun.options.zero) {
            begun.ran = Duration::from_secs(pass.seconds);
            begun.saved = (pass.pages, begun.ran);
            begun.pass = PassReport { database: self.file.path.clone(), ..pass };
            begun.next = next;
        }
        if begun.options.zero || begun.compares {
            // Unused pages will be read into the cache and changed there, and those changes are logged.
            self.file.unsettled.add_all_through(self.file.file_pages()?);
        }
        *work = Some(begun);
        self.stop.store(false, Ordering::Release);
        let mut progress = self.progress.lock();
        progress.running = true;
        progress.position = None;
        progress.failure = None;
        Ok(true)
    }

    /// Prevents further scan steps until the result is dropped. Waits for the current step.
    pub fn paused(&self) -> impl Sized + '_ {
        self.work.lock()
    }

    /// Stops the scan, waits for the current step, and stores the progress.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        let mut work = self.work.lock();
        let Some(mut stopped) = work.take() else { return };
        self.suspend(&mut stopped);
        let mut progress = self.progress.lock();
        progress.pass = stopped.pass;
        progress.running = false;
    }

    /// Waits for the current step, if any. Later steps see all changes that the caller made before this call.
    pub fn wait_for_step(&self) {
        drop(self.work.lock());
    }

    /// Performs one read if it is due. Returns the time until the next read, or `None` if no scan is running.
    pub fn step(&self) -> Result<Option<Duration>> {
        let mut slot = self.work.lock();
        let Some(work) = slot.as_mut() else { return Ok(None) };
        let clock = self.file.vfs.clock();
        let began = clock.monotonic();
        let early = work.due.saturating_sub(began);
        if !early.is_zero() {
            return Ok(Some(early));
        }
        if let Some(wait) = self.must_wait(work) {
            work.batches.forget();
            return Ok(Some(wait));
        }
        self.resume(work);
        let outcome = self.scan_batch(work);
        let took = clock.monotonic().saturating_sub(began);
        work.ran = work.ran.saturating_add(took);
        let bytes = match outcome {
            Ok(bytes) => bytes,
            Err(error) => {
                work.due = clock.monotonic().saturating_add(work.options.throttle.pause);
                return Err(self.failed(work, error));
            }
        };
        let pause = work.pace.pause(&work.options.throttle, bytes, took, self.file.cache.fault_times());
        work.ran = work.ran.saturating_add(pause);
        work.due = clock.monotonic().saturating_add(pause);
        work.batches.release_for(pause);
        let ended = work.pass.invocations == 0;
        if ended && work.options.single_pass {
            *slot = None;
            self.progress.lock().running = false;
            return Ok(None);
        }
        Ok(Some(pause))
    }

    /// Returns how long the pass must wait, or `None` if it need not wait.
    ///
    /// A pass waits when it is outside its window, while another database has the turn, and while a backup is
    /// running, because the backup also reads and verifies all pages. A pass that changes pages also waits while too
    /// much of the cache is dirty.
    fn must_wait(&self, work: &mut ScanState) -> Option<Duration> {
        let clock = self.file.vfs.clock();
        let closed = work.options.window.map_or(Duration::ZERO, |window| window.wait(clock.unix_ms()));
        if !closed.is_zero() {
            self.suspend(work);
            return Some(closed.min(WINDOW_WAIT));
        }
        // The pages of a bulk load are not durable yet, and are not in the cache while they are written.
        if self.services.bulk_loads.load(Ordering::SeqCst) > 0 {
            return Some(TURN_WAIT);
        }
        let turn = work.options.turn.as_ref();
        if turn.is_some_and(|turn| !turn.acquire(self.cache_id(), self.file.file_id)) {
            return Some(TURN_WAIT);
        }
        if self.services.backup_running.load(Ordering::Acquire) {
            return Some(TURN_WAIT);
        }
        let counters = work.options.zero.then(|| self.file.cache.counters());
        let mostly_dirty = counters.is_some_and(|now| now.dirty * 2 > now.frames);
        let database = || self.file.path.clone();
        match work.clean_pages.note(mostly_dirty, clock.monotonic()) {
            Some(CleanPageWaitEvent::Paused) => {
                self.file.events.report(EventKind::ZeroingPaused { database: database() });
            }
            Some(CleanPageWaitEvent::Continued) => {
                self.file.events.report(EventKind::ZeroingContinued { database: database() });
            }
            None => {}
        }
        // The pass must not fill the cache with dirty pages: sessions would have to wait for page writes.
        if work.clean_pages.wait(mostly_dirty) {
            // The cache reports a failed write to all its users.
            let _ = self.file.cache.write_below(self.file.file_id, self.file.log.tail(), CLEANED_PAGES);
            return Some(CLEAN_WAIT);
        }
        None
    }

    /// Begins work in a window, resuming an interrupted pass.
    fn resume(&self, work: &mut ScanState) {
        if !std::mem::take(&mut work.suspended) || work.pass.invocations == 0 {
            return;
        }
        work.pass.invocations += 1;
        self.describe(work);
        let (report, page) = (work.pass.clone(), work.next);
        self.file.events.report(EventKind::PassResumed { report, page });
    }

    /// Ends work in a window.
    fn suspend(&self, work: &mut ScanState) {
        if std::mem::replace(&mut work.suspended, true) {
            return;
        }
        self.release_turn(work);
        if work.pass.invocations == 0 {
            return;
        }
        self.describe(work);
        // If this fails, the pass resumes from the progress stored before.
        let _ = self.save(work, true);
        let (database, zeroing) = (self.file.path.clone(), work.options.zero);
        self.file.events.report(EventKind::PassInterrupted { database, zeroing });
    }

    fn release_turn(&self, work: &ScanState) {
        if let Some(turn) = &work.options.turn {
            turn.release(self.cache_id(), self.file.file_id);
        }
    }

    fn cache_id(&self) -> usize {
        Arc::as_ptr(&self.file.cache) as usize
    }

    /// Records a failure. Reports it unless the previous step failed in the same way.
    fn failed(&self, work: &ScanState, error: Error) -> Error {
        let what = error.full_text();
        let mut progress = self.progress.lock();
        if progress.failure.as_ref() != Some(&what) {
            progress.failure = Some(what.clone());
            let (database, zeroing) = (self.file.path.clone(), work.options.zero);
            let error = error.jet_code();
            self.file.events.report(EventKind::PassFailed { database, zeroing, error, what });
        }
        error
    }

    /// Updates the seconds and days of the pass.
    fn describe(&self, work: &mut ScanState) {
        let now = self.file.vfs.clock().unix_ms();
        work.pass.seconds = work.ran.as_secs();
        work.pass.days = (now - work.pass.began_unix_ms).max(0) as u64 / DAY_MS as u64 + 1;
    }

    /// Selects the batch source. The scan reads through the cache if it changes pages or logs their state for copies.
    fn choose_source(&self, work: &mut ScanState) {
        work.compares = work.options.compare_copies && self.file.log.has_copies();
        work.batches = BatchReader::new(if work.options.zero || work.compares {
            BatchSource::Cache(self.file.clone())
        } else {
            BatchSource::File(self.file.file.clone())
        });
    }

    fn begin_pass(&self, work: &mut ScanState) {
        self.choose_source(work);
        let began_unix_ms = self.file.vfs.clock().unix_ms();
        let (database, zeroing) = (self.file.path.clone(), work.options.zero);
        work.pass = PassReport { database, zeroing, began_unix_ms, invocations: 1, ..PassReport::default() };
        (work.ran, work.saved) = (Duration::ZERO, (0, Duration::ZERO));
        self.progress.lock().pass_began = Some(began_unix_ms);
        let database = self.file.path.clone();
        self.file.events.report(EventKind::PassStarted { database, zeroing });
    }

    /// Reads a batch and processes its pages. Returns the number of bytes read.
    fn scan_batch(&self, work: &mut ScanState) -> Result<usize> {
        let page_bytes = self.file.page_size.bytes();
        let last = self.file.file_pages()?;
        if work.pass.invocations == 0 {
            self.begin_pass(work);
        }
        let batch = self.batch(work, work.next, last);
        let count = batch.len / page_bytes;
        let end = work.next.plus(count as u32);
        let mut step = ScanStep::default();
        if batch.len > 0 {
            let time = self.file.db_time();
            if work.compares {
                // Operations that bypass the cache must not write a page later while it is in the cache.
                self.file.unsettled.add_all_through(last);
            }
            // If a batch could not be read, at least one of its pages is unreadable, so each page is read separately.
            let (result, mut bytes, loaded) = work.batches.read(batch);
            // A throttled scan does not read ahead, because the data would be out of date.
            let next = self.batch(work, end, last);
            if next.len > 0 && work.options.throttle == MaintenanceThrottle::default() {
                work.batches.read_ahead(next);
            }
            for (index, page) in bytes.chunks_exact_mut(page_bytes).enumerate() {
                if self.stop.load(Ordering::Acquire) {
                    return Ok(0);
                }
                let number = work.next.plus(index as u32);
                let newest = loaded.get(index).is_some_and(Option::is_some);
                let judged = self.check_page(number, page, result.is_ok(), &mut step)?;
                if work.compares {
                    let is_zero = page.iter().all(|byte| *byte == 0);
                    let zero = is_zero.then_some(ZeroPage { time, is_newest: newest });
                    step.good.extend((is_zero || judged.is_some()).then_some((number, zero)));
                }
                if let Some(flags) = judged
                    && work.options.zero
                {
                    // If the page was already in memory, memory may have a newer version.
                    if newest && flags.contains(PageFlags::SCRUBBED) {
                        step.pass.unchanged += 1;
                    } else {
                        step.candidates.push(number);
                    }
                }
            }
            work.batches.recycle(bytes);
            if !self.zero(&mut step)? {
                return Ok(0);
            }
            check_record::log_pages(&self.services, &self.file, std::mem::take(&mut step.good));
        }
        self.count(work, step, count * page_bytes, end);
        work.next = end;
        if end.get() > last {
            if work.compares {
                let _ = check_record::log_end(&self.file);
            }
            self.end_pass(work)?;
        } else {
            self.save(work, false)?;
        }
        self.progress.lock().failure = None;
        Ok(count * page_bytes)
    }

    /// Returns the batch that begins with page `first`. The batch is empty after the last page.
    fn batch(&self, work: &ScanState, first: PageNumber, last: u32) -> PageBatch {
        let size = self.file.page_size;
        let left = last.saturating_add(1).saturating_sub(first.get()) as usize;
        let pages = left.min(work.options.pages_per_batch(size));
        PageBatch { first, offset: size.offset_of(first), len: pages * size.bytes() }
    }

    /// Adds the results of a step to the counters and reports its findings.
    fn count(&self, work: &mut ScanState, step: ScanStep, bytes: usize, end: PageNumber) {
        let pass = &mut work.pass;
        pass.pages += step.pages;
        pass.uninitialized += step.uninitialized;
        pass.bad += step.findings.len() as u64;
        pass.unchanged += step.pass.unchanged;
        pass.unused_zeroed += step.pass.unused_zeroed;
        pass.used += step.pass.used;
        pass.records_zeroed += step.pass.records_zeroed;
        pass.chunks_zeroed += step.pass.chunks_zeroed;
        for (page, flaw) in &step.findings {
            self.report(*page, flaw);
        }
        let mut progress = self.progress.lock();
        progress.reads += u64::from(bytes > 0);
        progress.bytes += bytes as u64;
        progress.position = PageNumber::new(end.get() - 1);
        progress.pages += step.pages;
        progress.uninitialized += step.uninitialized;
        progress.examined_again += step.examined_again;
        progress.bad += step.findings.len() as u64;
        progress.zeroed += step.zeroed;
        progress.pass = work.pass.clone();
        for (page, flaw) in step.findings {
            progress.corrected += u64::from(matches!(flaw, PageFlaw::FlippedBits(_)));
            if progress.findings.len() < MAX_FINDINGS || progress.findings.contains_key(&page) {
                progress.findings.insert(page, flaw);
            }
        }
    }

    /// Makes the cache rewrite a page whose flipped bits were corrected. Returns whether the cache has reported the
    /// page because it had to read it.
    fn rewrite(&self, page: PageNumber) -> bool {
        let key = self.file.page_key(page);
        let reported = !self.file.cache.has_verified(key);
        // A page that the cache is about to write must not be written by operations that bypass the cache. No such
        // operation begins during a step.
        self.file.unsettled.add(Extent { last: page, count: 1 });
        // If the page cannot be read now, the cache reports that, and the next pass finds the page again.
        if let Ok(pinned) = self.file.cache.fetch_cold(key) {
            pinned.write().mark_dirty(self.file.log.tail());
        }
        reported
    }

    fn report(&self, page: PageNumber, flaw: &PageFlaw) {
        if matches!(flaw, PageFlaw::FlippedBits(_)) && self.rewrite(page) {
            return;
        }
        if !matches!(flaw, PageFlaw::FlippedBits(_)) {
            self.file.cache.record_damage(self.file.page_key(page));
        }
        let (file, offset) = (self.file.path.clone(), self.file.page_size.offset_of(page));
        let fault = match flaw {
            PageFlaw::FlippedBits(bits) => PageDamageKind::Corrected(bits.clone()),
            PageFlaw::WrongPage(stored) => PageDamageKind::WrongPage(*stored),
            PageFlaw::Checksum => PageDamageKind::Checksum,
            PageFlaw::Unreadable(why) => PageDamageKind::Unreadable(why.clone()),
        };
        let bytes = self.file.page_size.bytes() as u64;
        let damage = PageDamage { file: file.clone(), offset, bytes, page, fault };
        self.file.events.report(EventKind::PageDamaged(damage));
        if !matches!(flaw, PageFlaw::FlippedBits(_)) {
            self.file.events.report(EventKind::ScanFoundPage { file, offset, page, what: flaw.to_string() });
        }
    }

    fn end_pass(&self, work: &mut ScanState) -> Result<()> {
        self.describe(work);
        if let Some(keeper) = &work.keeper {
            keeper.save(&work.pass, None)?;
        }
        let now = self.file.vfs.clock().unix_ms();
        {
            let mut progress = self.progress.lock();
            progress.passes += 1;
            progress.last_pass_ended = Some(now);
            progress.pass = work.pass.clone();
        }
        self.file.events.report(EventKind::PassCompleted(work.pass.clone()));
        self.release_turn(work);
        work.next = FIRST;
        work.pass.invocations = 0;
        Ok(())
    }

    /// Stores the progress of the pass if that is due or `now` is set.
    fn save(&self, work: &mut ScanState, now: bool) -> Result<()> {
        let (pages, ran) = work.saved;
        let due = work.pass.pages >= pages + PAGES_PER_SAVE || work.ran >= ran.saturating_add(SAVE_AFTER);
        if !now && !due {
            return Ok(());
        }
        self.describe(work);
        if let Some(keeper) = &work.keeper {
            keeper.save(&work.pass, Some(work.next))?;
        }
        work.saved = (work.pass.pages, work.ran);
        Ok(())
    }

    /// Overwrites remnants of deleted data. Returns `false` if the scan was asked to stop.
    fn zero(&self, step: &mut ScanStep) -> Result<bool> {
        let cache = self.file.cache.counters();
        let log_bytes = log_bytes_of_page(self.file.page_size, cache.dirty, cache.frames);
        for page in std::mem::take(&mut step.candidates) {
            if self.stop.load(Ordering::Acquire) {
                return Ok(false);
            }
            let zeroed = match zero_page(&self.services, &self.file, page, log_bytes) {
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

    /// Verifies a page. Returns the flags of a page that is good and is or was in use. The flags are empty if the
    /// page had to be verified again.
    fn check_page(
        &self,
        number: PageNumber,
        page: &mut [u8],
        was_read: bool,
        step: &mut ScanStep,
    ) -> Result<Option<PageFlags>> {
        let size = self.file.page_size;
        let first = if was_read { verify_page(page, size, number) } else { PageIntegrity::Bad };
        let in_doubt = !matches!(first, PageIntegrity::Good | PageIntegrity::Zero);
        let (zero, flaw) = match first {
            _ if in_doubt => self.recheck_page(number, page)?,
            first => (first == PageIntegrity::Zero, None),
        };
        step.pages += 1;
        step.uninitialized += u64::from(zero);
        step.examined_again += u64::from(in_doubt);
        let flags = (!zero && flaw.is_none())
            .then(|| if in_doubt { PageFlags::empty() } else { Page::new(page, size).flags() });
        step.findings.extend(flaw.map(|flaw| (number, flaw)));
        Ok(flags)
    }

    /// Returns whether the page is all zeros and what is wrong with it, verified while no write is in progress.
    fn recheck_page(&self, number: PageNumber, page: &mut [u8]) -> Result<(bool, Option<PageFlaw>)> {
        for _ in 0..ATTEMPTS {
            if self.stop.load(Ordering::Acquire) {
                break;
            }
            let flaw =
                match self.file.cache.verify_on_disk(self.file.page_key(number), page, IoReason::Scan)? {
                    OnDiskVerification::Busy => {
                        self.file.vfs.clock().sleep(RETRY_AFTER);
                        continue;
                    }
                    OnDiskVerification::Superseded => return Ok((false, None)),
                    OnDiskVerification::Unreadable(error) => PageFlaw::Unreadable(error.to_string()),
                    OnDiskVerification::Verified(verdict) => match verdict {
                        PageIntegrity::Good => return Ok((false, None)),
                        PageIntegrity::Zero => return Ok((true, None)),
                        PageIntegrity::Repaired { bits } => PageFlaw::FlippedBits(bits),
                        // A small page does not store its number, so damage can make it look like any other page.
                        PageIntegrity::WrongPage { stored } if stored <= self.file.file_pages()? => {
                            PageFlaw::WrongPage(stored)
                        }
                        PageIntegrity::WrongPage { .. } | PageIntegrity::Bad => PageFlaw::Checksum,
                    },
                };
            return Ok((false, Some(flaw)));
        }
        // A page that is being written continuously is checked in the next pass.
        Ok((false, None))
    }
}
