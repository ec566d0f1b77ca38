//! Status of a single page (checksum, page number, and flush type), and page counts by status.

use ese_format::checksum::{PageIntegrity, verify_page};
use ese_format::page::Page;
use ese_format::{PageNumber, PageSize};
use serde::Serialize;

use crate::findings::Findings;
use crate::findings::finding::FindingKind;
use crate::pages::flush_types::LostWrite;

/// Page counts by state.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct PageCounts {
    /// Number of pages with a matching checksum.
    pub good: u64,
    /// Number of pages that are all zero because they were never written or were freed. Includes pages after the
    /// owned space.
    pub zero: u64,
    /// Number of pages whose only damage is single flipped bits, which the checksum can locate and correct.
    pub repairable: u64,
    /// Number of sound pages that were written for another location. ESE: -1118.
    pub wrong_page: u64,
    /// Number of damaged pages. ESE: -1018.
    pub bad: u64,
    /// Number of pages that could not be read.
    pub unreadable: u64,
    /// Number of pages that have no checksum, as in temporary databases, and were not checked.
    pub unchecked: u64,
    /// Number of available pages that contain leftover bytes, which have no meaning.
    pub leftover: u64,
    /// Number of bad pages whose checksum was never set.
    #[serde(skip)]
    pub(crate) without_checksum: u64,
    /// Number of pages in the file that the database does not own. Their contents have no meaning.
    pub beyond_owned: u64,
    /// Number of pages counted in `beyond_owned` that are all zero.
    pub beyond_owned_zero: u64,
    /// Number of pages that the database owns but that are beyond the end of the file.
    pub missing: u64,
}

impl PageCounts {
    /// Returns the number of pages that were read and checked.
    pub fn examined(&self) -> u64 {
        let zero = self.zero - self.beyond_owned_zero;
        self.good + zero + self.repairable + self.wrong_page + self.bad + self.unreadable + self.leftover
    }

    /// Moves the pages reported by these kinds of findings from their counters to `leftover`.
    pub(crate) fn count_leftovers(&mut self, kinds: &[FindingKind]) {
        for kind in kinds {
            let counted = match kind {
                FindingKind::PageRepairable => &mut self.repairable,
                FindingKind::PageWrongNumber => &mut self.wrong_page,
                FindingKind::PageLostWrite => &mut self.good,
                _ => &mut self.bad,
            };
            *counted = counted.saturating_sub(1);
            self.leftover += 1;
        }
    }

    /// Returns true if the database is temporary, meaning that no page has a checksum.
    ///
    /// The pages of a temporary database are not damaged, so they are counted as unchecked. ESE never seals these
    /// pages and may overwrite them with old contents. The header keeps the state that it had when the database was
    /// created.
    pub(crate) fn accept_missing_checksums(
        &mut self,
        maybe_temporary: bool,
        findings: &mut Findings,
    ) -> bool {
        let without_checksums =
            self.good == 0 && self.without_checksum > 0 && self.without_checksum == self.bad;
        let temporary = without_checksums || maybe_temporary && self.bad + self.wrong_page > 0;
        if temporary {
            self.unchecked = std::mem::take(&mut self.bad) + std::mem::take(&mut self.wrong_page);
            findings.forget_damaged_pages();
        }
        temporary
    }
}

/// Status of a single page.
pub(crate) enum PageStatus {
    /// Result of the checksum verification, and the number of nodes that the page claims to have.
    Page(PageIntegrity, u32),
    /// The page is sound, but its last write was lost.
    LostWrite(LostWrite),
    /// The page has contents but no checksum. The value is the number of nodes that the page claims to have.
    NoChecksum(u32),
    Unreadable(String),
}

impl PageStatus {
    /// Checks a page and corrects a flipped bit.
    pub(crate) fn verify(page: &mut [u8], size: PageSize, number: PageNumber) -> PageStatus {
        let verdict = verify_page(page, size, number);
        let sound = matches!(verdict, PageIntegrity::Good | PageIntegrity::Zero);
        let nodes = if sound { 0 } else { claimed_nodes(page, size) };
        let has_checksum = page.iter().take(8).any(|&byte| byte != 0);
        if sound || has_checksum { PageStatus::Page(verdict, nodes) } else { PageStatus::NoChecksum(nodes) }
    }
}

/// Returns the number of nodes according to a page's header, even if the rest of the page is damaged. Returns 0 if
/// the number is impossible.
fn claimed_nodes(page: &[u8], size: PageSize) -> u32 {
    let nodes = Page::new(page, size).node_count() as u32;
    // A node needs at least a tag and two lengths.
    if nodes < size.get() / 8 { nodes } else { 0 }
}

/// Counts and reports a page that is not good.
pub(crate) fn report(
    page: PageNumber,
    verdict: &PageStatus,
    counts: &mut PageCounts,
    findings: &mut Findings,
) {
    let (kind, rows, what) = match verdict {
        PageStatus::Page(PageIntegrity::Good | PageIntegrity::Zero, _) => return,
        PageStatus::Page(PageIntegrity::Repaired { bits }, rows) => {
            counts.repairable += 1;
            let places: Vec<String> =
                bits.iter().map(|bit| format!("byte {} bit {}", bit / 8, bit % 8)).collect();
            let what = format!("flipped bit at {}; the checksum can correct it", places.join(", "));
            (FindingKind::PageRepairable, *rows, what)
        }
        PageStatus::Page(PageIntegrity::WrongPage { stored }, _) => {
            counts.wrong_page += 1;
            (FindingKind::PageWrongNumber, 0, format!("the page contains page {stored} (ESE -1118)"))
        }
        PageStatus::Page(PageIntegrity::Bad, rows) => {
            counts.bad += 1;
            (FindingKind::PageBadChecksum, *rows, "bad checksum (ESE -1018)".to_owned())
        }
        PageStatus::LostWrite(LostWrite { found, expected }) => {
            counts.good += 1;
            let what = format!(
                "the page has flush type {found}, but the flush map has {expected}: the last write of the \
                 page was lost (ESE -1119)"
            );
            (FindingKind::PageLostWrite, 0, what)
        }
        PageStatus::NoChecksum(rows) => {
            counts.bad += 1;
            counts.without_checksum += 1;
            (FindingKind::PageBadChecksum, *rows, "the checksum is zero (ESE -1018)".to_owned())
        }
        PageStatus::Unreadable(error) => {
            counts.unreadable += 1;
            (FindingKind::PageUnreadable, 0, format!("failed to read the page: {error}"))
        }
    };
    findings.damaged_page(kind, page, what, rows);
}
