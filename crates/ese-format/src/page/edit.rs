//! In-memory changes to a page: nodes, external header, and header fields.
//!
//! Inserted lines are placed at the start of the contiguous free area. Deleting the last line moves that start back,
//! and deleting any other line leaves a hole. Lines are compacted if the contiguous free area is too small but the
//! page has enough free bytes in total. Freed bytes are not overwritten. Some free bytes can be reserved for
//! rollbacks; the caller decides whether they may be used.
//!
//! After an error, the page is unchanged, except that its lines may have been compacted.

use std::ops::Range;

use zerocopy::FromBytes;

use super::view::prefix_in;
use super::{
    HEADER_LEN, LargePageHeader, MAX_KEY_PART, MAX_TAGS, NodeFlags, Page, PageFlags, PageHeader, TAG_LEN,
    Tag, node_space, shared_prefix_len,
};
use crate::{DbTime, PageNumber, PageSize, TreeId};

/// Error returned if a page does not have enough room for a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the page is full")]
pub struct PageFull;

/// Mutable view of a page.
pub struct PageMut<'a> {
    header: &'a mut PageHeader,
    body: &'a mut [u8],
    large: bool,
}

impl<'a> PageMut<'a> {
    /// Creates a mutable view of a formatted page.
    ///
    /// # Panics
    /// Panics if `bytes` is not exactly one page long.
    pub fn new(bytes: &'a mut [u8], size: PageSize) -> PageMut<'a> {
        assert_eq!(bytes.len(), size.bytes(), "page length");
        match PageHeader::mut_from_prefix(bytes) {
            Ok((header, body)) => PageMut { header, body, large: size.is_large() },
            Err(_) => unreachable!("the length was checked"),
        }
    }

    /// Formats `bytes` as an empty page with an empty external header and the given identity. All other bytes are set
    /// to zero.
    ///
    /// # Panics
    /// Panics if `bytes` is not exactly one page long.
    pub fn format(
        bytes: &'a mut [u8],
        size: PageSize,
        number: PageNumber,
        tree: TreeId,
        flags: PageFlags,
    ) -> PageMut<'a> {
        bytes.fill(0);
        PageMut::format_over(bytes, size, number, tree, flags)
    }

    /// Formats `bytes` like [`PageMut::format`], but does not touch bytes outside the lines.
    /// [`PageMut::fill_free_area`] overwrites those.
    ///
    /// # Panics
    /// Panics if `bytes` is not exactly one page long.
    pub fn format_over(
        bytes: &'a mut [u8],
        size: PageSize,
        number: PageNumber,
        tree: TreeId,
        flags: PageFlags,
    ) -> PageMut<'a> {
        if let Some(header) = bytes.get_mut(..size.header_len()) {
            header.fill(0);
        }
        let mut page = PageMut::new(bytes, size);
        page.put_tag(0, Tag { len: 0, start: 0, flags: 0 });
        page.header.tree.set(tree.0);
        page.header.flags.set(flags.bits());
        page.header.tag_state.set(1);
        page.set_free(page.as_page().data_len() - TAG_LEN);
        page.set_number(number);
        page
    }

    /// Formats `bytes` as a page that is allocated but not yet used. The page has no tags, not even one for the
    /// external header. ESE: `PreInitializeNewPage`.
    ///
    /// # Panics
    /// Panics if `bytes` is not exactly one page long.
    #[doc(alias = "fPagePreInit")]
    pub fn format_unused(
        bytes: &'a mut [u8],
        size: PageSize,
        number: PageNumber,
        tree: TreeId,
    ) -> PageMut<'a> {
        let flags = PageFlags::NEW_RECORD | PageFlags::PRE_INIT;
        let mut page = PageMut::format(bytes, size, number, tree, flags);
        page.header.tag_state.set(0);
        page.set_free(page.as_page().data_len());
        page
    }

    /// Returns a read-only view of the page.
    pub fn as_page(&self) -> Page<'_> {
        Page { header: self.header, body: self.body, large: self.large }
    }

    /// Sets the time of the last change.
    pub fn set_db_time(&mut self, time: DbTime) {
        self.header.db_time.set(time.0);
    }

    /// Sets the left sibling.
    pub fn set_prev(&mut self, page: Option<PageNumber>) {
        self.header.prev.set(PageNumber::to_raw(page));
    }

    /// Sets the right sibling.
    pub fn set_next(&mut self, page: Option<PageNumber>) {
        self.header.next.set(PageNumber::to_raw(page));
    }

    /// Sets the page number stored in a large page's header.
    pub fn set_number(&mut self, number: PageNumber) {
        if self.large
            && let Ok((second, _)) = LargePageHeader::mut_from_prefix(self.body)
        {
            second.number.set(number.get());
        }
    }

    /// Sets the tree to which the page belongs.
    pub fn set_tree(&mut self, tree: TreeId) {
        self.header.tree.set(tree.0);
    }

    /// Sets the page flags. Call this only while no nodes are compressed, because [`PageFlags::ROOT`] and
    /// [`PageFlags::SPACE`] determine which bytes form the prefix.
    pub fn set_flags(&mut self, flags: PageFlags) {
        self.header.flags.set(flags.bits());
    }

    /// Sets the number of free bytes that rollbacks may still need.
    #[doc(alias = "cbUncommittedFree")]
    pub fn set_uncommitted_free(&mut self, bytes: usize) {
        self.header.uncommitted_free.set(bytes.min(self.as_page().free_bytes()) as u16);
    }

    /// Replaces the external header. Node keys do not change: if the prefix changes while nodes are compressed, all
    /// nodes are rewritten.
    pub fn set_external_header(&mut self, external_header: &[u8]) -> Result<(), PageFull> {
        let page = self.as_page();
        let same_prefix = page.prefix() == prefix_in(external_header, page.flags());
        if same_prefix || !page.nodes().any(|node| node.flags.contains(NodeFlags::COMPRESSED)) {
            return self.replace_external_header(external_header);
        }
        self.truncate_nodes(page.node_count(), external_header)
    }

    /// Inserts a node before the node at `index`. The key is compressed against the page's prefix if that saves
    /// space. [`NodeFlags::COMPRESSED`] in `flags` is ignored.
    ///
    /// Also returns [`PageFull`] if the index is beyond the end or if the node exceeds the format's length limits.
    pub fn insert_node(
        &mut self,
        index: usize,
        flags: NodeFlags,
        key: &[u8],
        data: &[u8],
    ) -> Result<(), PageFull> {
        let page = self.as_page();
        let (tag_count, tag) = (page.tag_count(), page.first_node_tag() + index);
        let shared = shared_prefix_len(page.prefix(), key);
        let suffix = key.get(shared..).unwrap_or_default();
        let len = node_space(suffix.len(), shared > 0, data.len()) - TAG_LEN;
        let mut flags = flags - NodeFlags::COMPRESSED;
        flags.set(NodeFlags::COMPRESSED, shared > 0);
        let fits = tag <= tag_count
            && tag_count < MAX_TAGS
            && suffix.len() <= MAX_KEY_PART
            && len <= self.max_line()
            && len + TAG_LEN <= page.free_bytes();
        if !fits {
            return Err(PageFull);
        }
        self.make_contiguous(len + TAG_LEN, None)?;

        let body_len = self.body.len();
        let tags = body_len - TAG_LEN * tag_count..body_len - TAG_LEN * tag;
        self.body.copy_within(tags.clone(), tags.start - TAG_LEN);
        self.set_tag_count(tag_count + 1);

        let start = self.as_page().free_start();
        self.put_tag(tag, Tag { len, start, flags: flags.bits() });
        self.set_free_start(start + len);
        self.set_free(self.as_page().free_bytes() - len - TAG_LEN);

        let on_first = if self.large { u16::from(flags.bits()) << 13 } else { 0 };
        let suffix_len = suffix.len() as u16;
        let line = self.line_mut(Tag { len, start, flags: 0 });
        if shared > 0 {
            let lens = [(shared as u16 | on_first).to_le_bytes(), suffix_len.to_le_bytes()];
            write_parts(line, &[lens.as_flattened(), suffix, data]);
        } else {
            write_parts(line, &[&(suffix_len | on_first).to_le_bytes(), suffix, data]);
        }
        Ok(())
    }

    /// Removes the node at `index`, if it exists.
    pub fn delete_node(&mut self, index: usize) {
        let page = self.as_page();
        let (tag_count, tag) = (page.tag_count(), page.first_node_tag() + index);
        let Some(victim) = page.tag(tag).filter(|_| tag < tag_count) else { return };
        let Some(low) = self.body.len().checked_sub(TAG_LEN * tag_count) else { return };
        let free = page.free_bytes() + victim.len + TAG_LEN;
        if victim.end() == page.free_start() {
            self.set_free_start(victim.start);
        }
        let high = self.body.len() - TAG_LEN * (tag + 1);
        self.body.copy_within(low..high, low + TAG_LEN);
        self.set_tag_count(tag_count - 1);
        self.set_free(free);
    }

    /// Removes a range of nodes.
    pub fn delete_nodes(&mut self, range: Range<usize>) {
        let end = range.end.min(self.as_page().node_count());
        for index in (range.start..end).rev() {
            self.delete_node(index);
        }
    }

    /// Removes all nodes. The external header and other reserved lines remain and are compacted.
    pub fn clear_nodes(&mut self) {
        let page = self.as_page();
        let reserved = page.first_node_tag().min(page.tag_count());
        let node_bytes: usize = (0..page.node_count()).map(|index| page.node_size(index)).sum();
        let free = page.free_bytes() + node_bytes;
        self.set_tag_count(reserved);
        self.set_free(free);
        // If a line is invalid, compaction fails and leaves the lines where they are.
        let _ = self.compact(None);
    }

    /// Fills all bytes that no line uses with `fill`. If the page has invalid lines, fills only the free area after
    /// the lines.
    pub fn overwrite_unused(&mut self, fill: u8) {
        let _ = self.compact(None);
        self.fill_free_area(fill);
    }

    /// Fills the free area after all lines with `fill`.
    pub fn fill_free_area(&mut self, fill: u8) {
        let page = self.as_page();
        let start = page.data_start() + page.free_start();
        let end = self.body.len().saturating_sub(TAG_LEN * page.tag_count());
        if let Some(unused) = self.body.get_mut(start..end) {
            unused.fill(fill);
        }
    }

    /// Replaces a node's data. The key and flags do not change. Also returns [`PageFull`] if there is no node at
    /// `index`.
    pub fn replace_data(&mut self, index: usize, data: &[u8]) -> Result<(), PageFull> {
        let page = self.as_page();
        let node = page.node(index).ok_or(PageFull)?;
        let line_len = page.raw_node(index).map_or(0, <[u8]>::len);
        let key_part = line_len - node.data.len();
        let line = self.resize_line(page.first_node_tag() + index, key_part + data.len())?;
        if let Some(place) = line.get_mut(key_part..) {
            place.copy_from_slice(data);
        }
        Ok(())
    }

    /// Sets the flags of a node, except for [`NodeFlags::COMPRESSED`], which does not change.
    pub fn set_node_flags(&mut self, index: usize, flags: NodeFlags) {
        let page = self.as_page();
        let Some(node) = page.node(index) else { return };
        let flags = (flags - NodeFlags::COMPRESSED) | (node.flags & NodeFlags::COMPRESSED);
        let number = page.first_node_tag() + index;
        let Some(tag) = page.tag(number) else { return };
        if !self.large {
            self.put_tag(number, Tag { flags: flags.bits(), ..tag });
        } else if let Some(byte) = self.line_mut(tag).get_mut(1) {
            *byte = *byte & 0x1f | flags.bits() << 5;
        }
    }

    /// Removes all nodes after the first `count`, and rewrites the rest for a new external header. If they do not
    /// fit, the page is unchanged.
    pub fn truncate_nodes(&mut self, count: usize, external_header: &[u8]) -> Result<(), PageFull> {
        let (old_header, old_body) = (*self.header, self.body.to_vec());
        let old = Page { header: &old_header, body: &old_body, large: self.large };
        self.clear_nodes();
        let written = self
            .replace_external_header(external_header)
            .and_then(|()| self.copy_nodes_from(&old, 0..count.min(old.node_count())));
        if written.is_err() {
            *self.header = old_header;
            self.body.copy_from_slice(&old_body);
        }
        written
    }

    /// Appends nodes from another page, compressing their keys against this page's prefix. Copies either all of the
    /// nodes or none.
    pub fn copy_nodes_from(&mut self, from: &Page<'_>, range: Range<usize>) -> Result<(), PageFull> {
        self.insert_nodes_from(self.as_page().node_count(), from, range)
    }

    /// Inserts nodes from another page before the node at `at`. See [`PageMut::copy_nodes_from`].
    pub fn insert_nodes_from(
        &mut self,
        at: usize,
        from: &Page<'_>,
        range: Range<usize>,
    ) -> Result<(), PageFull> {
        let mut key = Vec::new();
        for (offset, index) in range.enumerate() {
            let copied = from.node(index).ok_or(PageFull).and_then(|node| {
                key.clear();
                node.append_key(&mut key);
                self.insert_node(at + offset, node.flags, &key, node.data)
            });
            if copied.is_err() {
                self.delete_nodes(at..at + offset);
                return copied;
            }
        }
        Ok(())
    }

    fn replace_external_header(&mut self, external_header: &[u8]) -> Result<(), PageFull> {
        if self.as_page().tag_count() == 0 {
            return Err(PageFull);
        }
        self.resize_line(0, external_header.len())?.copy_from_slice(external_header);
        Ok(())
    }

    /// Changes the length of a line. The line's flags and leading bytes do not change.
    fn resize_line(&mut self, number: usize, len: usize) -> Result<&mut [u8], PageFull> {
        let page = self.as_page();
        let mut tag = page.tag(number).ok_or(PageFull)?;
        let free = (page.free_bytes() + tag.len).checked_sub(len).ok_or(PageFull)?;
        if len > self.max_line() || page.line(number).is_none() {
            return Err(PageFull);
        }
        let is_last = tag.len > 0 && tag.end() == page.free_start();
        if len > tag.len && is_last {
            self.make_contiguous(len - tag.len, Some(number))?;
            tag = self.as_page().tag(number).ok_or(PageFull)?;
        } else if len > tag.len {
            if page.contiguous_free() >= len {
                let (from, to) = (page.data_start() + tag.start, page.free_start());
                self.body.copy_within(from..from + tag.len, self.as_page().data_start() + to);
                tag.start = to;
            } else {
                // The last line can grow where it is, so only the additional bytes must be free.
                self.compact(Some(number))?;
                tag = self.as_page().tag(number).ok_or(PageFull)?;
                if self.as_page().contiguous_free() < len - tag.len {
                    return Err(PageFull);
                }
            }
        }
        let was_last = is_last || len > tag.len;
        tag.len = len;
        if was_last {
            self.set_free_start(tag.end());
        }
        if len == 0 {
            // The offset of an empty line must not stay above the start of the free area when that start moves down.
            tag.start = 0;
        }
        self.put_tag(number, tag);
        self.set_free(free);
        Ok(self.line_mut(tag))
    }

    fn make_contiguous(&mut self, len: usize, last: Option<usize>) -> Result<(), PageFull> {
        if self.as_page().contiguous_free() < len {
            self.compact(last)?;
        }
        if self.as_page().contiguous_free() < len { Err(PageFull) } else { Ok(()) }
    }

    /// Moves all lines to the start of the data area in tag order, except that `last` is placed after the others.
    /// Fails if lines overlap or extend beyond the used area.
    fn compact(&mut self, last: Option<usize>) -> Result<(), PageFull> {
        let page = self.as_page();
        let (data_start, end, tag_count) = (page.data_start(), page.free_start(), page.tag_count());
        if end + TAG_LEN * tag_count > page.data_len() {
            return Err(PageFull);
        }
        let old = page.body.get(data_start..data_start + end).ok_or(PageFull)?.to_vec();
        let mut total = 0;
        for number in 0..tag_count {
            let tag = page.tag(number).filter(|tag| tag.len == 0 || tag.end() <= end).ok_or(PageFull)?;
            total += tag.len;
        }
        if total > end {
            return Err(PageFull);
        }
        let mut start = 0;
        for number in (0..tag_count).filter(|number| Some(*number) != last).chain(last) {
            let tag = self.as_page().tag(number).ok_or(PageFull)?;
            let moved = Tag { start: if tag.len == 0 { 0 } else { start }, ..tag };
            if let Some(bytes) = old.get(tag.start..tag.end()) {
                self.line_mut(moved).copy_from_slice(bytes);
            }
            self.put_tag(number, moved);
            start += tag.len;
        }
        self.set_free_start(start);
        Ok(())
    }

    fn max_line(&self) -> usize {
        Tag::mask(self.large).into()
    }

    fn line_mut(&mut self, tag: Tag) -> &mut [u8] {
        let start = if self.large { HEADER_LEN } else { 0 } + tag.start;
        self.body.get_mut(start..start + tag.len).unwrap_or_default()
    }

    fn put_tag(&mut self, number: usize, tag: Tag) {
        let large = self.large;
        let end = self.body.len().saturating_sub(TAG_LEN * number);
        if let Some(place) = self.body.get_mut(..end).and_then(<[u8]>::last_chunk_mut::<TAG_LEN>) {
            *place = tag.encode(large);
        }
    }

    fn set_tag_count(&mut self, count: usize) {
        let reserved = self.header.tag_state.get() & 0xf000;
        self.header.tag_state.set(reserved | count as u16 & 0xfff);
    }

    fn set_free(&mut self, bytes: usize) {
        self.header.free.set(bytes as u16);
    }

    fn set_free_start(&mut self, start: usize) {
        self.header.free_start.set(start as u16);
    }
}

/// Fills `line` with the concatenation of `parts`, which must have the same total length.
fn write_parts(mut line: &mut [u8], parts: &[&[u8]]) {
    for part in parts {
        let Some((place, rest)) = line.split_at_mut_checked(part.len()) else { return };
        place.copy_from_slice(part);
        line = rest;
    }
}
