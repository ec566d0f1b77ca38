//! An open database file: its page size, and its pages with their verification results.

use std::collections::HashSet;
use std::fmt;

use ese_format::checksum::{PageIntegrity, verify_page};
use ese_format::page::Page;
use ese_format::{PageNumber, PageSize};
use serde::{Serialize, Serializer};

use crate::format::read_start;
use crate::header::{FILE_TYPE_TEMPORARY, STATE_JUST_CREATED, number, read_header, report_damage};
use crate::output::{DumpOutput, DumpProblem};
use crate::{DumpSource, DumpedValue, EseFileKind, Result, UnusableReason};

/// A database file that is open for a dump.
pub(crate) struct DumpedDatabase<'s> {
    pub(crate) source: &'s DumpSource,
    pub(crate) page_size: PageSize,
    /// Number of whole pages after the two header copies.
    pub(crate) pages: u32,
    /// Whether the pages have checksums. The pages of a temporary database do not.
    checksums: bool,
}

/// Result of reading and verifying a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PageState {
    /// Checksum and page number match.
    Good,
    /// Checksum and page number match after correcting this number of flipped bits in memory.
    Repaired(usize),
    /// All bytes are zero.
    Zero,
    /// The checksum does not match.
    Bad,
    /// The page was written with a different page number. The value is that number.
    WrongPage(u32),
    /// The page is beyond the end of the file.
    BeyondFile,
    /// The page could not be read.
    Unreadable(String),
}

impl PageState {
    /// Returns true if the contents of the page can be trusted.
    pub(crate) fn is_good(&self) -> bool {
        matches!(self, PageState::Good | PageState::Repaired(_))
    }

    fn name(&self) -> &'static str {
        match self {
            PageState::Good => "good",
            PageState::Repaired(_) => "repaired",
            PageState::Zero => "zero",
            PageState::Bad => "bad",
            PageState::WrongPage(_) => "wrong-page",
            PageState::BeyondFile => "beyond-file",
            PageState::Unreadable(_) => "unreadable",
        }
    }

    /// Returns the state as the predicate of a sentence whose subject is the page.
    pub(crate) fn reason(&self) -> String {
        match self {
            PageState::Good => "is good".to_owned(),
            PageState::Repaired(bits) => format!("has {bits} flipped bit(s), which are corrected here"),
            PageState::Zero => "was never written (all zero)".to_owned(),
            PageState::Bad => "has a bad checksum".to_owned(),
            PageState::WrongPage(stored) => format!("contains page {stored}"),
            PageState::BeyondFile => "is past the end of the file".to_owned(),
            PageState::Unreadable(error) => format!("cannot be read: {error}"),
        }
    }
}

impl fmt::Display for PageState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for PageState {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// Contents of a page, with single-bit errors corrected.
pub(crate) struct LoadedPage {
    pub(crate) number: u32,
    pub(crate) bytes: Vec<u8>,
    pub(crate) state: PageState,
    pub(crate) size: PageSize,
}

impl LoadedPage {
    pub(crate) fn page(&self) -> Page<'_> {
        Page::new(&self.bytes, self.size)
    }
}

impl<'s> DumpedDatabase<'s> {
    /// Opens a database. Reports header damage as a problem in the output. Fails if the page size is unknown.
    pub(crate) fn open(source: &'s DumpSource, output: &mut DumpOutput<'_>) -> Result<DumpedDatabase<'s>> {
        read_start(source, EseFileKind::Database)?;
        let header = read_header(source)?;
        report_damage(&header, output)?;
        let page_size = match header.fields.get("page_size") {
            Some(DumpedValue::Number(stored)) => u32::try_from(*stored).ok().and_then(PageSize::from_header),
            _ => None,
        };
        let Some(page_size) = page_size else {
            return Err(source.unusable_error(UnusableReason::DamagedHeader));
        };
        let pages = (source.size() / page_size.bytes() as u64).saturating_sub(2);
        let tail = source.size() % page_size.bytes() as u64;
        if tail != 0 {
            let message = format!("{tail} bytes follow the last complete page; the file may be truncated");
            output.problem(DumpProblem::at(source.size() - tail, message))?;
        }
        let pages = u32::try_from(pages).unwrap_or(u32::MAX);
        let checksums = header.fields.get("file_type") != Some(&DumpedValue::Number(FILE_TYPE_TEMPORARY));
        let mut database = DumpedDatabase { source, page_size, pages, checksums };
        // The header of a temporary database may have the same file type as that of an ordinary database.
        if number(&header.fields, "state") == STATE_JUST_CREATED {
            database.checksums &= !matches!(database.page(1).state, PageState::Bad | PageState::WrongPage(_));
        }
        Ok(database)
    }

    /// Returns the file offset of a page.
    pub(crate) fn offset_of(&self, number: u32) -> u64 {
        (u64::from(number) + 1) * self.page_size.bytes() as u64
    }

    /// Reads and verifies a page.
    pub(crate) fn page(&self, number: u32) -> LoadedPage {
        let size = self.page_size;
        let image = |bytes, state| LoadedPage { number, bytes, state, size };
        let Some(place) = PageNumber::new(number).filter(|_| number <= self.pages) else {
            return image(Vec::new(), PageState::BeyondFile);
        };
        match self.source.read(size.offset_of(place), size.bytes()) {
            Ok(bytes) if !self.checksums && bytes.iter().any(|&byte| byte != 0) => {
                image(bytes, PageState::Good)
            }
            Ok(mut bytes) => {
                let state = match verify_page(&mut bytes, size, place) {
                    PageIntegrity::Good => PageState::Good,
                    PageIntegrity::Zero => PageState::Zero,
                    PageIntegrity::Repaired { bits } => PageState::Repaired(bits.len()),
                    PageIntegrity::WrongPage { stored } => PageState::WrongPage(stored),
                    PageIntegrity::Bad => PageState::Bad,
                };
                image(bytes, state)
            }
            Err(error) => image(Vec::new(), PageState::Unreadable(error.to_string())),
        }
    }
}

/// A set of pages in the file, stored as a hash set while it is small and then as a bitmap of all pages.
pub(crate) struct AdaptivePageSet {
    hashed: HashSet<u32>,
    bits: Vec<u64>,
    last: u32,
}

/// Number of pages at which the set switches to a bitmap.
const MAX_HASHED_PAGES: usize = 4096;

impl AdaptivePageSet {
    /// Creates an empty set for pages up to `last`.
    pub(crate) fn new(last: u32) -> AdaptivePageSet {
        AdaptivePageSet { hashed: HashSet::new(), bits: Vec::new(), last }
    }

    /// Adds a page. Returns `false` if the page is already in the set or is beyond the last page.
    pub(crate) fn insert(&mut self, page: u32) -> bool {
        if page > self.last {
            return false;
        }
        if self.bits.is_empty() {
            if self.hashed.len() < MAX_HASHED_PAGES {
                return self.hashed.insert(page);
            }
            self.bits = vec![0; self.last as usize / 64 + 1];
            for page in std::mem::take(&mut self.hashed) {
                self.set(page);
            }
        }
        self.set(page)
    }

    fn set(&mut self, page: u32) -> bool {
        let bit = 1 << (page % 64);
        let Some(word) = self.bits.get_mut(page as usize / 64) else { return false };
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    pub(crate) fn contains(&self, page: u32) -> bool {
        match self.bits.get(page as usize / 64) {
            Some(word) => word >> (page % 64) & 1 == 1,
            None => self.hashed.contains(&page),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn converting_a_page_set_to_a_bitmap_keeps_all_pages() {
        let mut set = AdaptivePageSet::new(20_000);
        for page in (0..20_000).step_by(3) {
            assert!(set.insert(page) && !set.insert(page));
        }
        assert!((0..20_000).all(|page| set.contains(page) == (page % 3 == 0)));
        assert!(!set.insert(20_001) && !set.contains(20_001));
    }
}
