//! Trees sorted by size, with their sizes in bytes and their white space.

use std::fmt;

use serde::Serialize;

use super::{SpaceSummary, TreeSpace, saturating_sum};
use crate::Result;
use crate::output::DumpOutput;

/// Space used by one tree, with its size.
#[derive(Serialize)]
struct TreeSize<'t> {
    #[serde(flatten)]
    space: &'t TreeSpace,
    /// Size in bytes of the pages that belong to this tree and not to a child tree. Includes available and leaked
    /// pages.
    bytes: u64,
    /// Size as a percentage of the file size.
    percent: f64,
    /// Combined size in bytes of the available pages and of the free space on leaves.
    white_bytes: u64,
}

/// White space of the whole file.
#[derive(Serialize)]
#[serde(tag = "type", rename = "white-space")]
struct WhiteSpace {
    white_bytes: u64,
    /// White space as a percentage of the file size.
    percent: f64,
    /// Size of the available pages in bytes.
    available_bytes: u64,
    /// Free space on leaves in bytes.
    leaf_free_bytes: u64,
}

const COLUMNS: &str = "\n         bytes      %          white";

/// Writes the trees, the largest first, and the total white space.
pub(super) fn write(
    mut spaces: Vec<TreeSpace>,
    summary: &SpaceSummary,
    output: &mut DumpOutput<'_>,
) -> Result<()> {
    let page_size = u64::from(summary.page_size);
    let file_bytes = u64::from(summary.file_pages).saturating_mul(page_size);
    let percent = |bytes: u64| (bytes as f64 * 1000.0 / file_bytes.max(1) as f64).round() / 10.0;
    let available_bytes = |space: &TreeSpace| space.available_pages.saturating_mul(page_size);
    // Trees of the same size remain in catalog order.
    spaces.sort_by_key(|space| std::cmp::Reverse(space.own_pages()));
    output.heading(&format!("{COLUMNS}{}", super::COLUMNS.trim_start_matches('\n')))?;
    for space in &spaces {
        let bytes = space.own_pages().saturating_mul(page_size);
        let white_bytes = available_bytes(space).saturating_add(space.leaf_free_bytes);
        output.item(&TreeSize { space, bytes, percent: percent(bytes), white_bytes })?;
    }
    let available_bytes = saturating_sum(spaces.iter().map(available_bytes));
    let leaf_free_bytes = saturating_sum(spaces.iter().map(|space| space.leaf_free_bytes));
    let white_bytes = available_bytes.saturating_add(leaf_free_bytes);
    let percent = percent(white_bytes);
    Ok(output.item(&WhiteSpace { white_bytes, percent, available_bytes, leaf_free_bytes })?)
}

impl fmt::Display for TreeSize<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TreeSize { space, bytes, percent, white_bytes } = self;
        write!(f, "{bytes:>14} {percent:>6.1} {white_bytes:>14}{space}")
    }
}

impl fmt::Display for WhiteSpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WhiteSpace { white_bytes, percent, available_bytes, leaf_free_bytes } = self;
        write!(
            f,
            "\nwhite space: {white_bytes} bytes ({percent:.1} % of the file): {available_bytes} in available \
             pages, {leaf_free_bytes} on leaves"
        )
    }
}

#[cfg(test)]
#[path = "sizes_tests.rs"]
mod tests;
