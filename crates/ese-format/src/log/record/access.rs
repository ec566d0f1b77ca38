//! Access to fields that many record types share.

use super::{DatabaseIdInLog, LogRecord, NodeChange, PageChange};
use crate::TreeId;

impl LogRecord {
    /// Returns the node changed by this record, if the record begins with a [`NodeChange`].
    pub fn node_change(&self) -> Option<&NodeChange> {
        Some(match self {
            LogRecord::Insert(record) => &record.node,
            LogRecord::FlagInsert(record) => &record.node,
            LogRecord::FlagInsertAndReplaceData(record) => &record.node,
            LogRecord::FlagDelete(record) => &record.node,
            LogRecord::Delete(record) => &record.node,
            LogRecord::Replace(record) | LogRecord::ReplaceD(record) => &record.node,
            LogRecord::UndoInfo(record) => &record.node,
            LogRecord::Undo(record) => &record.node,
            LogRecord::Delta(record) => &record.node,
            LogRecord::Delta64(record) => &record.node,
            LogRecord::SetExternalHeader(record) => &record.node,
            LogRecord::Scrub(record) => &record.node,
            LogRecord::EmptyTree(record) => &record.node,
            _ => return None,
        })
    }

    /// Returns the first page changed by this record. Also returns the page of an [`UndoInfo`](super::UndoInfo)
    /// record, which changes no page.
    pub fn page_change(&self) -> Option<&PageChange> {
        if let Some(node) = self.node_change() {
            return Some(&node.page);
        }
        Some(match self {
            LogRecord::Split2(record) => &record.change,
            LogRecord::Merge2(record) => &record.change,
            LogRecord::PageMove(record) => &record.change,
            LogRecord::CreateMultiExtentFdp(record) => &record.change,
            LogRecord::CreateSingleExtentFdp(record) => &record.change,
            LogRecord::ConvertFdp2(record) => &record.change,
            _ => return None,
        })
    }

    /// Like [`LogRecord::node_change`], but returns a mutable reference.
    pub fn node_change_mut(&mut self) -> Option<&mut NodeChange> {
        Some(match self {
            LogRecord::Insert(record) => &mut record.node,
            LogRecord::FlagInsert(record) => &mut record.node,
            LogRecord::FlagInsertAndReplaceData(record) => &mut record.node,
            LogRecord::FlagDelete(record) => &mut record.node,
            LogRecord::Delete(record) => &mut record.node,
            LogRecord::Replace(record) | LogRecord::ReplaceD(record) => &mut record.node,
            LogRecord::UndoInfo(record) => &mut record.node,
            LogRecord::Undo(record) => &mut record.node,
            LogRecord::Delta(record) => &mut record.node,
            LogRecord::Delta64(record) => &mut record.node,
            LogRecord::SetExternalHeader(record) => &mut record.node,
            LogRecord::Scrub(record) => &mut record.node,
            LogRecord::EmptyTree(record) => &mut record.node,
            _ => return None,
        })
    }

    /// Like [`LogRecord::page_change`], but returns a mutable reference.
    pub fn page_change_mut(&mut self) -> Option<&mut PageChange> {
        if self.node_change().is_some() {
            return self.node_change_mut().map(|node| &mut node.page);
        }
        Some(match self {
            LogRecord::Split2(record) => &mut record.change,
            LogRecord::Merge2(record) => &mut record.change,
            LogRecord::PageMove(record) => &mut record.change,
            LogRecord::CreateMultiExtentFdp(record) => &mut record.change,
            LogRecord::CreateSingleExtentFdp(record) => &mut record.change,
            LogRecord::ConvertFdp2(record) => &mut record.change,
            _ => return None,
        })
    }

    /// Returns the session that logged the record, if records of this type store the session. ESE: `procid`.
    #[doc(alias = "procid")]
    pub fn session(&self) -> Option<u16> {
        if let Some(change) = self.page_change() {
            return Some(change.procid);
        }
        Some(match self {
            LogRecord::Begin(record) => record.procid,
            LogRecord::Begin0(record) => record.procid,
            LogRecord::Commit(record) => record.procid,
            LogRecord::Commit0(record) => record.procid,
            LogRecord::Rollback(record) => record.procid,
            LogRecord::Refresh(record) => record.procid,
            LogRecord::MacroBegin(record)
            | LogRecord::MacroCommit(record)
            | LogRecord::MacroAbort(record) => record.procid,
            LogRecord::CommitCtx(record) => record.procid,
            LogRecord::CreateDb(record) => record.procid,
            LogRecord::CreateDbFinish(record) => record.procid,
            LogRecord::AttachDb(record) => record.procid,
            LogRecord::DetachDb(record) => record.procid,
            LogRecord::NewPage(record) => record.procid,
            LogRecord::RootPageMove(record) => record.procid,
            _ => return None,
        })
    }

    /// Returns the id of the tree to which the changed pages belong, if records of this type store it.
    pub fn tree(&self) -> Option<TreeId> {
        if let Some(node) = self.node_change() {
            return Some(node.tree);
        }
        Some(match self {
            LogRecord::Split2(record) => record.tree,
            LogRecord::Merge2(record) => record.tree,
            LogRecord::PageMove(record) => record.tree,
            LogRecord::RootPageMove(record) => record.tree,
            LogRecord::CreateMultiExtentFdp(record) => record.tree,
            LogRecord::CreateSingleExtentFdp(record) => record.tree,
            LogRecord::ConvertFdp2(record) => record.tree,
            LogRecord::NewPage(record) => record.tree,
            _ => return None,
        })
    }

    /// Returns the database to which the record applies, if records of this type store the database. ESE: `dbid`.
    #[doc(alias = "dbid")]
    pub fn database(&self) -> Option<DatabaseIdInLog> {
        if let Some(change) = self.page_change() {
            return Some(change.database);
        }
        Some(match self {
            LogRecord::CreateDb(record) => record.database,
            LogRecord::CreateDbFinish(record) => record.database,
            LogRecord::AttachDb(record) => record.database,
            LogRecord::DetachDb(record) => record.database,
            LogRecord::SignalAttachDb(record) => record.database,
            LogRecord::ReAttachDb(record) => record.database,
            LogRecord::ExtendDb(record) => record.database,
            LogRecord::ShrinkDb(record) | LogRecord::ShrinkDb2(record) => record.database,
            LogRecord::ShrinkDb3(record) => record.shrink.database,
            LogRecord::TrimDb(record) => record.database,
            LogRecord::SetDbVersion(record) => record.database,
            LogRecord::ScanCheck(record) => record.database,
            LogRecord::ScanCheck2(record) => record.database,
            LogRecord::PagePatchRequest(record) => record.database,
            LogRecord::NewPage(record) => record.database,
            LogRecord::RootPageMove(record) => record.database,
            LogRecord::ExtentFreed(record) => record.database,
            LogRecord::ExtentFreed2(record) => record.freed.database,
            LogRecord::FreeFdp(record) => record.database,
            LogRecord::MacroInfo2(record) => record.database,
            _ => return None,
        })
    }
}

/// Field descriptions for types that are not declared with `layout!`.
mod descriptions {
    use super::super::transaction::BeginLevels;
    use super::super::{CreateDb, DatabaseIdInLog, MacroInfo, NodeChange, Replace};
    use crate::Signature;
    use crate::fields::{Describe, FieldValue, Fields};
    use crate::layout::{BinaryLayout, Input, LayoutError};

    fn field<T: Describe>(input: &mut Input<'_>) -> Result<FieldValue, LayoutError> {
        T::describe(input)
    }

    impl Describe for BeginLevels {
        fn describe(input: &mut Input<'_>) -> Result<FieldValue, LayoutError> {
            let levels = BeginLevels::take(input)?;
            let number = |level: u8| FieldValue::Number(level.into());
            Ok(FieldValue::Group(vec![("from", number(levels.from())), ("count", number(levels.count()))]))
        }
    }

    impl Describe for Replace {
        fn describe(input: &mut Input<'_>) -> Result<FieldValue, LayoutError> {
            let mut fields: Fields = vec![("node", field::<NodeChange>(input)?)];
            let len = u16::take(input)?;
            fields.push(("wide_diff", FieldValue::Number(u64::from(len >> 15))));
            fields.push(("old_len", field::<u16>(input)?));
            fields.push(("new_len", field::<u16>(input)?));
            fields.push(("data", FieldValue::Bytes(input.bytes(usize::from(len & 0x7fff))?.to_vec())));
            Ok(FieldValue::Group(fields))
        }
    }

    impl Describe for CreateDb {
        fn describe(input: &mut Input<'_>) -> Result<FieldValue, LayoutError> {
            let mut fields: Fields = vec![
                ("procid", field::<u16>(input)?),
                ("database", field::<DatabaseIdInLog>(input)?),
                ("options", field::<u32>(input)?),
                ("max_pages", field::<u32>(input)?),
                ("signature", field::<Signature>(input)?),
            ];
            let (len, flags) = (u16::take(input)?, u8::take(input)?);
            fields.push(("flags", FieldValue::Number(flags.into())));
            if flags & CreateDb::HAS_VERSION != 0 {
                fields.push(("version", field::<u16>(input)?));
                fields.push(("update", field::<u16>(input)?));
            }
            fields.push(("path", FieldValue::Bytes(input.bytes(len.into())?.to_vec())));
            Ok(FieldValue::Group(fields))
        }
    }

    impl Describe for MacroInfo {
        fn describe(input: &mut Input<'_>) -> Result<FieldValue, LayoutError> {
            let info = MacroInfo::take(input)?;
            let pages = info.pages.iter().map(|page| FieldValue::Number((*page).into())).collect();
            Ok(FieldValue::Group(vec![
                ("database", FieldValue::Number(info.database.0.into())),
                ("pages", FieldValue::List(pages)),
            ]))
        }
    }
}
