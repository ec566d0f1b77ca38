//! Builds one tree from nodes in order.
//!
//! ```text
//!  level 1   | s1 -> A | s2 -> B |    -> C |      separators: above all keys of the child, not above the next child;
//!               │         │         │             the last one of a level is empty and takes all greater keys
//!  level 0      A  <───>  B  <───>  C             only leaves have links
//! ```
//!
//! A page is closed when the first node after it arrives: only then are its right link and its separator known. Each
//! level has one open page.

use ese_format::page::{NodeFlags, Page, PageFlags, PageMut, node_space};
use ese_format::{PageNumber, PageSize};
use jetcell_sync::Arc;

use super::page_writer::{BulkWriteOptions, PageWriter, WrittenPage};
use crate::btree::Tree;
use crate::{Error, InternalError, Result, UsageError};

/// A node, as a (key, data) pair.
pub(crate) type OwnedNode = (Vec<u8>, Vec<u8>);

/// A tree whose pages have been written, except for the top page. The nodes of the top page go to the root
/// ([`link`](super::link())).
pub(crate) struct BuiltTree {
    pub tree: Arc<Tree>,
    /// The nodes of the top page.
    pub top: Vec<OwnedNode>,
    pub top_is_leaf: bool,
    /// Whether the children of the top page are leaves.
    pub above_leaves: bool,
    /// One of the pages that were written but not logged.
    pub written: Option<WrittenPage>,
    pub pages: u64,
}

/// Builds one tree from nodes that are added in order.
pub(crate) struct TreeBuilder {
    tree: Arc<Tree>,
    writer: PageWriter,
    /// Number of bytes per page that stay free for later inserts.
    spared: usize,
    leaf: OpenLeaf,
    /// Open internal pages, from the parents of the leaves upwards.
    levels: Vec<OpenInternalPage>,
    /// The last node, in the form that this tree uses for comparisons.
    last: Vec<u8>,
    order: Vec<u8>,
}

/// The open leaf. The first leaf is not allocated until a second leaf is needed. A small tree therefore needs no
/// extent.
struct OpenLeaf {
    number: Option<PageNumber>,
    scratch: Vec<u8>,
    previous: Option<PageNumber>,
    nodes: usize,
}

/// An open internal page.
struct OpenInternalPage {
    bytes: Vec<u8>,
    nodes: usize,
    last_separator: Vec<u8>,
}

impl TreeBuilder {
    /// Creates a builder for an empty tree that no session is using. Pages are filled up to `density` percent.
    pub fn new(tree: &Arc<Tree>, density: u32, transfers: &BulkWriteOptions) -> TreeBuilder {
        let size = tree.file.page_size;
        let mut scratch = vec![0; size.bytes()];
        format(&mut scratch, size, tree, PageFlags::LEAF);
        TreeBuilder {
            tree: tree.clone(),
            writer: PageWriter::new(tree.clone(), transfers),
            spared: size.bytes() * (100 - density.min(100) as usize) / 100,
            leaf: OpenLeaf { number: None, scratch, previous: None, nodes: 0 },
            levels: Vec::new(),
            last: Vec::new(),
            order: Vec::new(),
        }
    }

    /// Returns the number of pages allocated so far.
    pub fn pages(&self) -> u64 {
        self.writer.pages
    }

    /// Adds a node. Fails with [`Error::OutOfOrder`] if the node is less than the last one, and with
    /// [`Error::KeyDuplicate`] if the tree is unique and already contains the key. In both cases, the tree is
    /// unchanged.
    pub fn append(&mut self, key: &[u8], data: &[u8]) -> Result<()> {
        self.order.clear();
        self.order.extend_from_slice(key);
        if !self.tree.is_unique() {
            self.order.extend_from_slice(data);
        }
        if self.leaf.nodes > 0 {
            match self.order.cmp(&self.last) {
                std::cmp::Ordering::Less => return Err(Error::OutOfOrder),
                std::cmp::Ordering::Equal => return Err(Error::KeyDuplicate),
                std::cmp::Ordering::Greater => {}
            }
        }
        if !self.insert(key, data)? {
            self.next_leaf()?;
            if !self.insert(key, data)? {
                return Err(UsageError::RecordTooLong(data.len()).into());
            }
        }
        std::mem::swap(&mut self.last, &mut self.order);
        Ok(())
    }

    fn leaf(&mut self) -> Result<&mut [u8]> {
        match self.leaf.number {
            Some(number) => self.writer.page(number),
            None => Ok(&mut self.leaf.scratch),
        }
    }

    /// Inserts a node at the end of the open leaf if the leaf has room for it. Returns false otherwise.
    fn insert(&mut self, key: &[u8], data: &[u8]) -> Result<bool> {
        let (size, line) = (self.tree.file.page_size, self.leaf.nodes);
        let spared = if line > 0 { self.spared } else { 0 };
        let mut page = PageMut::new(self.leaf()?, size);
        let fits = page.as_page().free_bytes() >= node_space(key.len(), false, data.len()) + spared
            && page.insert_node(line, NodeFlags::empty(), key, data).is_ok();
        self.leaf.nodes += usize::from(fits);
        Ok(fits)
    }

    /// Closes the open leaf and opens a new leaf for the node in `order`.
    fn next_leaf(&mut self) -> Result<()> {
        let number = self.number_of_leaf()?;
        let next = self.writer.allocate()?;
        let size = self.tree.file.page_size;
        PageMut::new(self.writer.page(number)?, size).set_next(Some(next));
        self.writer.seal(number)?;
        let common = self.last.iter().zip(&self.order).take_while(|(a, b)| a == b).count();
        let separator = self.order[..(common + 1).min(self.order.len())].to_vec();
        self.add_child(0, separator, number)?;
        let flags = self.tree.kind | PageFlags::LEAF;
        // Bytes that no node covers are cleared when the page is sealed.
        let bytes = self.writer.page(next)?;
        PageMut::format_over(bytes, size, PageNumber::fixed(1), self.tree.id, flags).set_prev(Some(number));
        self.leaf.number = Some(next);
        self.leaf.previous = Some(number);
        self.leaf.nodes = 0;
        Ok(())
    }

    /// Returns the number of the open leaf. If the leaf has no number yet, allocates a page and copies the leaf into
    /// a transfer buffer.
    fn number_of_leaf(&mut self) -> Result<PageNumber> {
        if let Some(number) = self.leaf.number {
            return Ok(number);
        }
        let number = self.writer.allocate()?;
        self.writer.page(number)?.copy_from_slice(&self.leaf.scratch);
        self.leaf.number = Some(number);
        Ok(number)
    }

    /// Adds an entry for a page below `level`. An empty separator marks the last entry.
    fn add_child(&mut self, level: usize, separator: Vec<u8>, child: PageNumber) -> Result<()> {
        let size = self.tree.file.page_size;
        if level == self.levels.len() {
            let mut bytes = vec![0; size.bytes()];
            format(&mut bytes, size, &self.tree, kind_of_level(level));
            self.levels.push(OpenInternalPage { bytes, nodes: 0, last_separator: Vec::new() });
        }
        let open = &mut self.levels[level];
        let mut page = PageMut::new(&mut open.bytes, size);
        let spared = if open.nodes > 0 { self.spared } else { 0 };
        let data = child.get().to_le_bytes();
        // The last entry of a level gets an empty separator only when the level is complete, so it always fits.
        let fits = page.as_page().free_bytes() >= node_space(separator.len(), false, data.len()) + spared
            && page.insert_node(open.nodes, NodeFlags::empty(), &separator, &data).is_ok();
        if fits {
            open.nodes += 1;
            open.last_separator = separator;
            return Ok(());
        }
        let upper = std::mem::take(&mut self.levels[level].last_separator);
        let number = self.close_internal(level)?;
        self.add_child(level + 1, upper, number)?;
        let open = &mut self.levels[level];
        format(&mut open.bytes, size, &self.tree, kind_of_level(level));
        open.nodes = 0;
        match PageMut::new(&mut open.bytes, size).insert_node(0, NodeFlags::empty(), &separator, &data) {
            Ok(()) => {
                open.nodes = 1;
                open.last_separator = separator;
                Ok(())
            }
            Err(_) => Err(InternalError::Separator.into()),
        }
    }

    fn close_internal(&mut self, level: usize) -> Result<PageNumber> {
        let number = self.writer.allocate()?;
        self.writer.page(number)?.copy_from_slice(&self.levels[level].bytes);
        self.writer.seal(number)?;
        Ok(number)
    }

    /// Closes all pages except the top one and waits until they are written. The pages are durable after the next
    /// sync of the file.
    pub fn complete(mut self) -> Result<BuiltTree> {
        let size = self.tree.file.page_size;
        let top = if self.levels.is_empty() {
            nodes_of(&self.leaf.scratch, size)
        } else {
            let mut child = self.number_of_leaf()?;
            self.writer.seal(child)?;
            let mut level = 0;
            loop {
                self.add_child(level, Vec::new(), child)?;
                if level + 1 == self.levels.len() {
                    break nodes_of(&self.levels[level].bytes, size);
                }
                child = self.close_internal(level)?;
                level += 1;
            }
        };
        self.writer.complete()?;
        Ok(BuiltTree {
            top,
            top_is_leaf: self.levels.is_empty(),
            above_leaves: self.levels.len() == 1,
            written: self.writer.take_first(),
            pages: self.writer.pages,
            tree: self.tree,
        })
    }
}

fn kind_of_level(level: usize) -> PageFlags {
    if level == 0 { PageFlags::PARENT_OF_LEAF } else { PageFlags::empty() }
}

/// Formats a page below the root.
fn format<'a>(bytes: &'a mut [u8], size: PageSize, tree: &Tree, flags: PageFlags) -> PageMut<'a> {
    // The page number is set when the page is sealed.
    PageMut::format(bytes, size, PageNumber::fixed(1), tree.id, tree.kind | flags)
}

fn nodes_of(bytes: &[u8], size: PageSize) -> Vec<OwnedNode> {
    Page::new(bytes, size).nodes().map(|node| (node.key_to_vec(), node.data.to_vec())).collect()
}
