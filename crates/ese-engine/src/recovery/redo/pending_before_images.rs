//! What a page told about versioned changes while redo made them: before-images, which hang on the page again until they
//! are logged, and keys.

use ese_format::log::record::{LogRecord, NodeChange, PageChangeFlags};
use ese_format::page::{Page, PageFlags};
use jetcell_sync::atomic::AtomicBool;
use jetcell_sync::{Arc, Mutex};

use super::page_redo::versioned;
use crate::btree::before_image::DeferredBeforeImage;
use crate::cache::WriteLatch;
use crate::pages::Shape;
use crate::storage::DatabaseFile;
use crate::transaction::{Change, Transaction, Version};

/// What a page told about a versioned change when it was made.
pub(super) struct ReplayedVersion {
    pub key: Vec<u8>,
    pub key_len: usize,
    pub change: Change,
    /// Hangs on the page until its before-image is logged or it is settled.
    pub version: Option<Arc<Version>>,
    /// The node was removed later on.
    pub gone: bool,
}

/// Before-images of the changes made to one page.
#[derive(Default)]
pub(super) struct PendingBeforeImages {
    images: Vec<BeforeImage>,
}

struct BeforeImage {
    step: u32,
    node: NodeChange,
    transaction: Arc<Transaction>,
    key: Vec<u8>,
    key_len: usize,
    change: Change,
    gone: bool,
}

impl PendingBeforeImages {
    /// Notes what a change is about to hide, while the page still has it.
    pub fn note(
        &mut self,
        step: u32,
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
                of_node.for_each(|image| image.gone = image.transaction.committed().is_some());
            }
            return;
        }
        let Some(transaction) = transaction.filter(|_| versioned(node) && node.root.is_some()) else {
            return;
        };
        let (node, change) = match record {
            LogRecord::FlagDelete(_) => (*node, Change::FlagDelete),
            // Nothing takes back what is known to be committed.
            _ if transaction.committed().is_some() => return,
            LogRecord::Replace(_) => (*node, Change::Replace { before: stored.data.into() }),
            LogRecord::FlagInsertAndReplaceData(revive) => {
                let replaced = NodeChange { rceid: revive.replace_rceid, ..*node };
                (replaced, Change::Replace { before: stored.data.into() })
            }
            _ => return,
        };
        let (key, key_len) = bookmark();
        let transaction = transaction.clone();
        self.images.push(BeforeImage { step, node, transaction, key, key_len, change, gone: false });
    }

    /// Hangs them on the page, as they did when the changes were made first.
    pub fn hang(self, database: &Arc<DatabaseFile>, latch: &mut WriteLatch) -> Vec<(u32, ReplayedVersion)> {
        let page = latch.key().page;
        let hang = |image: BeforeImage| {
            let BeforeImage { step, node, transaction, key, key_len, change, gone } = image;
            let version = node.root.filter(|_| !gone).map(|root| {
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
                let shape = Shape { root, id: node.tree, kind };
                let undo = DeferredBeforeImage::new(database, shape, version.clone(), page);
                latch.defer_undo(Arc::new(undo));
                version
            });
            (step, ReplayedVersion { key, key_len, change, version, gone })
        };
        self.images.into_iter().map(hang).collect()
    }
}
