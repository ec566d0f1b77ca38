//! Log records: one enum variant per record type.
//!
//! A record consists of a type byte, a fixed part, and payloads whose lengths are stored in the fixed part. The log
//! stores no record lengths, so a reader must know every type. Only types 67..=75 and 82..=91 have a length (`u32`
//! behind the type byte) and can be skipped if unknown.
//!
//! Invariants: `encode` writes exactly the bytes that `decode` read, and `record_len` returns their number. Of types
//! that no engine of the segment format (log version 8) writes any more, only the length is known ([`Opaque`]).

mod access;
#[cfg(test)]
mod corpus_tests;
mod database;
mod diff;
mod group;
mod image;
mod node;
mod prefix;
mod structure;
#[cfg(test)]
mod tests;
mod transaction;

pub use crate::DatabaseIdInLog;
pub use crate::path::{decode_path, encode_path};
pub use database::*;
pub use diff::DiffError;
pub use image::ImageError;
pub use node::{
    Delete, Delta, Delta64, FlagDelete, FlagInsert, FlagInsertAndReplaceData, Insert, Replace, Scrub,
    SetExternalHeader, Undo, UndoInfo, operation,
};
pub use prefix::*;
pub use structure::*;
pub use transaction::*;

use crate::fields::{self, FieldValue, Fields};
use crate::layout::{Input, Layout, LayoutError};

/// Reason for which bytes cannot be decoded as a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// No bytes.
    #[error("no record: the input is empty")]
    Empty,
    /// A type that no engine of this log format writes.
    #[error("unknown log record type {kind}")]
    UnknownKind {
        /// The type.
        kind: u8,
    },
    /// The input ends inside the record.
    #[error("log record type {kind} needs {needed} bytes, but only {available} are available")]
    Truncated {
        /// The type.
        kind: u8,
        /// Number of bytes that are needed at least.
        needed: usize,
        /// Number of bytes that are available.
        available: usize,
    },
    /// A field has an invalid value.
    #[error("log record type {kind}: invalid {what}")]
    Invalid {
        /// The type.
        kind: u8,
        /// The field.
        what: &'static str,
    },
}

impl RecordError {
    /// `before` is the number of bytes of the record before the part that was decoded.
    fn of(kind: u8, error: LayoutError, before: usize) -> RecordError {
        match error {
            LayoutError::Truncated { needed, available } => RecordError::Truncated {
                kind,
                needed: needed.saturating_add(before),
                available: available + before,
            },
            LayoutError::Invalid(what) => RecordError::Invalid { kind, what },
        }
    }
}

/// A record that is not decoded. Only its length is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opaque {
    /// Its type.
    pub kind: u8,
    /// The bytes after the type byte. In an ignorable record, the bytes after the length.
    pub body: Vec<u8>,
}

/// Length of the type byte and the length field of ignorable records.
const IGNORABLE_PREFIX: usize = 5;

const fn is_ignorable(kind: u8) -> bool {
    matches!(kind, 67..=75 | 82..=91)
}

/// Types without a variant: length of the fixed part after the type byte, and the offset in it of a `u16` payload
/// length.
const fn opaque_shape(kind: u8) -> Option<(usize, Option<usize>)> {
    Some(match kind {
        1 => (567, None),                  // Init
        2 | 18 => (17, None),              // Term, RecoveryQuit
        3 => (8, None),                    // MS
        4 | 17 => (0, None),               // End, RecoveryUndo
        19 | 20 | 45 | 59 => (2, Some(0)), // FullBackup, IncBackup, ExtRestore, ExtRestore2
        21 => (3, None),                   // JetOp
        26 => (59, None),                  // ConvertFDP without bitmap
        46 => (4, Some(2)),                // Backup
        53 => (7, None),                   // BeginDT
        57 => (2, None),                   // ForceWriteLog
        _ => return None,
    })
}

macro_rules! records {
    (
        bare { $( $(#[$bare_meta:meta])* $bare:ident = $bare_kind:literal, )* }
        plain { $( $(#[$meta:meta])* $variant:ident($body:ty) = $kind:literal, )* }
        ignorable { $( $(#[$ign_meta:meta])* $ign_variant:ident($ign_body:ty) = $ign_kind:literal, )* }
    ) => {
        /// A log record. The number in the description of a variant is its type byte.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum LogRecord {
            $( $(#[$bare_meta])* $bare, )*
            $( $(#[$meta])* $variant($body), )*
            $( $(#[$ign_meta])* $ign_variant($ign_body), )*
            /// An ignorable type that this crate does not know, or one with an unexpected length.
            Ignored(Opaque),
            /// A type that no engine of this log format writes any more.
            Obsolete(Opaque),
        }

        impl LogRecord {
            /// Type byte. ESE: `lrtyp`.
            #[doc(alias = "lrtyp")]
            pub fn kind(&self) -> u8 {
                match self {
                    $( LogRecord::$bare => $bare_kind, )*
                    $( LogRecord::$variant(_) => $kind, )*
                    $( LogRecord::$ign_variant(_) => $ign_kind, )*
                    LogRecord::Ignored(opaque) | LogRecord::Obsolete(opaque) => opaque.kind,
                }
            }

            /// Name of the type.
            pub fn name(&self) -> &'static str {
                match self {
                    $( LogRecord::$bare => stringify!($bare), )*
                    $( LogRecord::$variant(_) => stringify!($variant), )*
                    $( LogRecord::$ign_variant(_) => stringify!($ign_variant), )*
                    LogRecord::Ignored(_) => "Ignored",
                    LogRecord::Obsolete(_) => "Obsolete",
                }
            }

            /// Appends the bytes of the record.
            ///
            /// # Panics
            /// If a payload is longer than its length field can express (65535 bytes; 32767 for replaced data).
            pub fn encode(&self, out: &mut Vec<u8>) {
                out.push(self.kind());
                match self {
                    $( LogRecord::$bare => {} )*
                    $( LogRecord::$variant(body) => body.put(out), )*
                    $( LogRecord::$ign_variant(body) => put_sized(out, |out| body.put(out)), )*
                    LogRecord::Ignored(opaque) => put_sized(out, |out| opaque.body.put(out)),
                    LogRecord::Obsolete(opaque) => opaque.body.put(out),
                }
            }

            fn decode_plain(kind: u8, input: &mut Input<'_>) -> Result<LogRecord, LayoutError> {
                match kind {
                    $( $bare_kind => Ok(LogRecord::$bare), )*
                    $( $kind => <$body>::take(input).map(LogRecord::$variant), )*
                    _ => Ok(LogRecord::Obsolete(Opaque { kind, body: input.rest().to_vec() })),
                }
            }

            fn describe_body(kind: u8, body: &[u8]) -> Result<Fields, LayoutError> {
                match kind {
                    $( $bare_kind => Ok(Fields::new()), )*
                    $( $kind => fields::of::<$body>(body), )*
                    $( $ign_kind => fields::of::<$ign_body>(body), )*
                    _ => Ok(vec![("body", FieldValue::Bytes(body.to_vec()))]),
                }
            }

            /// `None` if the payload does not have the layout of the type.
            fn decode_ignorable(kind: u8, payload: &[u8]) -> Option<LogRecord> {
                let input = &mut Input::new(payload);
                let record = match kind {
                    $( $ign_kind => LogRecord::$ign_variant(<$ign_body>::take(input).ok()?), )*
                    _ => return None,
                };
                input.is_empty().then_some(record)
            }
        }

        /// Type bytes, by the names of the records.
        #[allow(non_upper_case_globals, missing_docs)]
        pub mod kinds {
            $( pub const $variant: u8 = $kind; )*
        }

        /// All types that have a name.
        const NAMES: &[(&str, u8)] = &[
            $( (stringify!($bare), $bare_kind), )*
            $( (stringify!($variant), $kind), )*
            $( (stringify!($ign_variant), $ign_kind), )*
        ];

        /// Length after the type byte.
        fn body_len(kind: u8, input: &mut Input<'_>) -> Option<Result<usize, LayoutError>> {
            Some(match kind {
                $( $bare_kind => Ok(0), )*
                $( $kind => <$body>::payload_len(input).map(|payload| payload.saturating_add(<$body>::FIXED)), )*
                _ => {
                    let (fixed, at) = opaque_shape(kind)?;
                    match at {
                        None => Ok(fixed),
                        Some(at) => input.bytes(at).and_then(|_| u16::take(input)).map(|len| fixed + usize::from(len)),
                    }
                }
            })
        }
    };
}

records! {
    bare {
        /// 0: one byte of filler.
        Nop = 0,
        /// 23: nothing more is logged before the engine stops.
        ShutDownMark = 23,
    }
    plain {
        /// 5: nested begin.
        Begin(Begin) = 5,
        /// 6: nested commit.
        Commit(Commit) = 6,
        /// 7: rollback.
        Rollback(Rollback) = 7,
        /// 8: outermost begin.
        Begin0(Begin0) = 8,
        /// 9: outermost commit; the transaction is durable when this record is.
        Commit0(Commit0) = 9,
        /// 10: a transaction without changes takes a new snapshot.
        Refresh(Refresh) = 10,
        /// 11: begin of a group of records that take effect together (a macro).
        MacroBegin(Macro) = 11,
        /// 12: end of a macro; its records take effect.
        MacroCommit(Macro) = 12,
        /// 13: end of a macro; its records have no effect.
        MacroAbort(Macro) = 13,
        /// 14: database created.
        CreateDb(CreateDb) = 14,
        /// 15: database attached.
        AttachDb(AttachDb) = 15,
        /// 16: database detached.
        DetachDb(DetachDb) = 16,
        /// 22: text.
        Trace(Trace) = 22,
        /// 24: tree with space trees created.
        CreateMultiExtentFdp(CreateMultiExtentFdp) = 24,
        /// 25: tree in one extent created.
        CreateSingleExtentFdp(CreateSingleExtentFdp) = 25,
        /// 29: node inserted.
        Insert(Insert) = 29,
        /// 30: deleted node inserted again.
        FlagInsert(FlagInsert) = 30,
        /// 31: deleted node inserted again with other data.
        FlagInsertAndReplaceData(FlagInsertAndReplaceData) = 31,
        /// 32: node flagged deleted.
        FlagDelete(FlagDelete) = 32,
        /// 33: data replaced, new data in full.
        Replace(Replace) = 33,
        /// 34: data replaced, differences only.
        ReplaceD(Replace) = 34,
        /// 35: node removed.
        Delete(Delete) = 35,
        /// 36: before-image of an uncommitted change.
        UndoInfo(UndoInfo) = 36,
        /// 37: counter changed.
        Delta(Delta) = 37,
        /// 38: external header replaced.
        SetExternalHeader(SetExternalHeader) = 38,
        /// 39: one change undone.
        Undo(Undo) = 39,
        /// 48: pages of a tree freed.
        EmptyTree(EmptyTree) = 48,
        /// 49: engine started.
        Init2(Init) = 49,
        /// 50: engine stopped.
        Term2(Termination) = 50,
        /// 51: recovery begins its undo phase.
        RecoveryUndo2(RecoveryUndo) = 51,
        /// 52: recovery ended.
        RecoveryQuit2(Termination) = 52,
        /// 58: tree gets space trees.
        ConvertFdp2(ConvertFdp) = 58,
        /// 60: backup step.
        Backup2(Backup) = 60,
        /// 61: a new generation was requested.
        ForceLogRollover(Trace) = 61,
        /// 62: page split.
        Split2(Split) = 62,
        /// 63: pages merged.
        Merge2(Merge) = 63,
        /// 64: deleted data overwritten.
        Scrub(Scrub) = 64,
        /// 65: page moved.
        PageMove(PageMove) = 65,
        /// 66: a valid copy of a page was requested.
        PagePatchRequest(PagePatchRequest) = 66,
        /// 76: first piece of a long record.
        FragmentBegin(FragmentBegin) = 76,
        /// 77: next piece of a long record.
        Fragment(Fragment) = 77,
        /// 78: file shrunk.
        ShrinkDb(ShrinkDb) = 78,
        /// 79: creation complete.
        CreateDbFinish(CreateDbFinish) = 79,
        /// 80: recovery ended and databases stay attached.
        RecoveryQuitKeepAttachments(Termination) = 80,
        /// 81: holes punched.
        TrimDb(TrimDb) = 81,
        /// 92: format raised.
        SetDbVersion(SetDbVersion) = 92,
        /// 93: 64-bit counter changed.
        Delta64(Delta64) = 93,
        /// 94: file shrunk, in newer formats.
        ShrinkDb2(ShrinkDb) = 94,
        /// 95: page formatted.
        NewPage(NewPage) = 95,
        /// 96: tree root moved.
        RootPageMove(RootPageMove) = 96,
        /// 97: database attached, for other readers.
        SignalAttachDb(SignalAttachDb) = 97,
        /// 98: scan result.
        ScanCheck2(ScanCheck2) = 98,
        /// 99: file shrunk, with dbtime.
        ShrinkDb3(ShrinkDb3) = 99,
        /// 100: space of a deleted tree freed.
        ExtentFreed(ExtentFreed) = 100,
        /// 101: space of a deleted tree freed, with dbtime.
        ExtentFreed2(ExtentFreed2) = 101,
    }
    ignorable {
        /// 67: pages of a macro, older form: page numbers of 4 bytes.
        MacroInfo(Vec<u8>) = 67,
        /// 68: file grown.
        ExtendDb(ExtendDb) = 68,
        /// 69: client's text for a commit.
        CommitCtx(CommitContext) = 69,
        /// 70: scan result, older form.
        ScanCheck(ScanCheck) = 70,
        /// 71: filler.
        Nop2(Vec<u8>) = 71,
        /// 72: database attached again after recovery kept it.
        ReAttachDb(ReAttachDb) = 72,
        /// 73: pages of a macro.
        MacroInfo2(MacroInfo) = 73,
        /// 74: tree deleted.
        FreeFdp(FreeFdp) = 74,
    }
}

/// Writes a length and a body.
fn put_sized(out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = Vec::new();
    body(&mut bytes);
    <u32 as crate::layout::LengthField>::put_len(bytes.len(), out);
    out.append(&mut bytes);
}

impl LogRecord {
    /// Decodes the record at the start of `bytes`. Returns it and its length.
    pub fn decode(bytes: &[u8]) -> Result<(LogRecord, usize), RecordError> {
        let len = record_len(bytes)?;
        let (&kind, _) = bytes.split_first().ok_or(RecordError::Empty)?;
        let record =
            bytes.get(..len).ok_or(RecordError::Truncated { kind, needed: len, available: bytes.len() })?;
        if is_ignorable(kind) {
            let body = record.get(IGNORABLE_PREFIX..).unwrap_or_default();
            let known = LogRecord::decode_ignorable(kind, body);
            return Ok((
                known.unwrap_or_else(|| LogRecord::Ignored(Opaque { kind, body: body.to_vec() })),
                len,
            ));
        }
        let input = &mut Input::new(record.get(1..).unwrap_or_default());
        let decoded =
            LogRecord::decode_plain(kind, input).map_err(|error| RecordError::of(kind, error, 1))?;
        debug_assert_eq!(input.consumed() + 1, len, "type {kind}");
        Ok((decoded, len))
    }

    /// The fields of the record in `bytes`, in file order. See [`LogRecord::decode`] for its type.
    pub fn fields(bytes: &[u8]) -> Result<Fields, RecordError> {
        let (&kind, body) = bytes.split_first().ok_or(RecordError::Empty)?;
        let prefix = if is_ignorable(kind) { IGNORABLE_PREFIX } else { 1 };
        let body = body.get(prefix - 1..).unwrap_or_default();
        LogRecord::describe_body(kind, body).or_else(|error| match is_ignorable(kind) {
            true => Ok(vec![("body", FieldValue::Bytes(body.to_vec()))]),
            false => Err(RecordError::of(kind, error, prefix)),
        })
    }

    /// The type byte of the record type with this name. Case is ignored.
    pub fn kind_named(name: &str) -> Option<u8> {
        NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, kind)| *kind)
    }

    /// The bytes of the record.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode(&mut out);
        out
    }

    /// Filler of exactly `len` bytes, for the unused rest of a segment. For less than 5 bytes use [`LogRecord::Nop`].
    pub fn filler(len: usize) -> Option<LogRecord> {
        len.checked_sub(IGNORABLE_PREFIX).map(|rest| LogRecord::Nop2(vec![0; rest]))
    }
}

/// Length of the record at the start of `bytes`. Reads the fixed part only; the payload may be missing.
pub fn record_len(bytes: &[u8]) -> Result<usize, RecordError> {
    let (&kind, rest) = bytes.split_first().ok_or(RecordError::Empty)?;
    let input = &mut Input::new(rest);
    if is_ignorable(kind) {
        let len = u32::take(input).map_err(|error| RecordError::of(kind, error, 1))?;
        return Ok(IGNORABLE_PREFIX.saturating_add(len as usize));
    }
    let len = body_len(kind, input).ok_or(RecordError::UnknownKind { kind })?;
    len.map(|len| len.saturating_add(1)).map_err(|error| RecordError::of(kind, error, 1))
}
