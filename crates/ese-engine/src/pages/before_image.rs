//! The before-image of a page that loses nodes to another page, for the record of a split or a merge.
//!
//! ESE's redo reads this image if the receiving page lacks the nodes but the losing page is already newer. It copies
//! the image to a private buffer, takes the moving nodes from it, and discards it, without changing the losing page.
//! The image must therefore contain the moving nodes at their original lines, but need not contain the other nodes.

use std::ops::Range;

use ese_format::page::{NodeFlags, Page, PageMut};
use ese_format::{PageNumber, PageSize};

use crate::pages::page_misfit::PageMisfit;

/// Returns a copy of the page with empty nodes before the moving nodes, and without the nodes after them.
pub(super) fn moving_nodes_image(
    page: &Page<'_>,
    number: PageNumber,
    size: PageSize,
    nodes: Range<usize>,
) -> Result<Vec<u8>, PageMisfit> {
    let mut bytes = vec![0; size.bytes()];
    let mut image = PageMut::format(&mut bytes, size, number, page.tree(), page.flags());
    image.set_db_time(page.db_time());
    image.set_prev(page.prev());
    image.set_next(page.next());
    image.set_external_header(page.external_header()).map_err(|_| PageMisfit::ImageTooLarge)?;
    for stays in 0..nodes.start {
        image.insert_node(stays, NodeFlags::empty(), &[], &[]).map_err(|_| PageMisfit::ImageTooLarge)?;
    }
    image.copy_nodes_from(page, nodes).map_err(|_| PageMisfit::ImageTooLarge)?;
    Ok(bytes)
}
