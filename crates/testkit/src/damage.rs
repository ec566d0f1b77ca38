//! Damages copies of databases and logs in one exact place. For tests and demonstrations of `jetcell check`; not part
//! of the product.
//!
//! There are two kinds of damage. Disks and crashes cause flipped bits, zeroed, swapped and cut pages, which checksums
//! detect. Bugs cause wrong content under a good checksum, which only a check of the structure detects.

use std::collections::HashSet;
use std::ops::Range;

use ese_format::checksum::{SEGMENT_LEN, seal_page};
use ese_format::header::DatabaseHeader;
use ese_format::page::{Page, PageFlags, PageMut};
use ese_format::{PageNumber, PageSize, TreeId};

/// A database in memory that can be damaged page by page.
#[derive(Clone)]
pub struct Patient {
    /// The whole file.
    pub bytes: Vec<u8>,
    /// Its page size.
    pub size: PageSize,
}

impl Patient {
    /// A database with a good header.
    pub fn new(bytes: Vec<u8>) -> Patient {
        let size =
            DatabaseHeader::decode(&bytes).expect("the database to damage has a good header").page_size;
        Patient { bytes, size }
    }

    /// Byte offset of a page in the file.
    pub fn range(&self, page: PageNumber) -> Range<usize> {
        let start = usize::try_from(self.size.offset_of(page)).expect("the file fits memory");
        start..start + self.size.bytes()
    }

    /// A page.
    pub fn page(&self, page: PageNumber) -> Page<'_> {
        Page::new(&self.bytes[self.range(page)], self.size)
    }

    /// The bytes of a page, to change them without a new checksum.
    pub fn raw(&mut self, page: PageNumber) -> &mut [u8] {
        let range = self.range(page);
        &mut self.bytes[range]
    }

    /// Changes a page and makes its checksum good again, so that only a check of the structure finds the damage.
    pub fn edit(&mut self, page: PageNumber, change: impl FnOnce(PageMut<'_>)) {
        let size = self.size;
        let raw = self.raw(page);
        change(PageMut::new(raw, size));
        seal_page(raw, size, page);
    }

    /// Flips one bit.
    pub fn flip(&mut self, page: PageNumber, byte: usize, bit: u32) {
        self.raw(page)[byte] ^= 1 << bit;
    }

    /// Exchanges two pages, like a disk that confuses two addresses.
    pub fn swap(&mut self, one: PageNumber, other: PageNumber) {
        let (first, second) = (self.raw(one).to_vec(), self.raw(other).to_vec());
        self.raw(one).copy_from_slice(&second);
        self.raw(other).copy_from_slice(&first);
    }

    /// Truncates the file to this many pages.
    pub fn truncate(&mut self, pages: u32) {
        self.bytes.truncate((pages as usize + 2) * self.size.bytes());
    }

    /// The pages in use for which `wanted` holds.
    pub fn find(&self, wanted: impl Fn(&Page<'_>) -> bool) -> Vec<PageNumber> {
        let pages = self.bytes.len() / self.size.bytes() - 2;
        (1..=pages as u32)
            .map(PageNumber::fixed)
            .filter(|&page| {
                let view = self.page(page);
                view.tree() != TreeId(0) && !view.flags().contains(PageFlags::EMPTY) && wanted(&view)
            })
            .collect()
    }

    /// A leaf of a table with its left and right neighbour. Prefers a user table to a system table.
    pub fn inner_leaf(&self) -> (PageNumber, PageNumber, PageNumber) {
        let kinds = PageFlags::SPACE | PageFlags::INDEX | PageFlags::LONG_VALUE;
        // Freed pages can look like leaves.
        let parents = self.find(|page| !page.is_leaf());
        let referred: HashSet<PageNumber> = parents
            .iter()
            .flat_map(|&parent| self.page(parent).nodes().filter_map(|node| node.child()))
            .collect();
        let mut leaves = self.find(|page| {
            page.is_leaf()
                && !page.flags().intersects(kinds)
                && page.prev().is_some()
                && page.next().is_some()
        });
        leaves.retain(|leaf| referred.contains(leaf));
        // Trees 2 and 3 are the catalog and its shadow.
        let leaf = *leaves.iter().find(|&&leaf| self.page(leaf).tree() > TreeId(3)).unwrap_or(&leaves[0]);
        let view = self.page(leaf);
        (view.prev().expect("chosen so"), leaf, view.next().expect("chosen so"))
    }
}

/// The bytes of one segment of a log.
pub fn segment(log: &mut [u8], number: usize) -> &mut [u8] {
    &mut log[number * SEGMENT_LEN..(number + 1) * SEGMENT_LEN]
}

/// Overwrites the records of a segment so that its checksum is certainly wrong.
pub fn scribble(segment: &mut [u8]) {
    // The checksum does not detect a uniform fill.
    segment[512..].iter_mut().zip(0u32..).for_each(|(byte, n)| *byte = (n * n / 7) as u8);
}
