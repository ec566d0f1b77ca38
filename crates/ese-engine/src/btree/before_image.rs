//! Deferred undo information: the before-image of an uncommitted replace, and the key of a deleted node. It is logged
//! only if its page must be written before the transaction ends or before the node is removed. ESE: `LRUNDOINFO`.

use ese_format::log::record::{
    DatabaseIdInLog, LogRecord, NodeChange, PageChange, PageChangeFlags, UndoInfo, operation,
};
use ese_format::{DbTime, LogPosition, PageNumber};
use jetcell_sync::{Arc, Weak};

use crate::Result;
use crate::cache::DeferredUndo;
use crate::log::RecordBatch;
use crate::pages::TreeIdentity;
use crate::storage::DatabaseFile;
use crate::transaction::{SYSTEM_PROCID, Version, VersionChange};

/// Deferred undo information attached to a dirty frame until the page is written or the information is no longer
/// needed.
#[doc(alias = "LRUNDOINFO")]
pub(crate) struct DeferredBeforeImage {
    /// Weak, because a frame that is no longer in use can still own this value.
    file: Weak<DatabaseFile>,
    shape: TreeIdentity,
    version: Arc<Version>,
    page: PageNumber,
}

impl DeferredBeforeImage {
    pub fn new(
        file: &Arc<DatabaseFile>,
        shape: TreeIdentity,
        version: Arc<Version>,
        page: PageNumber,
    ) -> DeferredBeforeImage {
        DeferredBeforeImage { file: Arc::downgrade(file), shape, version, page }
    }
}

impl DeferredUndo for DeferredBeforeImage {
    fn can_log(&self) -> bool {
        self.file.upgrade().is_none_or(|file| !file.log.is_received())
    }

    fn log(&self) -> Result<Option<LogPosition>> {
        // After a split, two pages can have the same entry. The entry is logged only once.
        let mut logged = self.version.undo_logged.lock();
        if logged.is_some() {
            return Ok(*logged);
        }
        if let Some(end) = self.resolved_at() {
            return Ok(Some(end));
        }
        let Some(file) = self.file.upgrade() else { return Ok(None) };
        let (operation, before) = match &self.version.change {
            VersionChange::Replace { before } => (operation::REPLACE, &before[..]),
            VersionChange::FlagDelete => (operation::FLAG_DELETE, &[][..]),
            VersionChange::Insert | VersionChange::ReplaceUnknown => return Ok(None),
        };
        let transaction = &self.version.transaction;
        let mut info = UndoInfo {
            node: NodeChange {
                page: PageChange {
                    procid: transaction.procid,
                    database: DatabaseIdInLog(file.log_id),
                    page: self.page,
                    after: DbTime(0),
                    before: DbTime(0),
                    begin0: transaction.snapshot as u32,
                    level: self.version.level,
                    line: 0,
                    flags: self.shape.record_flags() | PageChangeFlags::VERSIONED,
                },
                rceid: self.version.id,
                root: Some(self.shape.root),
                tree: self.shape.id,
            },
            key: self.version.bookmark[..self.version.key_len].to_vec(),
            bookmark_data: self.version.bookmark[self.version.key_len..].to_vec(),
            operation,
            max_size: before.len() as i16,
            size_delta: 0,
            before: before.to_vec(),
        };
        let mut batch = RecordBatch::new();
        batch.push(&LogRecord::UndoInfo(info.clone()));
        let appended = file.log.append_with(batch.len(), true, |turn| {
            // No commit can happen between this check and the append. ESE would attribute an UndoInfo record after the
            // commit to the session's next transaction. Rolling that transaction back would then undo the committed
            // deletion.
            if !transaction.is_running() {
                info.node.page.procid = SYSTEM_PROCID;
                batch.clear();
                batch.push(&LogRecord::UndoInfo(info));
            }
            turn.append(&batch)
        })?;
        *logged = Some(appended.end);
        Ok(*logged)
    }

    fn resolved_at(&self) -> Option<LogPosition> {
        let gone = self.version.is_settled();
        // A deletion needs its undo information until the node is removed, because recovery must be able to find the
        // node. A database copy does not need it: there, redo removes the node. Keeping the information would prevent
        // the page from being evicted for a long time.
        let deletion = self.version.change == VersionChange::FlagDelete && self.can_log();
        let needed = self.version.transaction.is_running() || deletion;
        (gone || !needed).then(|| self.version.transaction.commit_end())
    }
}
