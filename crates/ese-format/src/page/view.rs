//! Read access to a page: header fields, nodes, and binary search.

use std::cmp::Ordering;
use std::ops::Range;

use zerocopy::FromBytes;

use super::{HEADER_LEN, NodeFlags, PageFlags, PageHeader, SPLIT_RESERVE_LEN, TAG_LEN, Tag, choose_prefix};
use crate::{DbTime, PageNumber, PageSize, TreeId};

/// A node on a page. Its full key is `prefix` followed by `suffix`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node<'a> {
    /// Flags of the node: versioned, deleted, compressed.
    pub flags: NodeFlags,
    /// Part of the key stored in the page's prefix.
    pub prefix: &'a [u8],
    /// Part of the key stored in the node.
    pub suffix: &'a [u8],
    /// Data of the node: a record, a long-value chunk, a bookmark, or a child page number.
    pub data: &'a [u8],
}

impl Node<'_> {
    /// Returns the length of the full key.
    pub fn key_len(&self) -> usize {
        self.prefix.len() + self.suffix.len()
    }

    /// Returns the full key.
    pub fn key_to_vec(&self) -> Vec<u8> {
        [self.prefix, self.suffix].concat()
    }

    /// Appends the full key to `to`.
    pub fn append_key(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(self.prefix);
        to.extend_from_slice(self.suffix);
    }

    /// Compares the key of this node with `key`.
    pub fn cmp_key(&self, key: &[u8]) -> Ordering {
        cmp_parts(&[self.prefix], self.suffix, key)
    }

    /// Compares this node's key and data, concatenated, with `key`, as in trees with duplicate keys.
    pub fn cmp_key_data(&self, key: &[u8]) -> Ordering {
        cmp_parts(&[self.prefix, self.suffix], self.data, key)
    }

    /// Returns the child page, if this node is on an internal page.
    pub fn child(&self) -> Option<PageNumber> {
        PageNumber::new(u32::from_le_bytes(self.data.try_into().ok()?))
    }
}

/// A range of a page that no line occupies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnusedRange {
    /// Position on the page.
    pub bytes: Range<usize>,
    /// True if a line follows the range. Otherwise, the tags follow it.
    pub ends_at_line: bool,
}

/// Compares the concatenation of `parts` and `last` with `key`.
#[inline]
fn cmp_parts(parts: &[&[u8]], last: &[u8], mut key: &[u8]) -> Ordering {
    for part in parts {
        let Some((head, rest)) = key.split_at_checked(part.len()) else {
            // `key` ends inside this part, so the two cannot be equal.
            return cmp_bytes(part, key);
        };
        match cmp_bytes(part, head) {
            Ordering::Equal => key = rest,
            different => return different,
        }
    }
    cmp_bytes(last, key)
}

/// Compares two slices lexicographically. The first bytes are compared inline, because most keys are short and
/// calling the library's comparison function would account for half of the search time.
#[inline]
fn cmp_bytes(a: &[u8], b: &[u8]) -> Ordering {
    let (mut rest_a, mut rest_b) = (a, b);
    for _ in 0..4 {
        let (Some((x, after_a)), Some((y, after_b))) =
            (rest_a.split_first_chunk::<4>(), rest_b.split_first_chunk::<4>())
        else {
            return rest_a.iter().cmp(rest_b);
        };
        match u32::from_be_bytes(*x).cmp(&u32::from_be_bytes(*y)) {
            Ordering::Equal => (rest_a, rest_b) = (after_a, after_b),
            different => return different,
        }
    }
    rest_a.cmp(rest_b)
}

/// Read-only view of a page. It is cheap to create and copy, and safe for arbitrary bytes.
#[derive(Clone, Copy)]
pub struct Page<'a> {
    pub(super) header: &'a PageHeader,
    /// All bytes after the 40-byte header.
    pub(super) body: &'a [u8],
    pub(super) large: bool,
}

/// All-zero header, used by views whose bytes are not exactly one page long.
static NO_HEADER: [u8; HEADER_LEN] = [0; HEADER_LEN];

impl<'a> Page<'a> {
    /// Creates a view of `bytes`. If the length of `bytes` is not the page size, the view behaves like a page without
    /// lines.
    pub fn new(bytes: &'a [u8], size: PageSize) -> Page<'a> {
        let bytes = if bytes.len() == size.bytes() { bytes } else { &NO_HEADER };
        match PageHeader::ref_from_prefix(bytes) {
            Ok((header, body)) => Page { header, body, large: size.is_large() },
            Err(_) => unreachable!("a page and NO_HEADER are at least as long as a header"),
        }
    }

    /// Returns the dbtime of the page's last change. ESE: `dbtimeDirtied`.
    pub fn db_time(&self) -> DbTime {
        DbTime(self.header.db_time.get())
    }

    /// Returns the left sibling of a leaf.
    #[doc(alias = "pgnoPrev")]
    pub fn prev(&self) -> Option<PageNumber> {
        PageNumber::new(self.header.prev.get())
    }

    /// Returns the right sibling of a leaf.
    #[doc(alias = "pgnoNext")]
    pub fn next(&self) -> Option<PageNumber> {
        PageNumber::new(self.header.next.get())
    }

    /// Returns the tree to which the page belongs.
    #[doc(alias = "objidFDP")]
    pub fn tree(&self) -> TreeId {
        TreeId(self.header.tree.get())
    }

    /// Returns the flags of the page, including unknown flags.
    pub fn flags(&self) -> PageFlags {
        PageFlags::from_bits_retain(self.header.flags.get())
    }

    /// Returns true if the page is a leaf.
    pub fn is_leaf(&self) -> bool {
        self.flags().contains(PageFlags::LEAF)
    }

    /// Returns true if the page is a leaf that contains table rows. Leaves of indexes, long-value trees, and space
    /// trees do not.
    pub fn is_data_leaf(&self) -> bool {
        let other = PageFlags::SPACE | PageFlags::INDEX | PageFlags::LONG_VALUE;
        self.is_leaf() && !self.flags().intersects(other)
    }

    /// Returns true if the page is the root of a tree or of a space tree.
    pub fn is_root(&self) -> bool {
        self.flags().contains(PageFlags::ROOT)
    }

    /// Returns the number of free bytes, including holes between lines.
    #[doc(alias = "cbFree")]
    pub fn free_bytes(&self) -> usize {
        self.header.free.get().into()
    }

    /// Returns the part of [`Page::free_bytes`] that rollbacks may still need.
    #[doc(alias = "cbUncommittedFree")]
    pub fn uncommitted_free(&self) -> usize {
        self.header.uncommitted_free.get().into()
    }

    /// Returns the number of free bytes between the last line and the tags.
    pub fn contiguous_free(&self) -> usize {
        self.data_len().saturating_sub(self.free_start()).saturating_sub(TAG_LEN * self.tag_count())
    }

    /// Returns the range between the last line and the tags. The range is empty if the header is invalid.
    pub fn free_range(&self) -> Range<usize> {
        let len = HEADER_LEN + self.body.len();
        let end = len.saturating_sub(TAG_LEN * self.tag_count());
        let start = HEADER_LEN + self.data_start() + self.free_start();
        if start <= end { start..end } else { len..len }
    }

    /// Returns the ranges of the page that no line occupies, in order: the holes between lines, and the area between
    /// the last line and the tags. They may contain the bytes of deleted and moved nodes.
    pub fn unused_ranges(&self) -> Vec<UnusedRange> {
        let end = (HEADER_LEN + self.body.len()).saturating_sub(TAG_LEN * self.tag_count());
        let lines = (0..self.tag_count()).filter_map(|tag| self.line_range(tag));
        let mut lines: Vec<Range<usize>> = lines.filter(|line| !line.is_empty()).collect();
        lines.sort_unstable_by_key(|line| line.start);
        let (mut unused, mut at) = (Vec::new(), HEADER_LEN + self.data_start());
        for line in lines {
            let stop = line.start.min(end);
            if at < stop {
                unused.push(UnusedRange { bytes: at..stop, ends_at_line: stop < end });
            }
            at = at.max(line.end);
        }
        if at < end {
            unused.push(UnusedRange { bytes: at..end, ends_at_line: false });
        }
        unused
    }

    /// Returns the number of nodes.
    pub fn node_count(&self) -> usize {
        self.tag_count().saturating_sub(self.first_node_tag())
    }

    /// Returns the external header, which is the contents of tag 0.
    pub fn external_header(&self) -> &'a [u8] {
        if self.tag_count() == 0 {
            return &[];
        }
        self.line(0).unwrap_or_default()
    }

    /// Returns the prefix used by compressed nodes. Depending on the kind of page, it is all of the external header
    /// or the last part of it.
    #[inline]
    pub fn prefix(&self) -> &'a [u8] {
        prefix_in(self.external_header(), self.flags())
    }

    /// Returns the node at `index`, or `None` if there is no such node or its bytes are invalid.
    #[inline]
    pub fn node(&self, index: usize) -> Option<Node<'a>> {
        self.node_with(self.prefix(), index)
    }

    /// Iterates over the nodes in order, stopping at the first one whose bytes are invalid.
    pub fn nodes(&self) -> impl Iterator<Item = Node<'a>> + use<'a> {
        let (page, prefix) = (*self, self.prefix());
        (0..page.node_count()).map_while(move |index| page.node_with(prefix, index))
    }

    /// Returns the line of a node in its stored form.
    pub(super) fn raw_node(&self, index: usize) -> Option<&'a [u8]> {
        if index >= self.node_count() {
            return None;
        }
        self.line(index + self.first_node_tag())
    }

    /// Returns the number of bytes that a node occupies, including its tag. Returns 0 if there is no node at `index`.
    pub fn node_size(&self, index: usize) -> usize {
        self.raw_node(index).map_or(0, |line| line.len() + TAG_LEN)
    }

    /// Returns the number of bytes that a range of nodes occupies, including their tags.
    pub fn used_space(&self, range: Range<usize>) -> usize {
        let range = range.start..range.end.min(self.node_count());
        range.map(|index| self.node_size(index)).sum()
    }

    /// Returns the best prefix for a page that receives the nodes in `range`. The prefix is empty if it would not
    /// save space.
    ///
    /// An empty key at the end of an internal page means infinity and is not considered.
    pub fn prefix_for(&self, range: Range<usize>) -> Vec<u8> {
        let range = range.start..range.end.min(self.node_count());
        let keyed = range.clone().filter(|index| self.node(*index).is_some_and(|node| node.key_len() > 0));
        let (Some(first), Some(last)) = (keyed.clone().next(), keyed.clone().next_back()) else {
            return Vec::new();
        };
        let (Some(first), Some(last_node)) = (self.node(first), self.node(last)) else { return Vec::new() };
        let count = (last + 1).saturating_sub(range.start);
        choose_prefix(&first.key_to_vec(), &last_node.key_to_vec(), count).to_vec()
    }

    /// Returns the index of the first node whose key is not less than `key`, and whether that node's key equals
    /// `key`.
    pub fn lower_bound(&self, key: &[u8]) -> (usize, bool) {
        self.search(|node| node.cmp_key(key))
    }

    /// Returns the index of the first node whose concatenated key and data are not less than `key_data`, and whether
    /// they are equal to it. See also [`Page::lower_bound`].
    pub fn lower_bound_key_data(&self, key_data: &[u8]) -> (usize, bool) {
        self.search(|node| node.cmp_key_data(key_data))
    }

    /// Returns the internal-page entry into which a search for `key` descends, which is the first entry whose key is
    /// empty or greater than `key`.
    ///
    /// Returns `None` if `key` is beyond the last entry or if the child pointer is invalid.
    pub fn child_for(&self, key: &[u8]) -> Option<(usize, PageNumber)> {
        let (index, _) = self.search(|node| {
            if node.key_len() == 0 || node.cmp_key(key) == Ordering::Greater {
                Ordering::Greater
            } else {
                Ordering::Less
            }
        });
        Some((index, self.node(index)?.child()?))
    }

    /// Returns the index of the first node for which `order` does not return `Less`, and whether it returns `Equal`
    /// for that node. Unreadable nodes are treated as greater.
    #[inline]
    fn search(&self, order: impl Fn(&Node<'a>) -> Ordering) -> (usize, bool) {
        let prefix = self.prefix();
        let (mut low, mut high) = (0, self.node_count());
        let mut exact = false;
        while low < high {
            let middle = low + (high - low) / 2;
            match self.node_with(prefix, middle).map_or(Ordering::Greater, |node| order(&node)) {
                Ordering::Less => low = middle + 1,
                found => {
                    high = middle;
                    exact = found == Ordering::Equal;
                }
            }
        }
        (low, exact)
    }

    #[inline]
    fn node_with(&self, prefix: &'a [u8], index: usize) -> Option<Node<'a>> {
        let tags = self.tag_count();
        let tag = index.checked_add(self.first_node_tag()).filter(|tag| *tag < tags)?;
        let tag = self.tag(tag)?;
        decode_node(self.slice(tag)?, tag.flags, prefix, self.large)
    }

    /// Returns the start of the contiguous free area, as an offset into the data area. ESE: `ibMicFree`.
    #[doc(alias = "ibMicFree")]
    pub fn free_start(&self) -> usize {
        self.header.free_start.get().into()
    }

    /// Returns the number of tags, including reserved tags. ESE: `itagMicFree`.
    #[doc(alias = "itagMicFree")]
    #[inline]
    pub fn tag_count(&self) -> usize {
        usize::from(self.header.tag_state.get() & 0xfff)
    }

    /// Returns the index of node 0's tag, which follows the reserved tags. There is always at least one reserved tag.
    #[inline]
    pub fn first_node_tag(&self) -> usize {
        usize::from(self.header.tag_state.get() >> 12 & 7).max(1)
    }

    /// Returns the start of the data area, as an offset into the body. On large pages, the data area follows the
    /// second header.
    #[inline]
    pub(super) fn data_start(&self) -> usize {
        if self.large { HEADER_LEN } else { 0 }
    }

    /// Returns the length of the area shared by lines and tags.
    pub(super) fn data_len(&self) -> usize {
        self.body.len().saturating_sub(self.data_start())
    }

    #[inline]
    pub(super) fn tag(&self, tag: usize) -> Option<Tag> {
        let end = self.body.len().checked_sub(TAG_LEN * tag)?;
        let bytes = self.body.get(..end)?.last_chunk::<TAG_LEN>()?;
        Some(Tag::decode(*bytes, self.large))
    }

    #[inline]
    fn slice(&self, tag: Tag) -> Option<&'a [u8]> {
        let start = self.data_start() + tag.start;
        self.body.get(start..start + tag.len)
    }

    /// Returns the range of a tag's line within the page. The range may extend beyond the page.
    pub fn line_range(&self, tag: usize) -> Option<Range<usize>> {
        let tag = self.tag(tag).filter(|_| tag < self.tag_count())?;
        let start = HEADER_LEN + self.data_start() + tag.start;
        Some(start..start + tag.len)
    }

    pub(super) fn line(&self, tag: usize) -> Option<&'a [u8]> {
        self.slice(self.tag(tag)?)
    }
}

/// Returns the part of an external header that serves as the prefix of compressed nodes.
#[inline]
pub(super) fn prefix_in(external_header: &[u8], flags: PageFlags) -> &[u8] {
    if !flags.contains(PageFlags::ROOT) {
        external_header
    } else if flags.contains(PageFlags::SPACE) {
        external_header.get(SPLIT_RESERVE_LEN..).unwrap_or_default()
    } else {
        &[]
    }
}

#[inline]
fn decode_node<'a>(line: &'a [u8], tag_flags: u8, prefix: &'a [u8], large: bool) -> Option<Node<'a>> {
    let (first, rest) = line.split_first_chunk::<2>()?;
    let first = u16::from_le_bytes(*first);
    let flags = if large { (first >> 13) as u8 } else { tag_flags };
    let flags = NodeFlags::from_bits_truncate(flags);
    let first = usize::from(first & 0x1fff);
    let (prefix, suffix_len, rest) = if flags.contains(NodeFlags::COMPRESSED) {
        let (second, rest) = rest.split_first_chunk::<2>()?;
        (prefix.get(..first)?, usize::from(u16::from_le_bytes(*second) & 0x1fff), rest)
    } else {
        (&[][..], first, rest)
    };
    let (suffix, data) = rest.split_at_checked(suffix_len)?;
    Some(Node { flags, prefix, suffix, data })
}
