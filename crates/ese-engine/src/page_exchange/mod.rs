//! Repairs damaged pages while sessions are running, using pages from copies or from the active side. ESE: page
//! patching, auto-healing.
//!
//! ```text
//!  page of this side bad:   PagePatchRequest in the log ──> a copy replays up to it, and sends its page
//!                           ──> installed here
//!  page of a copy bad:      the copy asks ──> scan-check record in the log, and the page
//!                           ──> installed when it replays the record
//! ```
//!
//! In both cases, the page has exactly the state at the position of the record. A page of this side is replaced only
//! if it cannot be read or has not changed since then. A repair is therefore not a change and needs no log record.
//!
//! If a copy is available, a session that needs a damaged page waits for the repair, up to a time limit. If the page
//! is not repaired by then, the session gets the read error.

mod message;
mod registered_copies;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use ese_format::checksum::PageIntegrity;
use ese_format::log::record::{DatabaseIdInLog, LogRecord, PagePatchRequest};
use ese_format::page::{Page, validate};
use ese_format::space::Extent;
use ese_format::{DbTime, LogPosition, PageNumber, Signature};
use jetcell_sync::{Arc, Mutex};
use jetcell_vfs::{IoBuffer, IoReason};

use self::message::CopyMessages;
pub use self::message::{PageDirection, PageRequests};
use self::registered_copies::{RegisteredCopies, is_active};
use crate::cache::{OnDiskVerification, PageKey};
use crate::core::Core;
use crate::events::EventKind;
use crate::log::RecordBatch;
use crate::recovery::ExchangedPage;
use crate::scan::check_record;
use crate::storage::DatabaseFile;
use crate::{Error, Result};

/// Time after which an unanswered request is repeated.
const REQUEST_RETRY_INTERVAL: Duration = Duration::from_secs(10);
/// Time after a request during which answers are polled for at short intervals. Later polls use long intervals.
const FAST_POLL_PERIOD: Duration = Duration::from_secs(3);
/// Intervals between polls for messages from copies: short while an answer may arrive soon, and long otherwise.
const FAST_POLL_INTERVAL: Duration = Duration::from_millis(100);
const SLOW_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Pending page requests of this instance, and the connection to its copies.
pub(crate) struct PageExchange {
    core: Arc<Core>,
    copies: RegisteredCopies,
    /// Maximum time that sessions wait for repairs.
    wait: Duration,
    requests: Mutex<BTreeMap<PageKey, PendingPageRequest>>,
}

/// A page that was requested from the copies through a log record.
#[derive(Clone, Copy)]
struct PendingPageRequest {
    position: LogPosition,
    asked: Duration,
    /// Database time of a page that can be read but has lost a write. The page is replaced only if it still has this
    /// time. `None` if the page cannot be read.
    stale_time: Option<DbTime>,
}

impl PageExchange {
    /// Creates a page exchange. Sessions wait up to `wait` for repairs.
    pub fn new(core: Arc<Core>, wait: Duration) -> PageExchange {
        PageExchange { core, copies: RegisteredCopies::default(), wait, requests: Mutex::default() }
    }

    /// Returns the time until the next step is due.
    pub fn pause(&self) -> Duration {
        let now = self.core.vfs.clock().monotonic();
        let is_new = |request: &PendingPageRequest| now.saturating_sub(request.asked) < FAST_POLL_PERIOD;
        if self.requests.lock().values().any(is_new) { FAST_POLL_INTERVAL } else { SLOW_POLL_INTERVAL }
    }

    /// Stops repairing pages. Sessions no longer wait for repairs.
    pub fn end(&self) {
        self.set_session_wait(Duration::ZERO);
    }

    fn set_session_wait(&self, limit: Duration) {
        for database in self.core.databases() {
            self.core.cache.set_repair_wait(database.file.file_id, limit);
        }
    }

    /// Handles messages from copies and requests this side's damaged pages from them. Returns the number of pages
    /// that were repaired or sent.
    pub fn step(&self) -> Result<usize> {
        let log = self.core.log();
        let copies = self.copies.poll(&self.core);
        if copies.is_empty() || self.core.check_writable().is_err() {
            self.end();
            return Ok(0);
        }
        let now = self.core.vfs.clock().unix_ms();
        let may_answer = copies.iter().any(|copy| is_active(copy, now) && !log.is_cut_off(copy));
        self.set_session_wait(if may_answer { self.wait } else { Duration::ZERO });
        let (directory, base) = (log.names().directory(), log.names().base());
        let messages = CopyMessages::read(&*self.core.vfs, directory, base)?;
        let mut done = 0;
        for (path, patch) in messages.patches {
            done += usize::from(patch.map_or(Ok(false), |patch| self.install(&patch))?);
            self.remove(&path)?;
        }
        let mut asked = false;
        for (path, wishes) in messages.requests {
            let wishes = wishes.unwrap_or_default();
            for (database, page) in wishes.repair {
                let Some(file) = self.file(database) else { continue };
                if let Some(image) = log_image(&file, page)? {
                    image.store(&*self.core.vfs, directory, base, PageDirection::Image)?;
                    (done, asked) = (done + 1, true);
                }
            }
            for (database, page) in wishes.lost {
                let Some(file) = self.file(database) else { continue };
                asked |= self.request_newer(&file, page)?;
            }
            self.remove(&path)?;
        }
        for database in self.core.databases() {
            for page in self.core.cache.damaged_pages(database.file.file_id) {
                asked |= self.request_damaged(&database.file, page)?;
            }
        }
        if asked {
            // Only closed logs are sent to copies.
            log.roll_over()?;
        }
        Ok(done)
    }

    fn file(&self, signature: Signature) -> Option<Arc<DatabaseFile>> {
        let databases = self.core.databases();
        let found = databases.iter().find(|database| database.header().signature == signature);
        found.map(|database| database.file.clone())
    }

    fn remove(&self, path: &Path) -> Result<()> {
        match self.core.vfs.remove(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::io(path, &error)),
            _ => Ok(()),
        }
    }

    /// Requests a page that cannot be read. Does nothing if a request is already pending or the page has become
    /// readable.
    fn request_damaged(&self, file: &Arc<DatabaseFile>, page: PageNumber) -> Result<bool> {
        if let Ok(pinned) = self.core.cache.fetch_tentatively(file.page_key(page)) {
            self.requests.lock().remove(&file.page_key(page));
            let mut bytes = IoBuffer::zeroed(file.page_size.bytes());
            match self.core.cache.verify_on_disk(file.page_key(page), &mut bytes, IoReason::Scan)? {
                OnDiskVerification::Busy => {}
                OnDiskVerification::Superseded | OnDiskVerification::Verified(PageIntegrity::Good) => {
                    self.core.cache.clear_damage(file.file_id, page);
                }
                // The page is in memory, so it is simply written again.
                OnDiskVerification::Unreadable(_) | OnDiskVerification::Verified(_) => {
                    file.unsettled.add(Extent { last: page, count: 1 });
                    pinned.write().mark_dirty(file.log.tail());
                }
            }
            return Ok(false);
        }
        self.request_page(file, page, None)
    }

    /// Requests a page for which this side has lost a write.
    fn request_newer(&self, file: &Arc<DatabaseFile>, page: PageNumber) -> Result<bool> {
        let pinned = match self.core.cache.fetch_cold(file.page_key(page)) {
            // The page is also damaged, which is handled separately.
            Err(Error::Corrupt { .. }) => return Ok(false),
            fetched => fetched?,
        };
        let latch = pinned.read();
        let time = Page::new(&latch, file.page_size).db_time();
        self.request_page(file, page, Some(time))
    }

    fn request_page(
        &self,
        file: &DatabaseFile,
        page: PageNumber,
        stale_time: Option<DbTime>,
    ) -> Result<bool> {
        let (key, now) = (file.page_key(page), self.core.vfs.clock().monotonic());
        let mut requests = self.requests.lock();
        if requests
            .get(&key)
            .is_some_and(|request| now.saturating_sub(request.asked) < REQUEST_RETRY_INTERVAL)
        {
            return Ok(false);
        }
        let record = PagePatchRequest {
            database: DatabaseIdInLog(file.log_id),
            page,
            db_time: file.db_time(),
            reserved: [0; 32],
        };
        let mut batch = RecordBatch::new();
        batch.push(&LogRecord::PagePatchRequest(record));
        let position = file.log.append(&batch)?.start;
        requests.insert(key, PendingPageRequest { position, asked: now, stale_time });
        Ok(true)
    }

    /// Installs the page of a copy, if this instance has requested it and the page has not changed since the request.
    fn install(&self, patch: &ExchangedPage) -> Result<bool> {
        let Some(file) = self.file(patch.database) else { return Ok(false) };
        let key = file.page_key(patch.page);
        let request = self.requests.lock().get(&key).copied();
        let Some(request) = request.filter(|request| request.position == patch.position) else {
            return Ok(false);
        };
        let time = Page::new(&patch.bytes, file.page_size).db_time();
        let is_page = patch.bytes.len() == file.page_size.bytes()
            && validate(&patch.bytes, file.page_size).is_ok()
            && (DbTime(1)..=file.db_time()).contains(&time);
        if !is_page {
            return Ok(false);
        }
        let tail = file.log.tail();
        // The cache will write this page, so no other write of it may bypass the cache.
        file.unsettled.add(Extent { last: patch.page, count: 1 });
        let installed = match request.stale_time {
            None => self.core.cache.install_image(key, &patch.bytes, tail, patch.position)?,
            Some(behind) => {
                let pinned = self.core.cache.fetch_cold(key)?;
                let mut latch = pinned.write();
                let is_unchanged = Page::new(&latch, file.page_size).db_time() == behind && behind < time;
                if is_unchanged {
                    latch.copy_from_slice(&patch.bytes);
                    latch.mark_dirty(tail);
                    latch.set_last(patch.position);
                }
                is_unchanged
            }
        };
        self.requests.lock().remove(&key);
        if installed {
            // The page must be made durable now, because no log record can repeat the repair.
            file.cache.flush_pages(file.file_id, |page| page == patch.page)?;
            self.core.cache.clear_damage(file.file_id, patch.page);
            let (database, page) = (file.path.clone(), patch.page);
            file.events.report(EventKind::PageRepaired { database, page, on_copy: false });
        }
        Ok(installed)
    }
}

/// Logs the state of a page, and returns the page in this state. Returns `None` if the page cannot be read or has
/// never been written.
fn log_image(file: &Arc<DatabaseFile>, page: PageNumber) -> Result<Option<ExchangedPage>> {
    let last = file.file_pages()?;
    if page.get() > last || file.cache.are_released(file.file_id, page.get(), page.get()) {
        return Ok(None);
    }
    // The page is read into the cache, so later writes of it must not bypass the cache.
    file.unsettled.add_all_through(last);
    let pinned = match file.cache.fetch_cold(file.page_key(page)) {
        Err(Error::Corrupt { .. } | Error::Io { .. }) => return Ok(None),
        fetched => fetched?,
    };
    let latch = pinned.write();
    // The before-images are logged as if the page were written now, because redo on the copy never sees the page's
    // earlier states.
    for undo in latch.undo_to_share() {
        undo.log()?;
    }
    let record = check_record::check_record(file, page, &latch);
    let position = check_record::append(file, &record)?;
    let database = file.header().signature;
    Ok(Some(ExchangedPage::new(database, page, position, latch.to_vec())))
}
