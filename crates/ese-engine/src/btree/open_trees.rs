//! The trees of one database that are in use, and the creation and removal of trees.

use jetcell_sync::Arc;
use std::collections::HashMap;

use ese_format::page::{Page, PageFlags};
use ese_format::{PageNumber, TreeId};
use jetcell_sync::Mutex;

use super::Tree;
use crate::Result;
use crate::pages::TREE_KIND;
use crate::space::SpaceLock;
use crate::storage::DatabaseFile;
use crate::transaction::{ChangeContext, UndoEntry, VersionStore};

/// Open trees, indexed by root page. Each root has exactly one [`Tree`] and therefore exactly one structure lock.
pub struct OpenTrees {
    pub(crate) file: Arc<DatabaseFile>,
    pub(crate) versions: Arc<VersionStore>,
    by_root: Mutex<HashMap<PageNumber, Arc<Tree>>>,
}

impl OpenTrees {
    pub(crate) fn new(file: Arc<DatabaseFile>, versions: Arc<VersionStore>) -> OpenTrees {
        OpenTrees { file, versions, by_root: Mutex::default() }
    }

    /// Returns the tree with this root, id and kind, opening it if necessary.
    pub(crate) fn tree(&self, root: PageNumber, id: TreeId, kind: PageFlags) -> Arc<Tree> {
        let mut trees = self.by_root.lock();
        let known = trees.get(&root).filter(|tree| tree.id == id).cloned();
        known.unwrap_or_else(|| {
            let tree = Arc::new(Tree::new(self.file.clone(), self.versions.clone(), root, id, kind));
            trees.insert(root, tree.clone());
            tree
        })
    }

    /// Returns the tree rooted at `root`. Reads the id and kind from the root page.
    pub(crate) fn tree_at(&self, root: PageNumber) -> Result<Arc<Tree>> {
        if let Some(tree) = self.open_tree(root) {
            return Ok(tree);
        }
        let (id, kind) = {
            let latch = self.file.pin(root)?.into_read();
            let page = Page::new(&latch, self.file.page_size);
            (page.tree(), page.flags() & TREE_KIND)
        };
        Ok(self.tree(root, id, kind))
    }

    /// Returns the tree with this root and id, or `None` if it no longer exists. In that case, its pages may already
    /// belong to another tree.
    pub(crate) fn find(&self, root: PageNumber, id: TreeId) -> Result<Option<Arc<Tree>>> {
        if let Some(tree) = self.open_tree(root) {
            return Ok(Some(tree).filter(|tree| tree.id == id));
        }
        let kind = {
            let latch = self.file.pin(root)?.into_read();
            let page = Page::new(&latch, self.file.page_size);
            // When a tree is removed, the space header is removed from its root page.
            let exists = page.tree() == id
                && page.flags().contains(PageFlags::ROOT)
                && !page.external_header().is_empty();
            exists.then(|| page.flags() & TREE_KIND)
        };
        Ok(kind.map(|kind| self.tree(root, id, kind)))
    }

    fn open_tree(&self, root: PageNumber) -> Option<Arc<Tree>> {
        self.by_root.lock().get(&root).cloned()
    }

    /// Creates an empty tree and allocates its space from the tree at `parent`. A rollback frees its pages. ESE:
    /// creating an `FDP`.
    pub(crate) fn create_tree(
        &self,
        context: &mut ChangeContext,
        parent: PageNumber,
        kind: PageFlags,
        pages: u32,
    ) -> Result<Arc<Tree>> {
        let (prologue, ..) = context.prologue()?;
        let id = self.file.next_tree_id();
        let kind = kind | PageFlags::NEW_RECORD;
        let space = SpaceLock::new(&self.file);
        let root = space.create_tree(context.procid(), parent, id, kind, pages, |group| {
            prologue.iter().for_each(|record| group.record_before(record.clone()));
        })?;
        drop(space);
        context.changed(UndoEntry::Tree(self.file.file_id, root));
        Ok(self.tree(root, id, kind))
    }

    /// Undoes the creation of a tree. The caller must pause cleanup, which must not read pages that are being freed.
    pub(crate) fn remove_tree(&self, root: PageNumber, procid: u16) -> Result<()> {
        // Held until the tree is removed from the map. No other tree may be created on its pages before that.
        let space = SpaceLock::new(&self.file);
        space.clear_torn_pages(root)?;
        space.free_tree(procid, root)?;
        self.by_root.lock().remove(&root);
        drop(space);
        Ok(())
    }
}
