//! What the replay of a copy finds about its pages, and how pages of two sides repair each other.

use ese_format::{LogPosition, PageNumber, Signature};
use twox_hash::XxHash3_64;

use super::Replayer;
use super::redo::Comparison;

/// A page of a copy that was compared with what the active side has logged.
#[derive(Clone, Debug)]
pub struct PageComparison {
    /// The database of the copy.
    pub database: Signature,
    /// The page.
    pub page: PageNumber,
    /// Where the record of the active side stands.
    pub position: LogPosition,
    /// The outcome.
    pub comparison: Comparison,
}

/// A page as it was at a position of the log.
#[derive(Clone, PartialEq, Eq)]
pub struct PageImage {
    /// Its database.
    pub database: Signature,
    /// The page.
    pub page: PageNumber,
    /// The start of the record about this state: a scan-check record for an image of the active side, a patch request for one of
    /// a copy.
    pub position: LogPosition,
    /// Its bytes. The checksum in them does not count.
    pub bytes: Vec<u8>,
    /// XXH3 of the bytes, of the side that has made the image. The record about the state says nothing about unused bytes.
    pub(crate) hash: u64,
}

impl PageImage {
    /// An image of a page.
    pub(crate) fn new(
        database: Signature,
        page: PageNumber,
        position: LogPosition,
        bytes: Vec<u8>,
    ) -> PageImage {
        let hash = XxHash3_64::oneshot(&bytes);
        PageImage { database, page, position, bytes, hash }
    }

    /// Whether the bytes are those that were sent.
    pub fn is_whole(&self) -> bool {
        XxHash3_64::oneshot(&self.bytes) == self.hash
    }
}

/// A page that lacks changes, because it could not be read or has lost a write.
#[derive(Clone, Debug)]
pub struct BadPage {
    /// The database.
    pub database: Signature,
    /// The page.
    pub page: PageNumber,
    /// What is wrong.
    pub what: String,
}

/// What the replay of a copy has found since it was asked.
#[derive(Default)]
pub struct CopyFindings {
    /// Pages that were compared, those of one database in the order of the log.
    pub compared: Vec<PageComparison>,
    /// Pages for which the active side has asked, as they were at its records.
    pub requested: Vec<PageImage>,
    /// Pages that were repaired by an image.
    pub repaired: Vec<(Signature, PageNumber)>,
}

impl std::fmt::Debug for PageImage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let PageImage { page, position, bytes, .. } = self;
        write!(f, "PageImage {{ page: {page}, position: {position:?}, {} bytes }}", bytes.len())
    }
}

impl Replayer {
    /// From now on the databases are those of a copy: pages are compared where the active side has logged their state, pages
    /// for which it asks are kept, and a page that cannot be brought forward does not end the replay: it waits for an image.
    pub fn work_as_copy(&mut self) {
        self.replay.redo.work_as_copy();
    }

    /// Gives an image of the active side to the replay, which uses it at the position of its record. An image that was damaged on its
    /// way is dropped.
    pub fn supply_image(&mut self, image: PageImage) {
        if let Some(copy) = self.replay.redo.copy_work().filter(|_| image.is_whole()) {
            copy.images.insert(image.position, (image.page, image.bytes));
        }
    }

    /// What was found since the last call. After repairs, everything that can be written is written.
    ///
    /// Errors: that failed.
    pub fn take_findings(&mut self) -> crate::Result<CopyFindings> {
        let Some(copy) = self.replay.redo.copy_work() else { return Ok(CopyFindings::default()) };
        let done = std::mem::take(&mut copy.done);
        let signature = |file| self.core.file(file).map(|database| database.header().signature);
        let compared = done.compared.into_iter().filter_map(|one| {
            let (page, position, comparison) = (one.page, one.position, one.comparison);
            Some(PageComparison { database: signature(one.file)?, page, position, comparison })
        });
        let requested = done.captured.into_iter().filter_map(|one| {
            let (page, position, bytes) = (one.page, one.position, one.bytes);
            Some(PageImage::new(signature(one.file)?, page, position, bytes))
        });
        let repaired = done.repaired.iter().filter_map(|(file, page, _)| Some((signature(*file)?, *page)));
        let findings = CopyFindings {
            compared: compared.collect(),
            requested: requested.collect(),
            repaired: repaired.collect(),
        };
        if !findings.repaired.is_empty() {
            self.checkpoint()?;
        }
        Ok(findings)
    }

    /// Pages that wait for an image, because changes of them could not be repeated.
    pub fn bad_pages(&self) -> Vec<BadPage> {
        let mut pages = std::collections::BTreeMap::new();
        for database in self.core.databases() {
            let file = &database.file;
            // A page whose changes redo has left in memory is read later.
            for page in self.core.cache.damaged_pages(file.file_id) {
                pages.insert(file.page_key(page), "it cannot be read".to_string());
            }
        }
        pages.extend(self.replay.redo.bad_pages().map(|(key, error)| (key, error.to_string())));
        let bad = pages.into_iter().filter_map(|(key, what)| {
            Some(BadPage { database: self.core.file(key.file)?.header().signature, page: key.page, what })
        });
        bad.collect()
    }
}
