//! Findings from replaying a copy, and the page images that the two sides exchange for repairs.

use ese_format::{LogPosition, PageNumber, Signature};
use twox_hash::XxHash3_64;

use super::Replayer;
use super::redo::ComparisonResult;

/// Result of comparing a copy's page with the state that the active side has logged.
#[derive(Clone, Debug)]
pub struct PageComparison {
    /// Signature of the copy's database.
    pub database: Signature,
    /// Page number.
    pub page: PageNumber,
    /// Position of the active side's log record.
    pub position: LogPosition,
    /// Result of the comparison.
    pub comparison: ComparisonResult,
}

/// A page image that the active side and a copy exchange, as of a log position.
#[derive(Clone, PartialEq, Eq)]
pub struct ExchangedPage {
    /// Signature of the database.
    pub database: Signature,
    /// Page number.
    pub page: PageNumber,
    /// Start of the record that describes this state: a scan-check record for an image from the active side, or a
    /// patch request for an image from a copy.
    pub position: LogPosition,
    /// Content of the page. Its checksum field is ignored.
    pub bytes: Vec<u8>,
    /// XXH3 hash of the bytes, calculated by the side that made the image. It is needed because the record that
    /// describes the state does not cover unused bytes.
    pub(crate) hash: u64,
}

impl ExchangedPage {
    /// Creates an image of a page.
    pub(crate) fn new(
        database: Signature,
        page: PageNumber,
        position: LogPosition,
        bytes: Vec<u8>,
    ) -> ExchangedPage {
        let hash = XxHash3_64::oneshot(&bytes);
        ExchangedPage { database, page, position, bytes, hash }
    }

    /// Returns whether the bytes are unchanged since the image was made.
    pub fn is_intact(&self) -> bool {
        XxHash3_64::oneshot(&self.bytes) == self.hash
    }
}

/// A page that lacks changes because it could not be read or has lost a write.
#[derive(Clone, Debug)]
pub struct UnreplayedPage {
    /// Signature of the database.
    pub database: Signature,
    /// Page number.
    pub page: PageNumber,
    /// Description of the damage.
    pub damage: String,
}

/// Findings from replaying a copy since the last call to [`Replayer::take_findings`].
#[derive(Default)]
pub struct ReplayFindings {
    /// Pages that were compared, in log order for each database.
    pub compared: Vec<PageComparison>,
    /// Pages that the active side has requested, in their state at the request records.
    pub requested: Vec<ExchangedPage>,
    /// Pages that were repaired using an image.
    pub repaired: Vec<(Signature, PageNumber)>,
}

impl std::fmt::Debug for ExchangedPage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ExchangedPage { page, position, bytes, .. } = self;
        write!(f, "ExchangedPage {{ page: {page}, position: {position:?}, {} bytes }}", bytes.len())
    }
}

impl Replayer {
    /// Marks the databases as belonging to a copy. From now on, pages are compared at the positions where the active
    /// side has logged their state, and requested pages are captured. A page that cannot be updated no longer ends
    /// the replay; instead, it waits for an image.
    pub fn mark_as_copy(&mut self) {
        self.replay.redo.mark_as_copy();
    }

    /// Passes an image from the active side to the replay, which uses it at the position of its record. An image that
    /// was damaged in transit is discarded.
    pub fn supply_image(&mut self, image: ExchangedPage) {
        if let Some(copy) = self.replay.redo.copy_tasks().filter(|_| image.is_intact()) {
            copy.images.insert(image.position, (image.page, image.bytes));
        }
    }

    /// Returns the findings since the last call. If pages were repaired, this first writes all pages that can be
    /// written.
    ///
    /// Returns an error if these writes fail.
    pub fn take_findings(&mut self) -> crate::Result<ReplayFindings> {
        let Some(copy) = self.replay.redo.copy_tasks() else { return Ok(ReplayFindings::default()) };
        let done = std::mem::take(&mut copy.done);
        let signature = |file| self.core.file(file).map(|database| database.header().signature);
        let compared = done.compared.into_iter().filter_map(|one| {
            let (page, position, comparison) = (one.page, one.position, one.comparison);
            Some(PageComparison { database: signature(one.file)?, page, position, comparison })
        });
        let requested = done.captured.into_iter().filter_map(|one| {
            let (page, position, bytes) = (one.page, one.position, one.bytes);
            Some(ExchangedPage::new(signature(one.file)?, page, position, bytes))
        });
        let repaired = done.repaired.iter().filter_map(|(file, page, _)| Some((signature(*file)?, *page)));
        let findings = ReplayFindings {
            compared: compared.collect(),
            requested: requested.collect(),
            repaired: repaired.collect(),
        };
        if !findings.repaired.is_empty() {
            self.checkpoint()?;
        }
        Ok(findings)
    }

    /// Returns the pages that wait for an image because their changes could not be redone.
    pub fn bad_pages(&self) -> Vec<UnreplayedPage> {
        let mut pages = std::collections::BTreeMap::new();
        for database in self.core.databases() {
            let file = &database.file;
            // Redo may keep the changes to a page in memory without reading the page. Such a page may turn out to be
            // unreadable.
            for page in self.core.cache.damaged_pages(file.file_id) {
                pages.insert(file.page_key(page), "the page cannot be read".to_string());
            }
        }
        pages.extend(self.replay.redo.bad_pages().map(|(key, error)| (key, error.to_string())));
        let bad = pages.into_iter().filter_map(|(key, what)| {
            Some(UnreplayedPage {
                database: self.core.file(key.file)?.header().signature,
                page: key.page,
                damage: what,
            })
        });
        bad.collect()
    }
}
