//! Extracts the parts of database pages that must be equal in equal databases.

/// Returns a database's pages without the parts that may differ between equal databases: the two headers, each page's
/// checksum and flush type, which depend on the number of writes, and zeroed pages at the end.
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
