//! How redo treats each type of log record. `docs/internals/formats/log-records.md` contains the same table.

use ese_format::log::record::LogRecord;

use crate::Result;
use crate::error::LogErrorKind;
use crate::log::{LogReader, PositionedRecord};

/// How redo handles a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RecordTreatment {
    /// Redo makes the changes that pages lack.
    Redone,
    /// Redo does nothing: the record describes transactions, the engine or the log, or is a hint.
    NoPageEffect,
    /// Redo cannot continue past the record, because later records may depend on it.
    Refused(&'static str),
    /// Only engines of earlier log formats write the record.
    Obsolete,
}

impl RecordTreatment {
    /// Returns the reason why redo cannot continue past the record.
    pub(super) fn refusal(self) -> Option<&'static str> {
        match self {
            RecordTreatment::Redone | RecordTreatment::NoPageEffect => None,
            RecordTreatment::Refused(why) => Some(why),
            RecordTreatment::Obsolete => Some(OBSOLETE),
        }
    }
}

/// Reason why redo refuses an obsolete record.
const OBSOLETE: &str = "has a type that engines do not write in this log format";

/// Type byte of `ExtendDb`.
const EXTEND_DB: u8 = 68;

/// Decodes a record and returns it if redo can continue after it.
///
/// # Errors
/// Returns [`Error::Log`](crate::Error::Log) with [`LogErrorKind::UnknownRecord`] if the record's type is unknown, and
/// with [`LogErrorKind::ObsoleteRecord`] or [`LogErrorKind::RefusedRecord`] if redo refuses it.
pub(in crate::recovery) fn redoable(reader: &LogReader, stored: &PositionedRecord) -> Result<LogRecord> {
    let (record, _) =
        LogRecord::decode(&stored.bytes).map_err(|error| reader.fault(stored.start, error.into()))?;
    match treatment(&record) {
        RecordTreatment::Obsolete => {
            Err(reader.fault(stored.start, LogErrorKind::ObsoleteRecord(record.name())))
        }
        RecordTreatment::Refused(why) => {
            Err(reader.fault(stored.start, LogErrorKind::RefusedRecord(record.name(), why)))
        }
        RecordTreatment::Redone | RecordTreatment::NoPageEffect => Ok(record),
    }
}

/// Returns how redo treats a record. There is no default case, so each new type must be classified.
pub(super) fn treatment(record: &LogRecord) -> RecordTreatment {
    match record {
        LogRecord::Insert(_)
        | LogRecord::FlagInsert(_)
        | LogRecord::FlagInsertAndReplaceData(_)
        | LogRecord::FlagDelete(_)
        | LogRecord::Replace(_)
        | LogRecord::Delete(_)
        | LogRecord::Undo(_)
        | LogRecord::SetExternalHeader(_)
        | LogRecord::EmptyTree(_)
        | LogRecord::Split2(_)
        | LogRecord::Merge2(_)
        | LogRecord::CreateMultiExtentFdp(_)
        | LogRecord::CreateSingleExtentFdp(_)
        | LogRecord::ConvertFdp2(_)
        | LogRecord::PageMove(_)
        | LogRecord::NewPage(_)
        | LogRecord::ReplaceD(_)
        | LogRecord::Delta(_)
        | LogRecord::Delta64(_)
        | LogRecord::Scrub(_)
        | LogRecord::ExtendDb(_)
        | LogRecord::ShrinkDb(_)
        | LogRecord::ShrinkDb2(_)
        | LogRecord::ShrinkDb3(_)
        | LogRecord::TrimDb(_) => RecordTreatment::Redone,
        LogRecord::Nop
        | LogRecord::Nop2(_)
        | LogRecord::ShutDownMark
        | LogRecord::Begin(_)
        | LogRecord::Begin0(_)
        | LogRecord::Commit(_)
        | LogRecord::Commit0(_)
        | LogRecord::Rollback(_)
        | LogRecord::Refresh(_)
        | LogRecord::MacroBegin(_)
        | LogRecord::MacroCommit(_)
        | LogRecord::MacroAbort(_)
        // Recovery itself handles records about whole databases.
        | LogRecord::CreateDb(_)
        | LogRecord::CreateDbFinish(_)
        | LogRecord::AttachDb(_)
        | LogRecord::DetachDb(_)
        | LogRecord::SetDbVersion(_)
        | LogRecord::Trace(_)
        | LogRecord::UndoInfo(_)
        | LogRecord::Init2(_)
        | LogRecord::Term2(_)
        | LogRecord::RecoveryUndo2(_)
        | LogRecord::RecoveryQuit2(_)
        | LogRecord::RecoveryQuitKeepAttachments(_)
        | LogRecord::Backup2(_)
        | LogRecord::ForceLogRollover(_)
        | LogRecord::PagePatchRequest(_)
        | LogRecord::FragmentBegin(_)
        | LogRecord::Fragment(_)
        | LogRecord::SignalAttachDb(_)
        | LogRecord::ReAttachDb(_)
        | LogRecord::ScanCheck(_)
        | LogRecord::ScanCheck2(_)
        | LogRecord::ExtentFreed(_)
        | LogRecord::ExtentFreed2(_)
        | LogRecord::MacroInfo(_)
        | LogRecord::MacroInfo2(_)
        | LogRecord::CommitCtx(_)
        | LogRecord::FreeFdp(_)
        // The other records of its macro move the pages.
        | LogRecord::RootPageMove(_) => RecordTreatment::NoPageEffect,
        // File growth must not be missed. ESE skips other unknown records of this family.
        LogRecord::Ignored(opaque) if opaque.kind == EXTEND_DB => RecordTreatment::Refused("has an unknown layout"),
        LogRecord::Ignored(_) => RecordTreatment::NoPageEffect,
        // Debugging aids that ESE skips: JetOp and ForceWriteLog.
        LogRecord::Obsolete(opaque) if matches!(opaque.kind, 21 | 57) => RecordTreatment::NoPageEffect,
        LogRecord::Obsolete(_) => RecordTreatment::Obsolete,
    }
}
