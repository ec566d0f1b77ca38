//! Traverses the leaves of a tree from left to right.
//!
//! If an internal page is unreadable, the leaves below it are reached from the left through their sibling links, up
//! to the first invalid link. Every page is visited at most once.

use std::sync::Arc;

use ese_check::database::ReadableDatabase;
use ese_check::reader::{DamagedPage, PageCache, PageProblem, VerifiedPage};
use ese_format::page::{Page, PageFlags};
use ese_format::{PageNumber, TreeId};

use crate::issue::ExportIssues;

/// Maximum depth of the tree. Even a valid tree with 2^32 pages is shallower.
const MAX_DEPTH: usize = 24;
/// Number of children to prefetch.
const PREFETCH_CHILDREN: usize = 64;

/// A bitmap with one bit for each page in the file. Memory is committed only for ranges that contain added pages.
struct PageBitmap(Vec<u64>);

impl PageBitmap {
    fn new(pages: u32) -> PageBitmap {
        PageBitmap(vec![0; pages as usize / 64 + 1])
    }

    /// Adds a page. Returns `false` if the set already contains the page, or if the page is past the end of the file.
    fn insert(&mut self, page: PageNumber) -> bool {
        let (index, bit) = ((page.get() / 64) as usize, 1 << (page.get() % 64));
        match self.0.get_mut(index) {
            Some(word) if *word & bit == 0 => {
                *word |= bit;
                true
            }
            _ => false,
        }
    }

    fn contains(&self, page: PageNumber) -> bool {
        self.0.get((page.get() / 64) as usize).is_some_and(|word| word >> (page.get() % 64) & 1 == 1)
    }
}

/// A leaf of a tree.
#[derive(Clone)]
pub(crate) enum LeafImage {
    /// The checksum of the page was verified.
    Verified(Arc<VerifiedPage>),
    /// The checksum of the page is bad.
    Damaged(Arc<DamagedPage>),
}

impl LeafImage {
    pub(crate) fn page(&self) -> Page<'_> {
        match self {
            LeafImage::Verified(image) => image.page(),
            LeafImage::Damaged(image) => image.page(),
        }
    }

    pub(crate) fn is_damaged(&self) -> bool {
        matches!(self, LeafImage::Damaged(_))
    }
}

struct WalkLevel {
    image: Arc<VerifiedPage>,
    number: PageNumber,
    next: usize,
    /// Index of the first child that has not been prefetched yet.
    prefetched: usize,
}

/// A traversal of the leaves in one tree.
pub(crate) struct LeafWalk {
    tree: TreeId,
    stack: Vec<WalkLevel>,
    root: Option<PageNumber>,
    visited: PageBitmap,
    /// Right sibling of the last leaf.
    right_sibling: Option<PageNumber>,
    /// True while the traversal is following sibling links past an unreadable internal page.
    following_links: bool,
    /// True if any leaves were reached through sibling links. Parents visited later may then refer to the same
    /// leaves.
    followed_links: bool,
    /// True if leaves with a bad checksum are also returned.
    pub(crate) include_damaged: bool,
}

impl LeafWalk {
    pub(crate) fn new(tree: TreeId, root: PageNumber, database: &ReadableDatabase) -> LeafWalk {
        LeafWalk {
            tree,
            stack: Vec::new(),
            root: Some(root),
            visited: PageBitmap::new(database.file_pages),
            right_sibling: None,
            following_links: false,
            followed_links: false,
            include_damaged: false,
        }
    }

    /// Returns true if the traversal has visited the page.
    pub(crate) fn has_visited(&self, page: PageNumber) -> bool {
        self.visited.contains(page)
    }

    /// Returns the next leaf.
    pub(crate) fn next(
        &mut self,
        database: &ReadableDatabase,
        pages: &mut PageCache,
        issues: &mut ExportIssues,
    ) -> Option<(PageNumber, LeafImage)> {
        if let Some(root) = self.root.take()
            && let Some(leaf) = self.enter(root, false, database, pages, issues)
        {
            return Some(leaf);
        }
        loop {
            if self.following_links {
                if let Some(leaf) = self.follow_link(database, pages, issues) {
                    return Some(leaf);
                }
                self.following_links = false;
            }
            let level = self.stack.last_mut()?;
            let (image, number) = (level.image.clone(), level.number);
            let page = image.page();
            let index = level.next;
            if index >= page.node_count() {
                self.stack.pop();
                continue;
            }
            level.next += 1;
            if index >= level.prefetched {
                level.prefetched = index + PREFETCH_CHILDREN;
                pages.prefetch(
                    database,
                    (index..index + PREFETCH_CHILDREN)
                        .map_while(|at| page.node(at))
                        .filter_map(|node| node.child()),
                );
            }
            let Some(child) = page.node(index).and_then(|node| node.child()) else {
                issues.add_missing(
                    Some(number),
                    format!("entry {index} does not have a child page; the rows below it are missing"),
                );
                continue;
            };
            let leaf_expected = page.flags().contains(PageFlags::PARENT_OF_LEAF);
            if let Some(leaf) = self.enter(child, leaf_expected, database, pages, issues) {
                return Some(leaf);
            }
        }
    }

    /// Returns the right sibling of the last leaf, if it is a leaf of this tree that has not been visited yet.
    fn follow_link(
        &mut self,
        database: &ReadableDatabase,
        pages: &mut PageCache,
        issues: &mut ExportIssues,
    ) -> Option<(PageNumber, LeafImage)> {
        let number = self.right_sibling?;
        let image = match pages.get(database, number) {
            Ok(image) => image,
            Err(problem) => {
                let leaf = self.damaged_leaf(number, &problem, database, issues)?;
                self.followed_links = true;
                return Some((number, leaf));
            }
        };
        let page = image.page();
        if page.tree() != self.tree || !page.is_leaf() || !self.visited.insert(number) {
            return None;
        }
        self.right_sibling = page.next();
        self.followed_links = true;
        Some((number, LeafImage::Verified(image)))
    }

    /// Returns a leaf with a bad checksum if it claims to be an unvisited leaf of this tree.
    fn damaged_leaf(
        &mut self,
        number: PageNumber,
        problem: &PageProblem,
        database: &ReadableDatabase,
        issues: &mut ExportIssues,
    ) -> Option<LeafImage> {
        if !self.include_damaged || *problem != PageProblem::Damaged {
            return None;
        }
        let image = DamagedPage::read(database, number)?;
        let page = image.page();
        if page.tree() != self.tree || !page.is_data_leaf() {
            return None;
        }
        if !self.visited.insert(number) {
            return None;
        }
        self.right_sibling = page.next();
        issues.add_missing(
            Some(number),
            format!("the page {problem}; rows that can be decoded are marked as damaged, others are missing"),
        );
        Some(LeafImage::Damaged(Arc::new(image)))
    }

    fn enter(
        &mut self,
        number: PageNumber,
        leaf_expected: bool,
        database: &ReadableDatabase,
        pages: &mut PageCache,
        issues: &mut ExportIssues,
    ) -> Option<(PageNumber, LeafImage)> {
        let image = match pages.get(database, number) {
            Ok(image) => Ok(image),
            Err(problem) => match self.damaged_leaf(number, &problem, database, issues) {
                Some(leaf) => return Some((number, leaf)),
                None => Err(problem),
            },
        };
        let mut lost = |what: String| {
            let rows = if leaf_expected { "its rows are missing" } else { "rows below it may be missing" };
            issues.add_missing(Some(number), format!("{what}; {rows}"));
        };
        let image = match image {
            Ok(image) => image,
            Err(problem) => {
                lost(format!("the page {problem}"));
                self.following_links = !leaf_expected;
                return None;
            }
        };
        let page = image.page();
        if page.tree() != self.tree {
            lost(format!("the page belongs to tree {}, not to {}", page.tree().0, self.tree.0));
        } else if !self.visited.insert(number) {
            if !self.followed_links {
                lost("the page occurs more than once in its tree".to_owned());
            }
        } else if page.is_leaf() {
            self.right_sibling = page.next();
            return Some((number, LeafImage::Verified(image)));
        } else if self.stack.len() >= MAX_DEPTH {
            lost(format!("the tree is deeper than {MAX_DEPTH} levels"));
        } else {
            self.stack.push(WalkLevel { image, number, next: 0, prefetched: 0 });
        }
        None
    }
}
