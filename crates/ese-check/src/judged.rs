//! Pages that the walk through the trees has read and judged, so that the look at every page need not read them again.

use ese_format::PageNumber;
use ese_format::checksum::PageVerdict;

use crate::finding::Findings;
use crate::pages::{PageCounts, Verdict, report};

/// One bit per owned page, and what there is to say about the pages that are not good.
pub(crate) struct JudgedPages {
    seen: Vec<u64>,
    last_owned: u32,
    pub(crate) counts: PageCounts,
    unreported: Vec<(PageNumber, Verdict)>,
}

impl JudgedPages {
    /// None yet, of pages 1 to `last_owned`; pages behind mean nothing.
    pub(crate) fn new(last_owned: u32) -> JudgedPages {
        JudgedPages {
            seen: vec![0; last_owned as usize / 64 + 1],
            last_owned,
            counts: PageCounts::default(),
            unreported: Vec::new(),
        }
    }

    /// Counts a page when it is read for the first time.
    pub(crate) fn judge(&mut self, page: PageNumber, verdict: Verdict) {
        if page.get() > self.last_owned || self.contains(page) {
            return;
        }
        if let Some(word) = self.seen.get_mut(page.get() as usize / 64) {
            *word |= 1 << (page.get() % 64);
        }
        match verdict {
            Verdict::Page(PageVerdict::Good, _) => self.counts.good += 1,
            Verdict::Page(PageVerdict::Zero, _) => self.counts.zero += 1,
            other => self.unreported.push((page, other)),
        }
    }

    pub(crate) fn contains(&self, page: PageNumber) -> bool {
        let word = self.seen.get(page.get() as usize / 64).copied().unwrap_or_default();
        word >> (page.get() % 64) & 1 == 1
    }

    /// Reports the pages that are not good and were not reported yet.
    pub(crate) fn report(&mut self, findings: &mut Findings) {
        for (page, verdict) in self.unreported.drain(..) {
            report(page, &verdict, &mut self.counts, findings);
        }
    }
}
