//! Repairs single pages between a copy and its active side while both are running.
//!
//! The copy requests pages that it cannot replay any further and pages that its scan has found to be bad. It also
//! reports pages for which the active side has lost a write, and sends pages that the log requests. Messages may be
//! lost; pages that are still damaged are requested again.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

use ese_engine::{ExchangedPage, PageRequests, ReplayFindings};
use ese_format::{Generation, PageNumber, Signature};
use jetcell_sync::Arc;
use jetcell_vfs::Vfs;

use crate::copy_scan::CopyScanProgress;
use crate::copy_state::CopyState;
use crate::error::Result;
use crate::log_end::read_log_header;
use crate::log_replayer::LogReplayer;
use crate::log_source::LogSource;
use crate::page_checks::PageChecks;

/// Time after which an unanswered request is repeated, in milliseconds.
const REQUEST_RETRY_INTERVAL_MS: i64 = 5_000;
/// Maximum number of pages in one request.
const MAX_PAGES_PER_REQUEST: usize = 16;
/// Maximum number of pages waiting to be sent.
const MAX_UNSENT: usize = 32;

/// Compares and repairs the pages of one copy.
pub(crate) struct PageRepair {
    checks: PageChecks,
    stored: PageChecks,
    /// Pages that the replay cannot bring up to date.
    bad: Vec<(Signature, PageNumber)>,
    /// Time and content of the last request to the active side.
    pending_request: Option<(i64, PageRequests)>,
    unsent: VecDeque<ExchangedPage>,
}

impl PageRepair {
    /// Reads the stored results and continues from them.
    pub fn read(vfs: &dyn Vfs, directory: &Path) -> Result<PageRepair> {
        let checks = PageChecks::read(vfs, directory)?;
        let stored = checks.clone();
        Ok(PageRepair { checks, stored, bad: Vec::new(), pending_request: None, unsent: VecDeque::new() })
    }

    /// Records the findings from replaying a generation.
    pub fn record_findings(
        &mut self,
        vfs: &Arc<dyn Vfs>,
        directory: &Path,
        state: &CopyState,
        generation: Generation,
        findings: ReplayFindings,
        bad: Vec<(Signature, PageNumber)>,
    ) -> Result<()> {
        self.bad = bad;
        // The active side read its pages when the log was created, or later.
        let log = state.logs(vfs, directory).archived(generation);
        let at = read_log_header(&**vfs, &log).ok().and_then(|header| header.created.unix_ms()).unwrap_or(0);
        findings.compared.iter().for_each(|one| self.checks.record(one, at));
        let now = vfs.clock().unix_ms();
        for (signature, page) in findings.repaired {
            self.checks.record_repair(signature, page, now);
        }
        self.unsent.extend(findings.requested);
        let surplus = self.unsent.len().saturating_sub(MAX_UNSENT);
        self.unsent.drain(..surplus);
        self.store(vfs, directory)
    }

    fn store(&mut self, vfs: &Arc<dyn Vfs>, directory: &Path) -> Result<()> {
        if self.checks != self.stored {
            self.checks.store(&**vfs, directory)?;
            self.stored = self.checks.clone();
        }
        Ok(())
    }

    /// Sends and requests pages, and supplies received pages to the replay.
    ///
    /// The caller must have copied logs since the last call, so that when an image has arrived, the log that contains
    /// its record has arrived, too.
    pub fn exchange(
        &mut self,
        vfs: &Arc<dyn Vfs>,
        directory: &Path,
        state: &CopyState,
        source: &dyn LogSource,
        replayer: &mut LogReplayer,
    ) -> Result<()> {
        while let Some(image) = self.unsent.front() {
            source.send_page(image)?;
            self.unsent.pop_front();
        }
        let wishes = self.page_requests(vfs, directory, state)?;
        if wishes.is_empty() {
            self.pending_request = None;
            return Ok(());
        }
        for (database, page) in &wishes.repair {
            // An image that was damaged in transit is requested again.
            if let Some(image) = source.page_image(*database, *page)?.filter(ExchangedPage::is_intact) {
                replayer.supply_image(image);
            }
        }
        let now = vfs.clock().unix_ms();
        let was_asked =
            |(at, asked): &(i64, PageRequests)| *asked == wishes && now - at < REQUEST_RETRY_INTERVAL_MS;
        if !self.pending_request.as_ref().is_some_and(was_asked) {
            source.request_pages(&state.id, &wishes)?;
            self.pending_request = Some((now, wishes));
        }
        Ok(())
    }

    fn page_requests(&self, vfs: &Arc<dyn Vfs>, directory: &Path, state: &CopyState) -> Result<PageRequests> {
        let mut repair = BTreeMap::new();
        let mut lost = Vec::new();
        let mut wish = |signature: &Signature, page: PageNumber| {
            repair.insert((signature.to_hex(), page), *signature);
        };
        self.bad.iter().for_each(|(signature, page)| wish(signature, *page));
        let scan = CopyScanProgress::read(&**vfs, directory)?;
        for database in &state.databases {
            let signature = database.signature();
            let scanned = scan.databases.iter().find(|scanned| scanned.signature == database.signature);
            if let Some(scanned) = scanned {
                let known = scanned.bad_pages.iter().filter_map(|(page, _)| PageNumber::new(*page));
                known
                    .filter(|page| {
                        let (signature, began) = (&database.signature, scanned.began_unix_ms);
                        !self.checks.was_repaired(signature, page.get(), began)
                    })
                    .for_each(|page| wish(&signature, page));
            }
            let checked = self.checks.find_database(&database.signature);
            for divergence in checked.into_iter().flat_map(|checked| &checked.divergences) {
                let Some(page) = PageNumber::new(divergence.page).filter(|_| divergence.repairable) else {
                    continue;
                };
                if divergence.active_is_behind {
                    lost.push((signature, page));
                } else {
                    wish(&signature, page);
                }
            }
        }
        lost.truncate(MAX_PAGES_PER_REQUEST);
        let repair = repair.into_iter().map(|((_, page), signature)| (signature, page));
        Ok(PageRequests { repair: repair.take(MAX_PAGES_PER_REQUEST).collect(), lost })
    }
}
