//! Creation of trees, and conversion of trees that have outgrown their first extent.

use ese_format::log::record::{
    ConvertFdp, CreateMultiExtentFdp, CreateSingleExtentFdp, LogRecord, PageChangeFlags,
};
use ese_format::page::{NodeFlags, PageFlags, PageMut};
use ese_format::space::{Extent, SpaceHeader, SplitReserve};
use ese_format::{PageNumber, PageSize, TreeId};

use super::allocate::SpaceLock;
use crate::Result;
use crate::page_misfit::PageMisfit;
use crate::pages::{AtomicGroup, TreeIdentity, new_page_flags};
use crate::transaction::SYSTEM_PROCID;

/// Maximum number of pages, excluding the root, that the bitmap in a single-extent tree's space header can describe.
const BITMAP_PAGES: u32 = 32;

impl SpaceLock<'_> {
    /// Creates an empty tree inside `parent`, in a group of the session `procid`. The tree gets `pages` pages, but at
    /// least three: one for its root and two for its space trees. `before` appends the records that must come first.
    pub fn create_tree(
        &self,
        procid: u16,
        parent: PageNumber,
        id: TreeId,
        kind: PageFlags,
        pages: u32,
        before: impl Fn(&mut AtomicGroup),
    ) -> Result<PageNumber> {
        let pages = pages.max(3);
        self.with_extent(procid, parent, pages, pages, |lock, group, extent| {
            let root = extent.first();
            before(group);
            group.new_page(root)?;
            let record = CreateMultiExtentFdp {
                change: group.change(root, 0, PageChangeFlags::empty())?,
                tree: id,
                owned_root: root.plus(1),
                available_root: root.plus(2),
                parent_root: Some(parent),
                primary_pages: extent.count as i32,
                page_flags: kind.bits(),
            };
            for page in [root, root.plus(1), root.plus(2)] {
                let size = lock.file.page_size;
                create_root_pages(group.new_page(page)?, size, page, &record);
            }
            group.record(LogRecord::CreateMultiExtentFdp(record));
            Ok(root)
        })
    }

    /// Creates space trees for a tree that so far has only one extent.
    pub(super) fn convert(&self, owner: TreeIdentity, header: SpaceHeader) -> Result<()> {
        let parent = header.parent.unwrap_or(PageNumber::fixed(1));
        self.with_extent(SYSTEM_PROCID, parent, 2, 4, |lock, group, extent| {
            let record = ConvertFdp {
                change: group.change(owner.root, 0, PageChangeFlags::empty())?,
                tree: owner.id,
                owned_root: extent.first(),
                available_root: extent.first().plus(1),
                parent_root: header.parent,
                secondary_first: extent.first(),
                primary_pages: header.primary_pages as i32,
                secondary_pages: extent.count as i32,
                available_bits: header.available_bitmap().unwrap_or(0),
                page_flags: owner.kind.bits(),
            };
            let size = lock.file.page_size;
            for page in [record.owned_root, record.available_root] {
                convert_root_pages(group.new_page(page)?, size, page, &record);
            }
            let mut root = group.page_mut(owner.root)?;
            let converted =
                SpaceHeader { multiple: true, owned_root_or_bitmap: record.owned_root.get(), ..header };
            let mut external = root.as_page().external_header().to_vec();
            converted.update(&mut external);
            let applied = root.set_external_header(&external).map_err(|_| PageMisfit::NoRoomForHeader);
            group.record_if_applied(owner.root, applied, LogRecord::ConvertFdp2(record))
        })
    }
}

fn empty_space_root(
    bytes: &mut [u8],
    size: PageSize,
    page: PageNumber,
    id: TreeId,
    kind: PageFlags,
) -> PageMut<'_> {
    let flags = kind | PageFlags::ROOT | PageFlags::LEAF | PageFlags::SPACE;
    let mut root = PageMut::format(bytes, size, page, id, flags);
    let placed = root.set_external_header(&SplitReserve::default().encode());
    debug_assert!(placed.is_ok(), "an empty page has room for 16 bytes");
    root
}

fn put_extents(root: &mut PageMut<'_>, mut extents: Vec<Extent>) {
    extents.retain(|extent| extent.count > 0);
    extents.sort_by_key(|extent| extent.last);
    for (line, extent) in extents.iter().enumerate() {
        let placed = root.insert_node(line, NodeFlags::empty(), &extent.key(), &extent.data());
        debug_assert!(placed.is_ok(), "an empty page has room for a few extents");
    }
}

/// Builds the page `page` of a new tree: its root, or the root of one of its space trees.
pub(crate) fn create_root_pages<'a>(
    bytes: &'a mut [u8],
    size: PageSize,
    page: PageNumber,
    record: &CreateMultiExtentFdp,
) -> PageMut<'a> {
    let kind = new_page_flags(record.page_flags);
    let count = record.primary_pages.max(3) as u32;
    let last = record.change.page.plus(count - 1);
    if page == record.change.page {
        let flags = kind | PageFlags::ROOT | PageFlags::LEAF;
        let mut root = PageMut::format(bytes, size, page, record.tree, flags);
        let non_unique = kind.contains(PageFlags::NON_UNIQUE);
        let header = SpaceHeader::multiple(count, record.parent_root, non_unique, record.owned_root);
        let placed = root.set_external_header(&header.encode());
        debug_assert!(placed.is_ok(), "an empty page has room for 16 bytes");
        return root;
    }
    let mut root = empty_space_root(bytes, size, page, record.tree, kind);
    let available = if page == record.available_root { count - 3 } else { count };
    put_extents(&mut root, vec![Extent { last, count: available }]);
    root
}

/// Builds the root of a new single-extent tree.
pub(crate) fn create_single_root(bytes: &mut [u8], size: PageSize, record: &CreateSingleExtentFdp) {
    let kind = new_page_flags(record.page_flags);
    let flags = kind | PageFlags::ROOT | PageFlags::LEAF;
    let mut root = PageMut::format(bytes, size, record.change.page, record.tree, flags);
    let pages = record.primary_pages.max(1) as u32;
    let header = SpaceHeader::single(pages, record.parent_root, kind.contains(PageFlags::NON_UNIQUE));
    let placed = root.set_external_header(&header.encode());
    debug_assert!(placed.is_ok(), "an empty page has room for 16 bytes");
}

/// Builds the page `page` in the new extent of a converted tree. The page is the root of one of its space trees.
pub(crate) fn convert_root_pages<'a>(
    bytes: &'a mut [u8],
    size: PageSize,
    page: PageNumber,
    record: &ConvertFdp,
) -> PageMut<'a> {
    let kind = new_page_flags(record.page_flags);
    let mut root = empty_space_root(bytes, size, page, record.tree, kind);
    let tree_root = record.change.page;
    let (primary, secondary) = (record.primary_pages.max(1) as u32, record.secondary_pages.max(2) as u32);
    let extents = if page == record.owned_root {
        vec![Extent::starting_at(tree_root, primary), Extent::starting_at(record.secondary_first, secondary)]
    } else {
        let mut free: Vec<Extent> = Vec::new();
        let mut add = |page: PageNumber, count: u32| match free.last_mut() {
            Some(run) if run.last.plus(1) == page => {
                *run = Extent { last: page.plus(count - 1), count: run.count + count }
            }
            _ => free.push(Extent::starting_at(page, count)),
        };
        (1..primary.min(BITMAP_PAGES + 1))
            .filter(|offset| record.available_bits >> (offset - 1) & 1 == 1)
            .for_each(|offset| add(tree_root.plus(offset), 1));
        // Pages that the bitmap does not cover have never been used.
        if let Some(beyond) = primary.checked_sub(BITMAP_PAGES + 1).filter(|beyond| *beyond > 0) {
            add(tree_root.plus(BITMAP_PAGES + 1), beyond);
        }
        free.push(Extent { last: record.secondary_first.plus(secondary - 1), count: secondary - 2 });
        free
    };
    put_extents(&mut root, extents);
    root
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use ese_format::DbTime;
    use ese_format::log::record::{DatabaseIdInLog, PageChange};
    use proptest::prelude::*;

    use super::*;

    const ROOT: u32 = 100;
    const SECONDARY: u32 = 500;

    fn extents(record: &ConvertFdp, page: PageNumber) -> Vec<Extent> {
        let mut bytes = vec![0; PageSize::KIB_4.bytes()];
        let page = convert_root_pages(&mut bytes, PageSize::KIB_4, page, record);
        let page = page.as_page();
        page.nodes().map(|node| Extent::decode(&node.key_to_vec(), node.data).unwrap().0).collect()
    }

    proptest! {
        /// Afterwards, the owned extents are the old and the new extent. The available extents are the free pages in
        /// the bitmap, the pages beyond the bitmap, and the rest of the new extent.
        #[test]
        fn a_converted_tree_keeps_its_pages(
            available_bits: u32, primary_pages in 1..60_i32, secondary_pages in 2..9_i32,
        ) {
            let change = PageChange {
                procid: 1,
                database: DatabaseIdInLog(1),
                page: PageNumber::fixed(ROOT),
                after: DbTime(2),
                before: DbTime(1),
                begin0: 0,
                level: 0,
                line: 0,
                flags: PageChangeFlags::empty(),
            };
            let (owned_root, available_root) = (PageNumber::fixed(SECONDARY), PageNumber::fixed(SECONDARY + 1));
            let record = ConvertFdp {
                change,
                tree: TreeId(9),
                owned_root,
                available_root,
                parent_root: None,
                secondary_first: owned_root,
                primary_pages,
                secondary_pages,
                available_bits,
                page_flags: PageFlags::empty().bits(),
            };
            let (primary, secondary) = (primary_pages as u32, secondary_pages as u32);
            prop_assert_eq!(
                extents(&record, owned_root),
                [Extent::starting_at(change.page, primary), Extent::starting_at(owned_root, secondary)]
            );
            let is_available = |offset: &u32| *offset > BITMAP_PAGES || available_bits >> (offset - 1) & 1 == 1;
            let mut expected: BTreeSet<u32> =
                (1..primary).filter(is_available).map(|offset| ROOT + offset).collect();
            expected.extend(SECONDARY + 2..SECONDARY + secondary);
            let mut found = BTreeSet::new();
            for extent in extents(&record, available_root) {
                for page in extent.first().get()..=extent.last.get() {
                    prop_assert!(found.insert(page), "page {} is in two extents", page);
                }
            }
            prop_assert_eq!(found, expected);
        }
    }
}
