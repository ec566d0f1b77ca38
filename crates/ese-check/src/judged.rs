//! Pages that the walk through the trees has read and judged. The verification of all pages skips them.

use ese_format::PageNumber;
use ese_format::checksum::PageIntegrity;

use crate::findings::Findings;
use crate::page_set::PageSet;
use crate::page_status::{PageCounts, PageStatus, report};

/// One bit per owned page, and the status of the pages that are not good.
pub(crate) struct JudgedPages {
    seen: PageSet,
    last_owned: u32,
    pub(crate) counts: PageCounts,
    unreported: Vec<(PageNumber, PageStatus)>,
}

impl JudgedPages {
    /// For pages 1 to `last_owned`; later pages have no meaning.
    pub(crate) fn new(last_owned: u32) -> JudgedPages {
        JudgedPages {
            seen: PageSet::for_pages(last_owned.saturating_add(1)),
            last_owned,
            counts: PageCounts::default(),
            unreported: Vec::new(),
        }
    }

    /// Counts a page when it is read for the first time.
    pub(crate) fn judge(&mut self, page: PageNumber, status: PageStatus) {
        if page.get() > self.last_owned || !self.seen.insert(page) {
            return;
        }
        match status {
            PageStatus::Page(PageIntegrity::Good, _) => self.counts.good += 1,
            PageStatus::Page(PageIntegrity::Zero, _) => self.counts.zero += 1,
            other => self.unreported.push((page, other)),
        }
    }

    pub(crate) fn contains(&self, page: PageNumber) -> bool {
        self.seen.contains(page)
    }

    /// Reports the pages that are not good and were not reported yet.
    pub(crate) fn report(&mut self, findings: &mut Findings) {
        for (page, verdict) in self.unreported.drain(..) {
            report(page, &verdict, &mut self.counts, findings);
        }
    }
}
