//! The leaves of a tree from left to right, as far as they can be reached.
//!
//! An internal page that cannot be read hides its subtree; the leaves below it are then reached by the links of
//! their siblings, from the left as far as these go. Every page is entered at most once.

use std::sync::Arc;

use ese_check::reader::{PageImage, PageReader};
use ese_format::page::PageFlags;
use ese_format::{PageNumber, TreeId};

use crate::issue::Issues;

/// No tree of 2^32 pages is deeper.
const MAX_DEPTH: usize = 24;
/// Children asked for ahead of need.
const AHEAD: usize = 64;

/// One bit per page of the file, touched only where pages are seen.
struct PageSet(Vec<u64>);

impl PageSet {
    fn new(pages: u32) -> PageSet {
        PageSet(vec![0; pages as usize / 64 + 1])
    }

    /// Adds the page; `false` if it is there already, or beyond the file.
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
}

struct Level {
    image: Arc<PageImage>,
    number: PageNumber,
    next: usize,
    /// Children below this index have been asked for.
    asked: usize,
}

/// A walk over one tree.
pub(crate) struct LeafWalk {
    tree: TreeId,
    stack: Vec<Level>,
    root: Option<PageNumber>,
    seen: PageSet,
    /// Where the last leaf's right link points.
    right: Option<PageNumber>,
    /// Following links of siblings past an unreadable internal page.
    chasing: bool,
    /// Leaves were reached by their links: their parents may name them once more.
    chased: bool,
}

impl LeafWalk {
    pub(crate) fn new(tree: TreeId, root: PageNumber, reader: &PageReader<'_>) -> LeafWalk {
        LeafWalk {
            tree,
            stack: Vec::new(),
            root: Some(root),
            seen: PageSet::new(reader.database.file_pages),
            right: None,
            chasing: false,
            chased: false,
        }
    }

    /// The next leaf.
    pub(crate) fn next(
        &mut self,
        reader: &mut PageReader<'_>,
        issues: &mut Issues,
    ) -> Option<(PageNumber, Arc<PageImage>)> {
        if let Some(root) = self.root.take()
            && let Some(leaf) = self.enter(root, false, reader, issues)
        {
            return Some(leaf);
        }
        loop {
            if self.chasing {
                if let Some(leaf) = self.chase(reader) {
                    return Some(leaf);
                }
                self.chasing = false;
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
            if index >= level.asked {
                level.asked = index + AHEAD;
                reader.prefetch(
                    (index..index + AHEAD).map_while(|at| page.node(at)).filter_map(|node| node.child()),
                );
            }
            let Some(child) = page.node(index).and_then(|node| node.child()) else {
                issues.missing(
                    Some(number),
                    format!("entry {index} names no page; the rows below it are missing"),
                );
                continue;
            };
            let leaf_expected = page.flags().contains(PageFlags::PARENT_OF_LEAF);
            if let Some(leaf) = self.enter(child, leaf_expected, reader, issues) {
                return Some(leaf);
            }
        }
    }

    /// The page behind the last leaf, if it is a leaf of this tree not seen so far.
    fn chase(&mut self, reader: &mut PageReader<'_>) -> Option<(PageNumber, Arc<PageImage>)> {
        let number = self.right?;
        let image = reader.get(number).ok()?;
        let page = image.page();
        if page.tree() != self.tree || !page.is_leaf() || !self.seen.insert(number) {
            return None;
        }
        self.right = page.next();
        self.chased = true;
        Some((number, image))
    }

    fn enter(
        &mut self,
        number: PageNumber,
        leaf_expected: bool,
        reader: &mut PageReader<'_>,
        issues: &mut Issues,
    ) -> Option<(PageNumber, Arc<PageImage>)> {
        let mut lost = |what: String| {
            let rows = if leaf_expected { "its rows are missing" } else { "rows below it may be missing" };
            issues.missing(Some(number), format!("{what}; {rows}"));
        };
        let image = match reader.get(number) {
            Ok(image) => image,
            Err(problem) => {
                lost(format!("the page {problem}"));
                self.chasing = !leaf_expected;
                return None;
            }
        };
        let page = image.page();
        if page.tree() != self.tree {
            lost(format!("the page belongs to tree {} and not to {}", page.tree().0, self.tree.0));
        } else if !self.seen.insert(number) {
            if !self.chased {
                lost("the page occurs a second time in its tree".to_owned());
            }
        } else if page.is_leaf() {
            self.right = page.next();
            return Some((number, image));
        } else if self.stack.len() >= MAX_DEPTH {
            lost(format!("the tree is deeper than {MAX_DEPTH} levels"));
        } else {
            self.stack.push(Level { image, number, next: 0, asked: 0 });
        }
        None
    }
}
