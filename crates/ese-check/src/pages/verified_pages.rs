//! Pages that have already been read and checked by the walk through the trees, so that page verification can skip
//! them.

use ese_format::PageNumber;
use ese_format::checksum::PageIntegrity;

use crate::findings::Findings;
use crate::pages::page_set::PageSet;
use crate::pages::page_status::{PageCounts, PageStatus, report};

/// Set of checked pages, with one bit per owned page, and the status of each page that is not good.
pub(crate) struct VerifiedPages {
    pages: PageSet,
    last_owned: u32,
    pub(crate) counts: PageCounts,
    unreported: Vec<(PageNumber, PageStatus)>,
}

impl VerifiedPages {
    /// Creates an empty set for pages 1 to `last_owned`. Later pages are ignored.
    pub(crate) fn new(last_owned: u32) -> VerifiedPages {
        VerifiedPages {
            pages: PageSet::for_pages(last_owned.saturating_add(1)),
            last_owned,
            counts: PageCounts::default(),
            unreported: Vec::new(),
        }
    }

    /// Records the status of a page when it is read for the first time.
    pub(crate) fn record(&mut self, page: PageNumber, status: PageStatus) {
        if page.get() > self.last_owned || !self.pages.insert(page) {
            return;
        }
        match status {
            PageStatus::Page(PageIntegrity::Good, _) => self.counts.good += 1,
            PageStatus::Page(PageIntegrity::Zero, _) => self.counts.zero += 1,
            other => self.unreported.push((page, other)),
        }
    }

    pub(crate) fn contains(&self, page: PageNumber) -> bool {
        self.pages.contains(page)
    }

    /// Reports the pages that are not good and have not been reported yet.
    pub(crate) fn report(&mut self, findings: &mut Findings) {
        for (page, verdict) in self.unreported.drain(..) {
            report(page, &verdict, &mut self.counts, findings);
        }
    }
}
