//! Reads of the trees that the check walks next, so that the disk works while the last leaves of a tree are judged.
//!
//! It lists the leaves of all trees in the order of the walks, in the same tasks, and starts to read them while there is
//! room. A walk takes the reads of a task if the task has the same pages, and starts reads of its own otherwise. So
//! nothing here can change what a check finds.
//!
//! Invariants: it never waits for a page; a call looks at [`STEPS`] pages at most, whatever refers to what; a walk that
//! differs from the list ends what was read ahead, so each walk wastes at most the reads of one memory bound.

use std::collections::VecDeque;
use std::iter;

use ese_format::page::{Page, PageFlags};
use ese_format::{PageNumber, TreeId};

use crate::reader::{Loaded, PageReader};
use crate::task_reads::TaskReads;
use crate::tree_shape::MAX_DEPTH;

/// Pages, or tasks, that one call looks at.
const STEPS: usize = 64;
/// Children of an internal page that are read ahead of their turn.
const DISTANCE: usize = 32;
/// Trees whose pages from the root to the first leaf are read before their turn.
const TREES: usize = 6;

/// The leaves of all trees of a check, in tasks.
#[derive(Default)]
pub(crate) struct ReadAhead {
    /// In the order of the walks.
    trees: Vec<(PageNumber, TreeId)>,
    /// Number of walks that have begun.
    walks: usize,
    /// Number of trees that the list has begun. The last one is that of `path`.
    listed: usize,
    /// Internal pages from the root on whose children are not all listed.
    path: Vec<Level>,
    /// Leaves of the next task.
    leaves: Vec<PageNumber>,
    /// With the number of the tree, as in `listed`.
    started: VecDeque<(usize, TaskReads)>,
    /// The current walk differs from the list.
    lost: bool,
}

/// An internal page.
struct Level {
    children: Vec<PageNumber>,
    next: usize,
    leaves: bool,
}

impl ReadAhead {
    /// For trees with these roots and object ids, in the order of the walks.
    pub(crate) fn new(trees: Vec<(PageNumber, TreeId)>) -> ReadAhead {
        ReadAhead { trees, ..ReadAhead::default() }
    }

    /// The walk of the next tree begins.
    pub(crate) fn begin(&mut self, reader: &mut PageReader<'_>) {
        self.walks += 1;
        self.lost = false;
        let walks = self.walks;
        while let Some(reads) = self.pop_if(|tree, _| tree < walks) {
            discard(reader, reads);
        }
        if self.listed < self.walks {
            self.list_from(self.walks - 1);
        }
    }

    fn pop_if(&mut self, wanted: impl Fn(usize, &TaskReads) -> bool) -> Option<TaskReads> {
        self.started.front().filter(|(tree, reads)| wanted(*tree, reads))?;
        self.started.pop_front().map(|(_, reads)| reads)
    }

    fn list_from(&mut self, trees: usize) {
        self.listed = trees;
        self.path.clear();
        self.leaves.clear();
    }

    /// Number of tasks whose reads have started and that no walk has taken.
    pub(crate) fn started(&self) -> usize {
        self.started.len()
    }

    /// The reads of the next task of the current walk, if it has these pages. Otherwise there are no reads afterwards.
    pub(crate) fn take(&mut self, reader: &mut PageReader<'_>, pages: &[PageNumber]) -> Option<TaskReads> {
        if self.started.is_empty() {
            self.fill(reader, 1);
        }
        let walks = self.walks;
        let next = self.pop_if(|tree, reads| tree == walks && reads.pages() == pages);
        if next.is_some() {
            return next;
        }
        self.lost = true;
        self.started.drain(..).for_each(|(_, reads)| discard(reader, reads));
        self.list_from(self.walks);
        None
    }

    /// Starts reads until there are `most` tasks, or the next page is not in memory.
    pub(crate) fn fill(&mut self, reader: &mut PageReader<'_>, most: usize) {
        if self.lost || reader.database.pace.is_cancelled() {
            return;
        }
        self.read_paths(reader);
        for _ in 0..STEPS {
            if self.started.len() >= most || !self.step(reader) {
                return;
            }
        }
    }

    /// Goes on by one page or task. False if that is not possible now.
    fn step(&mut self, reader: &mut PageReader<'_>) -> bool {
        let most = TaskReads::most_pages(reader.database);
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
        let Some(loaded) = reader.ready(child) else {
            reader.prefetch(rest.iter().take(DISTANCE).copied());
            return false;
        };
        level.next += 1;
        self.enter(loaded);
        true
    }

    fn begin_tree(&mut self, reader: &mut PageReader<'_>) -> bool {
        let Some((root, _)) = self.trees.get(self.listed) else { return false };
        let Some(loaded) = reader.ready(*root) else {
            reader.prefetch(iter::once(*root));
            return false;
        };
        self.listed += 1;
        self.enter(loaded);
        true
    }

    /// Lists the children of a page, if it is an internal page of the tree.
    fn enter(&mut self, loaded: Loaded) {
        let tree = self.listed.checked_sub(1).and_then(|at| self.trees.get(at));
        let (Ok(image), Some((_, tree))) = (loaded, tree) else { return };
        let page = image.page();
        if page.is_leaf() || page.tree() != *tree || self.path.len() > MAX_DEPTH as usize {
            return;
        }
        let children = page.nodes().filter_map(|node| node.child()).collect();
        self.path.push(Level { children, next: 0, leaves: is_parent_of_leaf(&page) });
    }

    fn start(&mut self, reader: &PageReader<'_>) {
        let leaves = std::mem::take(&mut self.leaves);
        self.started.push_back((self.listed, TaskReads::start(reader.database, leaves)));
    }

    /// Reads the first internal pages of the next trees: what they refer to is needed at once when their turn comes.
    fn read_paths(&self, reader: &mut PageReader<'_>) {
        for (root, tree) in self.trees.iter().skip(self.listed).take(TREES) {
            let mut at = *root;
            for _ in 0..MAX_DEPTH {
                let Some(loaded) = reader.ready(at) else {
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

/// Waits for the reads, so that their buffers never exceed the bound together with those of other reads.
fn discard(reader: &PageReader<'_>, reads: TaskReads) {
    reader.database.spare.put_back(reads.wait(reader.database).into_buffers());
}
