//! Information that redo finds on a page while it repeats versioned changes: keys and before-images. The
//! before-images become pending on the page again until they are logged.

use ese_format::log::record::{LogRecord, NodeChange, PageChangeFlags};
use ese_format::page::{Page, PageFlags};
use jetcell_sync::atomic::AtomicBool;
use jetcell_sync::{Arc, Mutex};

use super::page_redo::versioned;
use crate::btree::before_image::DeferredBeforeImage;
use crate::cache::WriteLatch;
use crate::pages::TreeIdentity;
use crate::storage::DatabaseFile;
use crate::transaction::{Transaction, Version, VersionChange};

/// Information found on a page when redo repeated a versioned change.
pub(super) struct RecoveredVersion {
    pub key: Vec<u8>,
    pub key_len: usize,
    pub change: VersionChange,
    /// Version whose before-image is pending on the page until it is logged or no longer needed.
    pub version: Option<Arc<Version>>,
    /// Whether a later record removed the node.
    pub node_removed: bool,
}

/// Before-images of the changes that redo makes to one page.
#[derive(Default)]
pub(super) struct PendingBeforeImages {
    images: Vec<BeforeImage>,
}

struct BeforeImage {
    record_index: u32,
    node: NodeChange,
    transaction: Arc<Transaction>,
    key: Vec<u8>,
    key_len: usize,
    change: VersionChange,
    node_removed: bool,
}

impl PendingBeforeImages {
    /// Saves the data that a change is about to overwrite.
    pub fn save(
        &mut self,
        record_index: u32,
        record: &LogRecord,
        node: &NodeChange,
        transaction: Option<&Arc<Transaction>>,
        page: &Page<'_>,
    ) {
        let Some(stored) = page.node(usize::from(node.page.line)) else { return };
        let bookmark = || {
            let (mut key, data) = (stored.key_to_vec(), stored.data);
            let key_len = key.len();
            if !node.page.flags.contains(PageChangeFlags::UNIQUE) {
                key.extend_from_slice(data);
            }
            (key, key_len)
        };
        if let LogRecord::Delete(_) = record {
            if !self.images.is_empty() {
                let (key, _) = bookmark();
                let of_node =
                    self.images.iter_mut().filter(|image| image.key == key && image.node.root == node.root);
                of_node.for_each(|image| image.node_removed = image.transaction.committed().is_some());
            }
            return;
        }
        let Some(transaction) = transaction.filter(|_| versioned(node) && node.root.is_some()) else {
            return;
        };
        let (node, change) = match record {
            LogRecord::FlagDelete(_) => (*node, VersionChange::FlagDelete),
            // A committed replace is never undone.
            _ if transaction.committed().is_some() => return,
            LogRecord::Replace(_) | LogRecord::ReplaceD(_) => {
                (*node, VersionChange::Replace { before: stored.data.into() })
            }
            LogRecord::FlagInsertAndReplaceData(revive) => {
                let replaced = NodeChange { rceid: revive.replace_rceid, ..*node };
                (replaced, VersionChange::Replace { before: stored.data.into() })
            }
            _ => return,
        };
        let (key, key_len) = bookmark();
        let transaction = transaction.clone();
        let node_removed = false;
        self.images.push(BeforeImage { record_index, node, transaction, key, key_len, change, node_removed });
    }

    /// Makes the before-images pending on the page, as they were when the changes were first made. Returns the
    /// information that redo found about each change, with the index of its record in the window.
    pub fn defer(self, database: &Arc<DatabaseFile>, latch: &mut WriteLatch) -> Vec<(u32, RecoveredVersion)> {
        let page = latch.key().page;
        let defer = |image: BeforeImage| {
            let BeforeImage { record_index, node, transaction, key, key_len, change, node_removed } = image;
            let version = node.root.filter(|_| !node_removed).map(|root| {
                let version = Arc::new(Version {
                    tree: (database.file_id, root),
                    bookmark: key.clone().into(),
                    key_len,
                    transaction,
                    id: node.rceid,
                    level: node.page.level,
                    change: change.clone(),
                    settled: AtomicBool::new(false),
                    undo_logged: Mutex::new(None),
                });
                let unique = node.page.flags.contains(PageChangeFlags::UNIQUE);
                let kind = if unique { PageFlags::empty() } else { PageFlags::NON_UNIQUE };
                let shape = TreeIdentity { root, id: node.tree, kind };
                let undo = DeferredBeforeImage::new(database, shape, version.clone(), page);
                latch.defer_undo(Arc::new(undo));
                version
            });
            (record_index, RecoveredVersion { key, key_len, change, version, node_removed })
        };
        self.images.into_iter().map(defer).collect()
    }
}
