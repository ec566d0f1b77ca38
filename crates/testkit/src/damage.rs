//! Damages copies of databases and logs at one exact location. Meant for tests and for demonstrating `jetcell check`;
//! not part of the product.
//!
//! There are two kinds of damage. Disks and crashes flip bits and leave zeroed, swapped, or truncated pages, which
//! checksums detect. Bugs write wrong content with a valid checksum, which only a structure check detects.

use std::collections::HashSet;
use std::ops::Range;

use ese_format::checksum::{SEGMENT_LEN, seal_page};
use ese_format::header::DatabaseHeader;
use ese_format::page::{Page, PageFlags, PageMut};
use ese_format::{PageNumber, PageSize, TreeId};

/// An in-memory database that a test can damage page by page.
#[derive(Clone)]
pub struct EditableDatabase {
    /// The file's content.
    pub bytes: Vec<u8>,
    /// The database's page size.
    pub size: PageSize,
}

impl EditableDatabase {
    /// Wraps a database that has a valid header.
    pub fn new(bytes: Vec<u8>) -> EditableDatabase {
        let size =
            DatabaseHeader::decode(&bytes).expect("the database to damage has a good header").page_size;
        EditableDatabase { bytes, size }
    }

    /// Returns a page's byte range in the file.
    pub fn range(&self, page: PageNumber) -> Range<usize> {
        let start = usize::try_from(self.size.offset_of(page)).expect("the file fits memory");
        start..start + self.size.bytes()
    }

    /// Returns a page for reading.
    pub fn page(&self, page: PageNumber) -> Page<'_> {
        Page::new(&self.bytes[self.range(page)], self.size)
    }

    /// Returns a page's bytes for modification. The checksum is not updated.
    pub fn raw(&mut self, page: PageNumber) -> &mut [u8] {
        let range = self.range(page);
        &mut self.bytes[range]
    }

    /// Changes a page and updates its checksum. Only a structure check can then detect the damage.
    pub fn edit(&mut self, page: PageNumber, change: impl FnOnce(PageMut<'_>)) {
        let size = self.size;
        let raw = self.raw(page);
        change(PageMut::new(raw, size));
        seal_page(raw, size, page);
    }

    /// Flips one bit in a page.
    pub fn flip_bit(&mut self, page: PageNumber, byte: usize, bit: u32) {
        self.raw(page)[byte] ^= 1 << bit;
    }

    /// Exchanges two pages, like a disk that mixes up two addresses.
    pub fn swap(&mut self, one: PageNumber, other: PageNumber) {
        let (first, second) = (self.raw(one).to_vec(), self.raw(other).to_vec());
        self.raw(one).copy_from_slice(&second);
        self.raw(other).copy_from_slice(&first);
    }

    /// Truncates the file to this many pages.
    pub fn truncate(&mut self, pages: u32) {
        self.bytes.truncate((pages as usize + 2) * self.size.bytes());
    }

    /// Returns the pages that are in use and match `wanted`.
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

    /// Returns a table leaf with its left and right neighbours. User tables are preferred over system tables.
    pub fn inner_leaf(&self) -> (PageNumber, PageNumber, PageNumber) {
        let kinds = PageFlags::SPACE | PageFlags::INDEX | PageFlags::LONG_VALUE;
        // Freed pages can look like leaves, so only leaves referenced by a parent page are considered.
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

/// Returns the bytes of one log segment.
pub fn segment(log: &mut [u8], number: usize) -> &mut [u8] {
    &mut log[number * SEGMENT_LEN..(number + 1) * SEGMENT_LEN]
}

/// Overwrites a segment's records with data that makes its checksum invalid.
pub fn corrupt_segment(segment: &mut [u8]) {
    // The checksum would not detect a uniform fill.
    segment[512..].iter_mut().zip(0u32..).for_each(|(byte, n)| *byte = (n * n / 7) as u8);
}
