//! Compares two database files page by page.
//!
//! Pages are compared as they are stored, so the comparison also finds changes that are invisible to readers of the
//! database. Memory use does not depend on the size of the files.

use std::fmt;

use ese_format::checksum::PageIntegrity;
use ese_format::page::Page;
use ese_format::{PageNumber, PageSize};
use jetcell_vfs::{IoBuffer, IoReason};

use crate::pages::database::ReadableDatabase;
use crate::pages::page_status::PageStatus;

/// Maximum number of bytes to read at once from each file.
const CHUNK_LEN: u32 = 256 * 1024;

/// Counts of equal and different pages in two files.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PagePairCounts {
    /// Number of pages that are equal, byte for byte.
    pub equal: u64,
    /// Number of pages that differ. Includes pages that cannot be read in one of the files.
    pub different: u64,
    /// Number of pages past the end of the other file, for each file.
    pub only: [u64; 2],
    /// True if the two copies of the header differ between the files.
    pub headers_differ: bool,
    /// True if the files have different lengths, or if a length is unknown. A partial page at the end of a file
    /// counts toward its length.
    pub lengths_differ: bool,
}

impl PagePairCounts {
    /// Returns true if the files have the same pages, headers and lengths.
    pub fn are_equal(&self) -> bool {
        self.different == 0 && self.only == [0, 0] && !self.headers_differ && !self.lengths_differ
    }
}

/// One page that differs between two files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PageDifference {
    /// Number of the page.
    pub page: PageNumber,
    /// Content of the page in each file.
    pub versions: [PageVersion; 2],
}

/// Content of a page in one of the compared files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PageVersion {
    /// The page is sound.
    Sound {
        /// Tree to which the page belongs.
        tree: u32,
        /// dbtime of the last change.
        db_time: u64,
    },
    /// All bytes are zero: the page was never written.
    Zero,
    /// The page has single flipped bits, which the checksum can correct.
    FlippedBits,
    /// The page was written with a different page number. The value is that number.
    WrongPage(u32),
    /// The checksum does not match.
    BadChecksum,
    /// The page cannot be read.
    Unreadable(String),
}

impl fmt::Display for PageVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PageVersion::Sound { tree, db_time } => write!(f, "tree {tree}, dbtime {db_time:#x}"),
            PageVersion::Zero => f.write_str("all zero"),
            PageVersion::FlippedBits => f.write_str("flipped bits that the checksum can correct"),
            PageVersion::WrongPage(stored) => write!(f, "contains page {stored}"),
            PageVersion::BadChecksum => f.write_str("bad checksum"),
            PageVersion::Unreadable(error) => write!(f, "cannot be read: {error}"),
        }
    }
}

/// Reason why the pages of two files cannot be compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the page sizes differ: {} and {} bytes", .0[0].get(), .0[1].get())]
pub struct PageSizesDiffer(pub [PageSize; 2]);

/// Compares the headers and all pages of two files. Calls `visit` for every page that differs, and `progress` with the
/// number of compared pages and the total number of pages.
///
/// # Errors
///
/// Returns an error if the files have different page sizes.
pub fn compare_pages(
    databases: [&ReadableDatabase; 2],
    visit: &mut dyn FnMut(PageDifference),
    progress: &mut dyn FnMut(u32, u32),
) -> Result<PagePairCounts, PageSizesDiffer> {
    let sizes = databases.map(|database| database.page_size);
    let [size, other] = sizes;
    if size != other {
        return Err(PageSizesDiffer(sizes));
    }
    let files = databases.map(|database| database.file_pages);
    let common = files[0].min(files[1]);
    let mut counts = PagePairCounts {
        only: files.map(|pages| u64::from(pages - common)),
        headers_differ: headers_differ(databases, size),
        lengths_differ: lengths_differ(databases),
        ..PagePairCounts::default()
    };
    let step = (CHUNK_LEN / size.get()).max(1);
    let mut done = 0;
    while done < common {
        let (first, count) = (PageNumber::fixed(done + 1), step.min(common - done));
        let [mut one, mut two] = databases.map(|database| ComparedChunk::read(database, first, count));
        for index in 0..count {
            let pages = [one.page(index), two.page(index)];
            if let [Ok(one), Ok(two)] = &pages
                && one == two
            {
                counts.equal += 1;
                continue;
            }
            counts.different += 1;
            let page = first.plus(index);
            let [one, two] = pages;
            let versions = [page_version(databases[0], one, page), page_version(databases[1], two, page)];
            visit(PageDifference { page, versions });
        }
        done += count;
        progress(done, common);
    }
    Ok(counts)
}

/// Returns true if a copy of the header differs or cannot be read.
fn headers_differ(databases: [&ReadableDatabase; 2], size: PageSize) -> bool {
    let [one, two] = databases.map(|database| {
        let mut headers = IoBuffer::zeroed(2 * size.bytes());
        database.file.read_at(0, &mut headers, IoReason::Verify).ok().map(|()| headers)
    });
    match (one, two) {
        (Some(one), Some(two)) => one[..] != two[..],
        _ => true,
    }
}

/// Returns true if the lengths of the files differ or cannot be determined.
fn lengths_differ(databases: [&ReadableDatabase; 2]) -> bool {
    match databases.map(|database| database.file.len()) {
        [Ok(one), Ok(two)] => one != two,
        _ => true,
    }
}

fn page_version(
    database: &ReadableDatabase,
    page: Result<&mut [u8], PageVersion>,
    number: PageNumber,
) -> PageVersion {
    let page = match page {
        Ok(page) => page,
        Err(unreadable) => return unreadable,
    };
    let status = PageStatus::verify(page, database.page_size, number);
    let view = Page::new(page, database.page_size);
    let sound = PageVersion::Sound { tree: view.tree().0, db_time: view.db_time().0 };
    match status {
        PageStatus::Page(PageIntegrity::Zero, _) => PageVersion::Zero,
        PageStatus::Page(PageIntegrity::Good, _) | PageStatus::LostWrite(_) => sound,
        // Pages of a temporary database have no checksums.
        _ if database.is_temporary() => sound,
        PageStatus::Page(PageIntegrity::Repaired { .. }, _) => PageVersion::FlippedBits,
        PageStatus::Page(PageIntegrity::WrongPage { stored }, _) => PageVersion::WrongPage(stored),
        PageStatus::Page(PageIntegrity::Bad, _) | PageStatus::NoChecksum(_) => PageVersion::BadChecksum,
        PageStatus::Unreadable(error) => PageVersion::Unreadable(error),
    }
}

/// Adjacent pages of one file.
struct ComparedChunk {
    buffer: IoBuffer,
    start: usize,
    size: usize,
    /// Read errors of individual pages, by index. Present only if the pages could not be read together.
    errors: Vec<Option<String>>,
}

impl ComparedChunk {
    fn read(database: &ReadableDatabase, first: PageNumber, count: u32) -> ComparedChunk {
        let size = database.page_size.bytes();
        let (offset, len, start) = database.aligned_range(first, count);
        let mut buffer = IoBuffer::zeroed(len);
        let mut errors = Vec::new();
        if database.file.read_at(offset, &mut buffer, IoReason::Verify).is_err() {
            // A bad sector must not make the neighbouring pages unreadable.
            for index in 0..count {
                let (offset, len, at) = database.aligned_range(first.plus(index), 1);
                let mut single = IoBuffer::zeroed(len);
                let result = database.file.read_at(offset, &mut single, IoReason::Verify);
                let target = start + index as usize * size;
                if let (Some(target), Some(page)) =
                    (buffer.get_mut(target..target + size), single.get(at..at + size))
                {
                    target.copy_from_slice(page);
                }
                errors.push(result.err().map(|error| error.to_string()));
            }
        }
        ComparedChunk { buffer, start, size, errors }
    }

    /// Returns the bytes of a page, or [`PageVersion::Unreadable`] if the page could not be read.
    fn page(&mut self, index: u32) -> Result<&mut [u8], PageVersion> {
        let index = index as usize;
        if let Some(Some(error)) = self.errors.get(index) {
            return Err(PageVersion::Unreadable(error.clone()));
        }
        let at = self.start + index * self.size;
        self.buffer
            .get_mut(at..at + self.size)
            .ok_or_else(|| PageVersion::Unreadable("short read".to_owned()))
    }
}
