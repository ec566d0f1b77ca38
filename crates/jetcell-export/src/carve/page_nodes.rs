//! Finds nodes of a table on one page that the tree does not contain.
//!
//! Deleted nodes remain in holes between lines or after the last line. In these ranges, nodes follow each other
//! without gaps, and the first one may be partially overwritten. On a page that the tree does not reach, the tags
//! still point to nodes.

use std::ops::Range;

use ese_format::page::{NodeFlags, Page};
use ese_format::record::{RecordExtent, RecordShape};
use ese_format::{PageNumber, PageSize};

use super::carved_node::CarvedNode;
use crate::additional_rows::{CarveConfidence, CarvedOrigin};

/// Maximum number of positions in one range that look like a record but are not one. It bounds the work on crafted
/// pages.
const MAX_FAILURES: usize = 256;

/// The nodes that were found on a page.
pub(super) struct FoundNodes {
    pub(super) nodes: Vec<CarvedNode>,
    /// False if a range was not searched to its end.
    pub(super) is_complete: bool,
}

/// Finds the nodes on a page, in order. They do not overlap. `reached` is true if the page is part of the tree.
pub(super) fn find_nodes(
    number: PageNumber,
    bytes: &[u8],
    size: PageSize,
    shape: &RecordShape,
    reached: bool,
) -> FoundNodes {
    let page = Page::new(bytes, size);
    let mut scan = PageScan {
        number,
        bytes,
        shape,
        prefix_len: page.prefix().len(),
        large: size.is_large(),
        found: FoundNodes { nodes: Vec::new(), is_complete: true },
    };
    if !reached {
        scan.add_tagged_nodes(&page);
    }
    for unused in page.unused_ranges() {
        scan.add_from_range(unused.bytes, unused.ends_at_line);
    }
    let FoundNodes { mut nodes, is_complete } = scan.found;
    nodes.sort_by_key(|node| node.origin.offset);
    let mut end = 0;
    nodes.retain(|node| {
        let is_apart = node.origin.offset >= end;
        if is_apart {
            end = node.record.end;
        }
        is_apart
    });
    FoundNodes { nodes, is_complete }
}

/// The search of one page.
struct PageScan<'p> {
    number: PageNumber,
    bytes: &'p [u8],
    shape: &'p RecordShape,
    prefix_len: usize,
    large: bool,
    found: FoundNodes,
}

impl PageScan<'_> {
    /// Adds the nodes to which the tags of an unreached page point.
    fn add_tagged_nodes(&mut self, page: &Page<'_>) {
        for index in 0..page.node_count() {
            let Some((node, line)) = page.node(index).zip(page.line_range(index + page.first_node_tag()))
            else {
                continue;
            };
            if self.shape.accepts(node.data) {
                let len = node.data.len();
                let deleted = node.flags.contains(NodeFlags::DELETED);
                let record = line.end.saturating_sub(len)..line.end;
                let origin = CarvedOrigin { offset: line.start, confidence: CarveConfidence::High };
                let page = self.number;
                self.found.nodes.push(CarvedNode { page, record, origin, deleted, known: len, exact: true });
            }
        }
    }

    /// Adds the nodes in a range of free bytes. If `ends_at_line` is true, the last node extends to the
    /// end of the range.
    fn add_from_range(&mut self, range: Range<usize>, ends_at_line: bool) {
        let (mut at, mut failures) = (range.start, 0);
        while at < range.end && failures < MAX_FAILURES {
            let keyed = self.record_after_key(at, range.end);
            let start = keyed.or_else(|| self.is_record(at, range.end).then_some(at));
            let Some(start) = start else {
                at += 1;
                continue;
            };
            match self.record_at(start, range.end, ends_at_line) {
                Some((record, extent)) if keyed.is_some() || extent.len.is_some() => {
                    let confidence = match (keyed, extent.len) {
                        (None, _) => CarveConfidence::Low,
                        (Some(_), None) => CarveConfidence::Medium,
                        (Some(_), Some(_)) => CarveConfidence::High,
                    };
                    let next = record.end;
                    self.found.nodes.push(CarvedNode {
                        page: self.number,
                        record,
                        origin: CarvedOrigin { offset: at, confidence },
                        deleted: false,
                        known: extent.known,
                        exact: extent.len.is_some(),
                    });
                    at = next;
                }
                _ => (at, failures) = (at + 1, failures + 1),
            }
        }
        self.found.is_complete &= at >= range.end;
    }

    fn is_record(&self, at: usize, end: usize) -> bool {
        self.bytes.get(at..end).is_some_and(|bytes| self.shape.starts_record(bytes))
    }

    /// Returns the start of the record if a node starts at `at`.
    fn record_after_key(&self, at: usize, end: usize) -> Option<usize> {
        let word = |at: usize| {
            let bytes = self.bytes.get(at..at + 2).filter(|_| at + 2 <= end)?;
            bytes.first_chunk().map(|bytes| u16::from_le_bytes(*bytes))
        };
        let first = word(at)?;
        let len = usize::from(first & 0x1fff);
        // Small pages store the flags of a node in its tag, which may be gone.
        let flags = NodeFlags::from_bits_truncate((first >> 13) as u8);
        let compressed = self.large.then(|| flags.contains(NodeFlags::COMPRESSED));
        let plain = at + 2 + len;
        if compressed != Some(true) && len > 0 && self.is_record(plain, end) {
            return Some(plain);
        }
        if compressed == Some(false) || len == 0 || len > self.prefix_len {
            return None;
        }
        let suffixed = at + 4 + usize::from(word(at + 2)? & 0x1fff);
        self.is_record(suffixed, end).then_some(suffixed)
    }

    /// Returns the position of the record at `start`, and its extent. If the extent has no length, the end of the
    /// position was inferred.
    fn record_at(
        &self,
        start: usize,
        end: usize,
        ends_at_line: bool,
    ) -> Option<(Range<usize>, RecordExtent)> {
        let extent = self.shape.recognize(self.bytes.get(start..end)?)?;
        if let Some(len) = extent.len {
            let record = start..start + len;
            return self.shape.accepts(self.bytes.get(record.clone())?).then_some((record, extent));
        }
        // The record probably ends where the next node starts. Remains of other nodes may be in between.
        let next = (start + extent.known..end).find(|at| self.record_after_key(*at, end).is_some());
        let record = match next {
            Some(next) => start..next,
            None if ends_at_line => start..end,
            None => start..start + self.shape.trim(self.bytes.get(start..end)?, extent).len(),
        };
        self.shape.accepts(self.bytes.get(record.clone())?).then_some((record, extent))
    }
}
