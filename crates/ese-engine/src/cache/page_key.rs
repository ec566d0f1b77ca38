//! Identifiers of files and pages in the cache.

use ese_format::PageNumber;

/// Identifies an attached file. The id may be reused after the file has been detached. ESE: `IFMP`.
#[doc(alias = "IFMP")]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AttachedFileId(pub u16);

/// Identifies a page in an attached file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PageKey {
    /// The file.
    pub file: AttachedFileId,
    /// The number of the page in the file.
    pub page: PageNumber,
}

impl PageKey {
    /// Returns the key as one integer with the same order. The result is never 0.
    pub(super) fn to_u64(self) -> u64 {
        u64::from(self.file.0) << 32 | u64::from(self.page.get())
    }

    pub(super) fn from_u64(word: u64) -> PageKey {
        PageKey { file: AttachedFileId((word >> 32) as u16), page: PageNumber::fixed(word as u32) }
    }
}
