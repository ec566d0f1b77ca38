//! Identifies files and pages in the cache.

use ese_format::PageNumber;

/// An attached file. The id is reused after the file was detached. ESE: `IFMP`.
#[doc(alias = "IFMP")]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FileId(pub u16);

/// A page of an attached file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PageKey {
    /// Which file.
    pub file: FileId,
    /// Which page of it.
    pub page: PageNumber,
}

impl PageKey {
    /// One integer with the order of the key; never 0.
    pub(super) fn to_u64(self) -> u64 {
        u64::from(self.file.0) << 32 | u64::from(self.page.get())
    }

    pub(super) fn from_u64(word: u64) -> PageKey {
        PageKey { file: FileId((word >> 32) as u16), page: PageNumber::fixed(word as u32) }
    }
}
