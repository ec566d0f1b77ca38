//! Reads ahead for the trees that will be walked next, which keeps the disk busy while the last leaves of a tree are
//! being checked.
//!
//! [`LeafReadAhead`] lists the leaves of all trees in walk order, divides them into the same tasks as the walks will,
//! and starts reads for these tasks while there is room. If the next task of a walk has the same pages, the walk
//! takes over these reads. Otherwise, it starts its own reads, so read-ahead cannot change the findings of a check.
//!
//! Invariants: read-ahead never waits for a page. A call processes at most [`MAX_STEPS_PER_CALL`] pages, regardless
//! of the links between pages. If a walk deviates from the list, all reads that were started ahead are discarded.
//! Each walk therefore wastes no more reads than fit in the memory limit.

use std::collections::VecDeque;
use std::iter;

use ese_format::page::{Page, PageFlags};
use ese_format::{PageNumber, TreeId};

use crate::pages::reader::{PageResult, VerifiedPageReader};
use crate::pages::task_reads::TaskReads;
use crate::structure::tree_shape::MAX_DEPTH;

/// Maximum number of pages or tasks processed by one call.
const MAX_STEPS_PER_CALL: usize = 64;
/// Number of an internal page's children to read ahead.
const PREFETCH_CHILDREN: usize = 32;
/// Number of trees whose paths from the root to the first leaf are read ahead.
const PREFETCH_TREES: usize = 6;

/// Reads ahead the leaves of all trees in a check, divided into tasks.
#[derive(Default)]
pub(crate) struct LeafReadAhead {
    /// Root and object id of each tree, in walk order.
    trees: Vec<(PageNumber, TreeId)>,
    /// Number of walks that have started.
    started_walks: usize,
    /// Number of trees whose leaves have been or are being listed. `path` belongs to the last of these trees.
    listed_trees: usize,
    /// Internal pages, starting with the root, whose children have not all been listed yet.
    path: Vec<ChildListing>,
    /// Leaves that will form the next task.
    leaves: Vec<PageNumber>,
    /// Started reads, each with the number of its tree, counted as in `listed_trees`.
    started: VecDeque<(usize, TaskReads)>,
    /// Whether the current walk has deviated from the list.
    has_deviated: bool,
}

/// Progress of listing an internal page's children.
struct ChildListing {
    children: Vec<PageNumber>,
    next: usize,
    leaves: bool,
}

impl LeafReadAhead {
    /// Creates read-ahead for trees with these roots and object ids, given in walk order.
    pub(crate) fn new(trees: Vec<(PageNumber, TreeId)>) -> LeafReadAhead {
        LeafReadAhead { trees, ..LeafReadAhead::default() }
    }

    /// Prepares for the walk of the next tree, which is about to start.
    pub(crate) fn begin(&mut self, reader: &mut VerifiedPageReader<'_>) {
        self.started_walks += 1;
        self.has_deviated = false;
        let walks = self.started_walks;
        while let Some(reads) = self.pop_if(|tree, _| tree < walks) {
            discard(reader, reads);
        }
        if self.listed_trees < self.started_walks {
            self.list_from(self.started_walks - 1);
        }
    }

    fn pop_if(&mut self, wanted: impl Fn(usize, &TaskReads) -> bool) -> Option<TaskReads> {
        self.started.front().filter(|(tree, reads)| wanted(*tree, reads))?;
        self.started.pop_front().map(|(_, reads)| reads)
    }

    fn list_from(&mut self, trees: usize) {
        self.listed_trees = trees;
        self.path.clear();
        self.leaves.clear();
    }

    /// Returns the number of tasks whose reads have started but have not yet been consumed by a walk.
    pub(crate) fn started(&self) -> usize {
        self.started.len()
    }

    /// Returns the reads of the current walk's next task if the task has exactly these pages. Otherwise, discards all
    /// started reads.
    pub(crate) fn take(
        &mut self,
        reader: &mut VerifiedPageReader<'_>,
        pages: &[PageNumber],
    ) -> Option<TaskReads> {
        if self.started.is_empty() {
            self.fill(reader, 1);
        }
        let walks = self.started_walks;
        let next = self.pop_if(|tree, reads| tree == walks && reads.pages() == pages);
        if next.is_some() {
            return next;
        }
        self.has_deviated = true;
        self.started.drain(..).for_each(|(_, reads)| discard(reader, reads));
        self.list_from(self.started_walks);
        None
    }

    /// Starts reads until `most` tasks have been started or the next page is not in memory.
    pub(crate) fn fill(&mut self, reader: &mut VerifiedPageReader<'_>, most: usize) {
        if self.has_deviated || reader.database.pace.is_cancelled() {
            return;
        }
        self.read_paths(reader);
        for _ in 0..MAX_STEPS_PER_CALL {
            if self.started.len() >= most || !self.step(reader) {
                return;
            }
        }
    }

    /// Advances by one page or task. Returns false if this is currently not possible.
    fn step(&mut self, reader: &mut VerifiedPageReader<'_>) -> bool {
        let most = TaskReads::max_pages(reader.database);
        let Some(level) = self.path.last_mut() else { return self.begin_tree(reader) };
        let rest = level.children.get(level.next..).unwrap_or_default();
        let Some(child) = rest.first().copied() else {
            self.path.pop();
            if self.path.is_empty() && !self.leaves.is_empty() {
                self.start(reader);
            }
            return true;
        };
        if level.leaves {
            let before = self.leaves.len();
            self.leaves.extend(rest.iter().take(most - before));
            level.next += self.leaves.len() - before;
            if self.leaves.len() >= most {
                self.start(reader);
            }
            return true;
        }
        let Some(loaded) = reader.get_if_loaded(child) else {
            reader.prefetch(rest.iter().take(PREFETCH_CHILDREN).copied());
            return false;
        };
        level.next += 1;
        self.enter(loaded);
        true
    }

    fn begin_tree(&mut self, reader: &mut VerifiedPageReader<'_>) -> bool {
        let Some((root, _)) = self.trees.get(self.listed_trees) else { return false };
        let Some(loaded) = reader.get_if_loaded(*root) else {
            reader.prefetch(iter::once(*root));
            return false;
        };
        self.listed_trees += 1;
        self.enter(loaded);
        true
    }

    /// Lists the children of a page if it is an internal page of the tree.
    fn enter(&mut self, loaded: PageResult) {
        let tree = self.listed_trees.checked_sub(1).and_then(|at| self.trees.get(at));
        let (Ok(image), Some((_, tree))) = (loaded, tree) else { return };
        let page = image.page();
        if page.is_leaf() || page.tree() != *tree || self.path.len() > MAX_DEPTH as usize {
            return;
        }
        let children = page.nodes().filter_map(|node| node.child()).collect();
        self.path.push(ChildListing { children, next: 0, leaves: is_parent_of_leaf(&page) });
    }

    fn start(&mut self, reader: &VerifiedPageReader<'_>) {
        let leaves = std::mem::take(&mut self.leaves);
        self.started.push_back((self.listed_trees, TaskReads::start(reader.database, leaves)));
    }

    /// Reads the first internal pages of the next trees, whose children are needed as soon as a tree's walk starts.
    fn read_paths(&self, reader: &mut VerifiedPageReader<'_>) {
        for (root, tree) in self.trees.iter().skip(self.listed_trees).take(PREFETCH_TREES) {
            let mut at = *root;
            for _ in 0..MAX_DEPTH {
                let Some(loaded) = reader.get_if_loaded(at) else {
                    reader.prefetch(iter::once(at));
                    break;
                };
                let Ok(image) = loaded else { break };
                let page = image.page();
                let below = !page.is_leaf() && !is_parent_of_leaf(&page) && page.tree() == *tree;
                match page.node(0).and_then(|node| node.child()) {
                    Some(child) if below => at = child,
                    _ => break,
                }
            }
        }
    }
}

fn is_parent_of_leaf(page: &Page<'_>) -> bool {
    page.flags().contains(PageFlags::PARENT_OF_LEAF)
}

/// Waits for the reads to complete and returns their buffers to the pool. Without this wait, these buffers and those of
/// other reads together could exceed the limit.
fn discard(reader: &VerifiedPageReader<'_>, reads: TaskReads) {
    reader.database.spare_buffers.give_back(reads.wait(reader.database).into_buffers());
}
