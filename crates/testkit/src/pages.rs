//! Pages of databases that are compared.

use ese_format::PageSize;
use ese_format::page::{Page, PageFlags, PageMut};

/// The pages of a database without what may differ between equal databases: the two headers; of each page the checksum and the
/// flush type, which depend on how often it was written; pages of zeros at the end.
///
/// `page_bytes` is the page size. Panics if a page is shorter than its header.
pub fn comparable(database: &[u8], page_bytes: usize) -> Vec<Vec<u8>> {
    let mut pages: Vec<_> = database.chunks(page_bytes).skip(2).map(<[u8]>::to_vec).collect();
    for page in &mut pages {
        page[..8].fill(0);
        page[37] &= 0x7F;
        page[38] &= !1;
    }
    while pages.last().is_some_and(|page| page.iter().all(|byte| *byte == 0)) {
        pages.pop();
    }
    pages
}

/// Whether two comparable pages have the same content, and differ only in bytes that no node uses, or in the places of the nodes within
/// the page. The log says what nodes hold and not where they are, so two sides may differ so; ESE's checks of copies leave both out as well. The unused bytes
/// of a page that was zeroed are logged, and must be equal.
pub fn differ_in_unused_bytes_only(one: &[u8], other: &[u8], size: PageSize) -> bool {
    let content = |page: &[u8]| {
        let mut page = page.to_vec();
        PageMut::new(&mut page, size).overwrite_unused(0);
        page
    };
    let is_page = one.len() == size.bytes() && other.len() == size.bytes();
    is_page && !Page::new(one, size).flags().contains(PageFlags::SCRUBBED) && content(one) == content(other)
}

#[cfg(test)]
mod tests {
    use ese_format::page::NodeFlags;
    use ese_format::{PageNumber, TreeId};

    use super::*;

    /// Nodes of 100 bytes, of which the ones in `deleted` are removed again; `free` is in the bytes behind them.
    fn page(deleted: &[usize], free: u8, flags: PageFlags) -> Vec<u8> {
        let size = PageSize::KIB_4;
        let mut bytes = vec![0; size.bytes()];
        let mut page = PageMut::format(&mut bytes, size, PageNumber::fixed(7), TreeId(2), flags);
        for node in 0..8u8 {
            page.insert_node(node.into(), NodeFlags::empty(), &[node], &[node; 99]).unwrap();
        }
        page.overwrite_unused(free);
        deleted.iter().rev().for_each(|node| page.delete_node(*node));
        bytes
    }

    #[test]
    fn unused_bytes_and_places_of_nodes_may_differ_and_nothing_else() {
        let (leaf, size) = (PageFlags::LEAF, PageSize::KIB_4);
        let one = page(&[3], 1, leaf);
        assert!(differ_in_unused_bytes_only(&one, &page(&[3], 2, leaf), size));
        let mut moved = one.clone();
        PageMut::new(&mut moved, size).overwrite_unused(1);
        assert!(moved != one && differ_in_unused_bytes_only(&one, &moved, size));
        assert!(!differ_in_unused_bytes_only(&one, &page(&[4], 1, leaf), size));
        let scrubbed = leaf | PageFlags::SCRUBBED;
        assert!(!differ_in_unused_bytes_only(&page(&[3], 1, scrubbed), &page(&[3], 2, scrubbed), size));
        assert!(!differ_in_unused_bytes_only(&one, &[], size));
    }
}
