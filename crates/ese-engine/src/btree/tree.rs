//! One B+-tree: its root, its kind, its sort order, and the bookmarks that identify its nodes.

use std::borrow::Cow;
use std::ops::Deref;

use ese_format::page::{Node, Page, PageFlags};
use ese_format::{PageNumber, TreeId};
use jetcell_sync::atomic::{AtomicU8, AtomicU32, Ordering};
use jetcell_sync::{Arc, Mutex, MutexGuard};

use crate::cache::AttachedFileId;
use crate::pages::TreeIdentity;
use crate::storage::DatabaseFile;
use crate::transaction::VersionStore;

/// Valid range of densities, in percent. ESE: `ulFILEDensityLeast`, `ulFILEDensityMost`.
pub(crate) const DENSITIES: std::ops::RangeInclusive<u32> = 20..=100;

/// A B+-tree in one database. ESE: `FCB` with its `pgnoFDP`.
///
/// Invariant: pages are added to the tree and removed from it, and sibling links and internal pages change, only
/// under a [`StructureLock`]. Leaves change under their own latch.
#[doc(alias = "FCB")]
#[doc(alias = "pgnoFDP")]
#[repr(align(128))]
pub struct Tree {
    /// The file that contains the pages of the tree.
    pub file: Arc<DatabaseFile>,
    pub(crate) versions: Arc<VersionStore>,
    /// Root page, which never moves.
    pub root: PageNumber,
    /// Object id stored on all pages of the tree.
    pub id: TreeId,
    /// Flags set on every page of the tree: kind, uniqueness, record format.
    pub kind: PageFlags,
    structure: Mutex<()>,
    /// Percentage to which inserts in key order fill a page. ESE: density.
    density: AtomicU8,
    /// Right-most leaf, if the latest inserts appear to be in key order; otherwise 0.
    pub(crate) append_leaf: AtomicU32,
}

/// The lock on the shape of a tree. Operations that add or remove pages, or that change links or internal pages, are
/// methods of this type. They cannot be called without the lock.
pub(crate) struct StructureLock<'a> {
    tree: &'a Tree,
    _held: MutexGuard<'a, ()>,
}

impl Deref for StructureLock<'_> {
    type Target = Tree;

    fn deref(&self) -> &Tree {
        self.tree
    }
}

/// Identifies a node by its key, followed by its data in non-unique trees. ESE: bookmark.
#[derive(Clone, Debug, Default)]
pub struct Bookmark {
    bytes: Vec<u8>,
    key_len: usize,
    /// The leaf that contained the node when it was last read. Only a hint.
    leaf: Option<PageNumber>,
}

impl Bookmark {
    /// Returns the key, followed by the data in non-unique trees, as one byte string that sorts in tree order.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the key without the data.
    pub fn key(&self) -> &[u8] {
        &self.bytes[..self.key_len]
    }

    /// Returns the length of the key in bytes.
    pub fn key_len(&self) -> usize {
        self.key_len
    }

    /// Converts the bookmark into its bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Returns the leaf that contained the node when it was last read, if any.
    pub(crate) fn leaf_hint(&self) -> Option<PageNumber> {
        self.leaf
    }

    /// Records the leaf that currently contains the node.
    pub(crate) fn set_leaf_hint(&mut self, leaf: PageNumber) {
        self.leaf = Some(leaf);
    }
}

impl Tree {
    pub(crate) fn new(
        file: Arc<DatabaseFile>,
        versions: Arc<VersionStore>,
        root: PageNumber,
        id: TreeId,
        kind: PageFlags,
    ) -> Tree {
        Tree {
            file,
            versions,
            root,
            id,
            kind,
            structure: Mutex::new(()),
            density: AtomicU8::new(100),
            append_leaf: AtomicU32::new(0),
        }
    }

    /// Locks the shape of the tree. Waits for other threads that change it.
    pub(crate) fn lock_structure(&self) -> StructureLock<'_> {
        StructureLock { tree: self, _held: self.structure.lock() }
    }

    /// Sets the percentage to which inserts in key order fill a page. Values out of range, which a damaged catalog
    /// can contain, are clamped.
    #[doc(alias = "ulDensity")]
    pub(crate) fn set_density(&self, percent: u32) {
        self.density.store(percent.clamp(*DENSITIES.start(), *DENSITIES.end()) as u8, Ordering::Relaxed);
    }

    /// Returns true if a node of `need` bytes may be inserted into this leaf at `line`. The leaf must have room for
    /// it. If inserts are in key order, the share of the page that the density reserves for later inserts must also
    /// stay free.
    pub(crate) fn fits(&self, page: &Page<'_>, line: usize, need: usize) -> bool {
        let appends = line == page.node_count() && page.next().is_none();
        let kept = if appends && line > 0 { self.density_reserve() } else { 0 };
        page.free_bytes() >= need + kept && self.has_room(page, need)
    }

    /// Returns the number of bytes that the density keeps free on a page.
    pub(super) fn density_reserve(&self) -> usize {
        let spared = 100 - usize::from(self.density.load(Ordering::Relaxed));
        self.file.page_size.bytes() * spared / 100
    }

    /// Returns the values that identify the tree in pages and log records.
    pub(crate) fn identity(&self) -> TreeIdentity {
        TreeIdentity { root: self.root, id: self.id, kind: self.kind }
    }

    /// Returns true if keys are unique. In other trees, nodes are ordered and identified by key and data.
    pub fn is_unique(&self) -> bool {
        !self.kind.contains(PageFlags::NON_UNIQUE)
    }

    /// Returns the key that identifies the tree in the version store.
    pub fn key(&self) -> (AttachedFileId, PageNumber) {
        (self.file.file_id, self.root)
    }

    /// Returns the first node that is not smaller than the bookmark `bytes`, and whether that node has exactly this
    /// bookmark.
    pub fn find(&self, page: &Page<'_>, bytes: &[u8]) -> (usize, bool) {
        if self.is_unique() { page.lower_bound(bytes) } else { page.lower_bound_key_data(bytes) }
    }

    /// Compares a node with this bookmark.
    pub(crate) fn order(&self, node: &Node<'_>, bytes: &[u8]) -> std::cmp::Ordering {
        if self.is_unique() { node.cmp_key(bytes) } else { node.cmp_key_data(bytes) }
    }

    /// Returns the bytes that order and identify a node with this key and data.
    pub(crate) fn bookmark_bytes<'a>(&self, key: &'a [u8], data: &[u8]) -> Cow<'a, [u8]> {
        if self.is_unique() { Cow::Borrowed(key) } else { Cow::Owned([key, data].concat()) }
    }

    /// Returns the bookmark of a node with this key and data. Unique trees ignore the data.
    pub(crate) fn bookmark(&self, key: &[u8], data: &[u8]) -> Bookmark {
        Bookmark { bytes: self.bookmark_bytes(key, data).into_owned(), key_len: key.len(), leaf: None }
    }

    /// Returns the bookmark of a node in a unique tree.
    pub(crate) fn bookmark_of_key(&self, key: Vec<u8>) -> Bookmark {
        debug_assert!(self.is_unique());
        Bookmark { key_len: key.len(), bytes: key, leaf: None }
    }

    /// Returns the bookmark of a node.
    pub fn bookmark_of(&self, node: &Node<'_>) -> Bookmark {
        let mut bookmark = None;
        self.bookmark_into(node, &mut bookmark);
        bookmark.unwrap_or_default()
    }

    /// Stores the bookmark of a node in `bookmark`, reusing its allocation.
    pub(crate) fn bookmark_into(&self, node: &Node<'_>, bookmark: &mut Option<Bookmark>) {
        let bookmark = bookmark.get_or_insert_with(Bookmark::default);
        bookmark.leaf = None;
        bookmark.bytes.clear();
        node.append_key(&mut bookmark.bytes);
        bookmark.key_len = bookmark.bytes.len();
        if !self.is_unique() {
            bookmark.bytes.extend_from_slice(node.data);
        }
    }

    /// Returns true if the page is currently a leaf of the tree. A reader may still hold a page that another session
    /// has freed.
    pub(crate) fn is_live_leaf(&self, page: &Page<'_>) -> bool {
        page.flags().contains(PageFlags::LEAF)
            && !page.flags().contains(PageFlags::EMPTY)
            && page.tree() == self.id
            // The pages of the space trees have the same object id.
            && !(page.flags() ^ self.kind).contains(PageFlags::SPACE)
    }
}
