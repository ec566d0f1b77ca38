//! The descent from the root to a leaf.
//!
//! Invariant: a latch is never held across I/O. A child that is not in the cache is read without latches, and the
//! descent restarts. All pages that were read stay pinned until the descent completes. Otherwise, in a full cache,
//! these pages could evict each other endlessly.

use ese_format::PageNumber;
use ese_format::page::{Page, PageFlags};

use super::Tree;
use crate::cache::{PinnedPage, ReadLatch, WriteLatch};
use crate::{Corruption, Result};

/// Maximum depth of a tree. A deeper descent means that the pages are damaged and form a cycle.
pub(crate) const MAX_DEPTH: usize = 24;

/// The leaf that a descent searches for.
#[derive(Clone, Copy, Debug)]
pub enum DescentTarget<'a> {
    /// The leaf whose range contains the key (key and data in non-unique trees).
    Key(&'a [u8]),
    /// The left-most leaf.
    First,
    /// The right-most leaf.
    Last,
}

impl Tree {
    /// Returns a view of the bytes of a latched page of this tree.
    pub fn view<'a>(&self, bytes: &'a [u8]) -> Page<'a> {
        Page::new(bytes, self.file.page_size)
    }

    /// Returns the leaf for `target`, latched for reading.
    pub fn leaf_for_read(&self, target: DescentTarget<'_>) -> Result<ReadLatch> {
        let mut kept: Vec<PinnedPage> = Vec::new();
        'restart: loop {
            let mut latch = self.pin(self.root)?.into_read();
            for _ in 0..MAX_DEPTH {
                let page = self.view(&latch);
                if page.flags().contains(PageFlags::LEAF) {
                    return Ok(latch);
                }
                let child = self.child(&page, target, latch.key().page)?;
                match self.file.resident(child) {
                    Some(pinned) => latch = pinned.into_read(),
                    None => {
                        drop(latch);
                        kept.push(self.pin(child)?);
                        continue 'restart;
                    }
                }
            }
            drop(kept);
            return Err(self.file.corrupt(self.root, Corruption::TooDeep));
        }
    }

    /// Returns the leaf for `target`, latched for writing.
    pub fn leaf_for_write(&self, target: DescentTarget<'_>) -> Result<WriteLatch> {
        let mut kept: Vec<PinnedPage> = Vec::new();
        'restart: loop {
            let root = self.pin(self.root)?;
            let mut latch = root.read();
            if self.view(&latch).flags().contains(PageFlags::LEAF) {
                drop(latch);
                let latch = root.write();
                if self.view(&latch).flags().contains(PageFlags::LEAF) {
                    return Ok(latch);
                }
                continue 'restart;
            }
            for _ in 0..MAX_DEPTH {
                let page = self.view(&latch);
                let above_leaves = page.flags().contains(PageFlags::PARENT_OF_LEAF);
                let child = self.child(&page, target, latch.key().page)?;
                let Some(pinned) = self.file.resident(child) else {
                    drop(latch);
                    kept.push(self.pin(child)?);
                    continue 'restart;
                };
                if above_leaves {
                    let leaf = pinned.into_write();
                    drop(latch);
                    if !self.view(&leaf).flags().contains(PageFlags::LEAF) {
                        return Err(self.file.corrupt(child, Corruption::NotALeaf));
                    }
                    return Ok(leaf);
                }
                latch = pinned.into_read();
            }
            drop(kept);
            return Err(self.file.corrupt(self.root, Corruption::TooDeep));
        }
    }

    /// Returns up to `count` leaves that follow (or precede) the leaf of `key` under the same parent. Used for
    /// read-ahead.
    pub(crate) fn sibling_leaves(&self, key: &[u8], forward: bool, count: usize) -> Result<Vec<PageNumber>> {
        let mut at = self.root;
        for _ in 0..MAX_DEPTH {
            let latch = self.pin(at)?.into_read();
            let page = self.view(&latch);
            if page.flags().contains(PageFlags::LEAF) {
                break;
            }
            let Some((line, child)) = page.child_for(key) else { break };
            if !page.flags().contains(PageFlags::PARENT_OF_LEAF) {
                at = child;
                continue;
            }
            let lines = if forward {
                line + 1..page.node_count().min(line + 1 + count)
            } else {
                line.saturating_sub(count)..line
            };
            return Ok(lines.filter_map(|line| page.node(line)?.child()).collect());
        }
        Ok(Vec::new())
    }

    /// Returns the leaf whose range contains the key, without reading the leaf. The result is a hint, because the
    /// leaf can be split at any time. Returns `None` if the path changed during the descent.
    pub(crate) fn leaf_of(&self, key: &[u8]) -> Result<Option<PageNumber>> {
        let mut at = self.root;
        for _ in 0..MAX_DEPTH {
            let latch = self.pin(at)?.into_read();
            let page = self.view(&latch);
            if page.flags().contains(PageFlags::LEAF) {
                return Ok(Some(at));
            }
            let Some((_, child)) = page.child_for(key) else { break };
            if page.flags().contains(PageFlags::PARENT_OF_LEAF) {
                return Ok(Some(child));
            }
            at = child;
        }
        Ok(None)
    }

    /// Returns the page numbers from the root to the leaf for `target`. The path is stable only while the structure
    /// lock is held.
    pub(crate) fn path(&self, target: DescentTarget<'_>) -> Result<Vec<PageNumber>> {
        let mut path = vec![self.root];
        loop {
            let at = path[path.len() - 1];
            let latch = self.pin(at)?.into_read();
            let page = self.view(&latch);
            if page.flags().contains(PageFlags::LEAF) {
                return Ok(path);
            }
            if path.len() >= MAX_DEPTH {
                return Err(self.file.corrupt(self.root, Corruption::TooDeep));
            }
            path.push(self.child(&page, target, at)?);
        }
    }

    /// Pins a page of this tree and reads it if necessary. The caller must not hold a latch.
    pub(crate) fn pin(&self, page: PageNumber) -> Result<PinnedPage> {
        self.file.pin(page)
    }

    fn child(&self, page: &Page<'_>, target: DescentTarget<'_>, at: PageNumber) -> Result<PageNumber> {
        let child = match target {
            DescentTarget::Key(key) => page.child_for(key).map(|(_, child)| child),
            DescentTarget::First => page.node(0).and_then(|node| node.child()),
            DescentTarget::Last => {
                page.node_count().checked_sub(1).and_then(|i| page.node(i)).and_then(|n| n.child())
            }
        };
        child.ok_or_else(|| self.file.corrupt(at, Corruption::NoChild))
    }
}
