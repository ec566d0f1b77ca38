//! Structural validation of a single page.
//!
//! Covers space accounting, tags, lines, key lengths, node data, and mutually exclusive flags. Does not cover
//! checksums, key order, or anything that requires another page.

use super::{NodeFlags, Page, PageFlags, TAG_LEN};
use crate::PageSize;

/// The first error found in a page's structure.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the error messages describe the variants")]
pub enum PageError {
    #[error("the page is {found} bytes long, expected {expected}")]
    Length { found: usize, expected: usize },
    #[error("page flags {flags:#x} contradict each other")]
    Flags { flags: u32 },
    #[error("{tags} tags do not fit into the page or do not match its type")]
    TagCount { tags: usize },
    #[error("free space of {free} bytes ({uncommitted} uncommitted) exceeds the page")]
    FreeSpace { free: usize, uncommitted: usize },
    #[error("free area starts at {start}, which overlaps the tags")]
    FreeStart { start: usize },
    #[error("lines, tags and free space add up to {sum} bytes, but the page has {available}")]
    Accounting { sum: usize, available: usize },
    #[error("tag {tag}: line at {start} of {len} bytes is empty or extends outside the used area")]
    Line { tag: usize, start: usize, len: usize },
    #[error("lines overlap at {start}")]
    Overlap { start: usize },
    #[error("tag {tag}: the key lengths do not match the line or the prefix")]
    Key { tag: usize },
    #[error("tag {tag}: empty key")]
    EmptyKey { tag: usize },
    #[error("tag {tag}: {len} bytes of data")]
    Data { tag: usize, len: usize },
}

/// Checks the structure of a page, which must not be all zeros.
pub fn validate(page: &[u8], size: PageSize) -> Result<(), PageError> {
    if page.len() != size.bytes() {
        return Err(PageError::Length { found: page.len(), expected: size.bytes() });
    }
    let page = Page::new(page, size);
    let flags = page.flags();
    if flags.contains(PageFlags::INDEX | PageFlags::LONG_VALUE) {
        return Err(PageError::Flags { flags: flags.bits() });
    }
    let tags = page.tag_count();
    let may_lack_lines =
        flags.intersects(PageFlags::EMPTY | PageFlags::PRE_INIT) || page.db_time().is_unwritten();
    if tags * TAG_LEN > page.data_len() || tags < page.first_node_tag() && !(tags == 0 && may_lack_lines) {
        return Err(PageError::TagCount { tags });
    }
    let (free, uncommitted) = (page.free_bytes(), page.uncommitted_free());
    if free > page.data_len() || uncommitted > free {
        return Err(PageError::FreeSpace { free, uncommitted });
    }
    // A page that was returned to the available space has stale contents.
    if flags.contains(PageFlags::EMPTY) || tags == 0 {
        return Ok(());
    }
    if page.free_start() + tags * TAG_LEN > page.data_len() {
        return Err(PageError::FreeStart { start: page.free_start() });
    }
    validate_lines(&page)?;
    validate_nodes(&page)
}

fn validate_lines(page: &Page<'_>) -> Result<(), PageError> {
    let tags = page.tag_count();
    let mut lines = Vec::with_capacity(tags);
    let mut used = 0;
    for number in 0..tags {
        let Some(tag) = page.tag(number) else { return Err(PageError::TagCount { tags }) };
        let may_be_empty = number < page.first_node_tag();
        // The offset of an empty line is undefined, because deletes may move the start of the free area below it.
        let misplaced = if tag.len == 0 { !may_be_empty } else { tag.end() > page.free_start() };
        if misplaced {
            return Err(PageError::Line { tag: number, start: tag.start, len: tag.len });
        }
        if tag.len > 0 {
            lines.push((tag.start, tag.end()));
        }
        used += tag.len;
    }
    lines.sort_unstable();
    if let Some((_, next)) = lines.iter().zip(lines.iter().skip(1)).find(|(line, next)| line.1 > next.0) {
        return Err(PageError::Overlap { start: next.0 });
    }
    let sum = used + tags * TAG_LEN + page.free_bytes();
    if sum != page.data_len() {
        return Err(PageError::Accounting { sum, available: page.data_len() });
    }
    Ok(())
}

fn validate_nodes(page: &Page<'_>) -> Result<(), PageError> {
    let leaf = page.is_leaf();
    let count = page.node_count();
    for index in 0..count {
        let tag = index + page.first_node_tag();
        let node = page.node(index).ok_or(PageError::Key { tag })?;
        if node.key_len() == 0 && (leaf || index + 1 < count) {
            return Err(PageError::EmptyKey { tag });
        }
        let len = node.data.len();
        // The data of a deleted node may already have been removed.
        let data_fits = if leaf { len > 0 || node.flags.contains(NodeFlags::DELETED) } else { len == 4 };
        if !data_fits {
            return Err(PageError::Data { tag, len });
        }
    }
    Ok(())
}
