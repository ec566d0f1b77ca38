//! Links newly built pages to their tree. This is the last step of a bulk load, and it is logged.

use ese_format::LogPosition;
use ese_format::log::record::{LogRecord, SetExternalHeader};
use ese_format::page::PageFlags;
use jetcell_sync::Arc;

use super::page_writer::WrittenPage;
use super::tree_builder::BuiltTree;
use crate::Result;
use crate::cache::PageKey;
use crate::page_misfit::PageMisfit;
use crate::pages::{group, split};
use crate::space::SpaceLock;

/// Returns true if this is the first log record that refers to the pages of a bulk load. Other records set an external
/// header only on a root.
pub(crate) fn is_link(record: &LogRecord) -> bool {
    match record {
        LogRecord::SetExternalHeader(set) => set.node.root.is_some_and(|root| root != set.node.page.page),
        _ => false,
    }
}

/// Copies the newly built top page to the root of an empty tree. All other pages must already be durable.
///
/// The records form one atomic group: a root split, the nodes of the new page, and a change to a page that was not
/// logged.
pub(crate) fn link(built: &BuiltTree) -> Result<()> {
    let tree = &built.tree;
    if built.top.is_empty() {
        return Ok(());
    }
    if let Some(WrittenPage { number, bytes }) = &built.written {
        // The bytes are already in memory, so the cache need not read them.
        let key = PageKey { file: tree.file.file_id, page: *number };
        tree.file.cache.install_image(key, bytes, tree.file.log.tail(), LogPosition::MIN)?;
    }
    let _structure = tree.lock_structure();
    let space = SpaceLock::new(&tree.file);
    let trees = space.prepare(tree.root, 1)?;
    let (file, shape): (&Arc<_>, _) = (&tree.file, tree.identity());
    let mut flags = tree.kind;
    flags.set(PageFlags::LEAF, built.top_is_leaf);
    flags.set(PageFlags::PARENT_OF_LEAF, built.above_leaves);
    group::run(file, false, |group| {
        if let Some(page) = built.written.as_ref().map(|written| written.number) {
            // This change affects only the database time of the page.
            let header = group.page(page)?.external_header().to_vec();
            let node = group.node_change(&shape, page, 0)?;
            let applied =
                group.page_mut(page)?.set_external_header(&header).map_err(|_| PageMisfit::NoRoomForHeader);
            let record = SetExternalHeader { node, data: header };
            group.record_if_applied(page, applied, LogRecord::SetExternalHeader(record))?;
        }
        let new = space.take_page(group, &trees)?;
        split::raise_root(group, &shape, new, flags)?;
        for (line, (key, data)) in built.top.iter().enumerate() {
            group.insert(&shape, new, line, key, data)?;
        }
        Ok(())
    })
}
