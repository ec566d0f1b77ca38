//! Log records, with one enum variant per record type.
//!
//! A record consists of a type byte, a fixed part, and payloads whose lengths are stored in the fixed part. The log
//! does not store record lengths, so a reader must know every type. Only types 67..=75 and 82..=91 have a length (a
//! `u32` after the type byte) and can be skipped if they are unknown.
//!
//! Invariants: `encode` writes exactly the bytes that `decode` read, and `record_len` returns their number. Some
//! types are no longer written by engines that use the segment format (log version 8). For these types, only the
//! length is known ([`Opaque`]).

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
use crate::layout::{BinaryLayout, Input, LayoutError};

/// Error returned when bytes cannot be decoded as a log record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogRecordError {
    /// The input is empty.
    #[error("the input is empty and does not contain a record")]
    Empty,
    /// No engine that uses this log format writes records of this type.
    #[error("unknown log record type {kind}")]
    UnknownKind {
        /// Type byte of the record.
        kind: u8,
    },
    /// The input ends inside the record.
    #[error("log record type {kind} needs {needed} bytes, but only {available} are available")]
    Truncated {
        /// Type byte of the record.
        kind: u8,
        /// Minimum number of bytes needed.
        needed: usize,
        /// Number of bytes available.
        available: usize,
    },
    /// A field has an invalid value.
    #[error("log record type {kind}: invalid {what}")]
    Invalid {
        /// Type byte of the record.
        kind: u8,
        /// Name of the field.
        what: &'static str,
    },
}

impl LogRecordError {
    /// Converts a layout error. `before` is the number of record bytes that precede the decoded part.
    fn from_layout_error(kind: u8, error: LayoutError, before: usize) -> LogRecordError {
        match error {
            LayoutError::Truncated { needed, available } => LogRecordError::Truncated {
                kind,
                needed: needed.saturating_add(before),
                available: available + before,
            },
            LayoutError::Invalid(what) => LogRecordError::Invalid { kind, what },
        }
    }
}

/// A log record that is not decoded. Only its length is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opaque {
    /// Type byte of the record.
    pub kind: u8,
    /// Bytes after the type byte or, in an ignorable record, after the length field.
    pub body: Vec<u8>,
}

/// Combined length of the type byte and the length field in an ignorable record.
const IGNORABLE_PREFIX: usize = 5;

const fn is_ignorable(kind: u8) -> bool {
    matches!(kind, 67..=75 | 82..=91)
}

/// Returns the layout of a type that has no variant: the length of its fixed part after the type byte, and the offset
/// of a `u16` payload length within that part.
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
        /// A log record. The documentation of each variant starts with its type byte.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum LogRecord {
            $( $(#[$bare_meta])* $bare, )*
            $( $(#[$meta])* $variant($body), )*
            $( $(#[$ign_meta])* $ign_variant($ign_body), )*
            /// A record of an ignorable type that this crate does not know, or whose payload does not match the
            /// layout of its type.
            Ignored(Opaque),
            /// A record of a type that engines no longer write in this log format.
            Obsolete(Opaque),
        }

        impl LogRecord {
            /// Returns the type byte. ESE: `lrtyp`.
            #[doc(alias = "lrtyp")]
            pub fn kind(&self) -> u8 {
                match self {
                    $( LogRecord::$bare => $bare_kind, )*
                    $( LogRecord::$variant(_) => $kind, )*
                    $( LogRecord::$ign_variant(_) => $ign_kind, )*
                    LogRecord::Ignored(opaque) | LogRecord::Obsolete(opaque) => opaque.kind,
                }
            }

            /// Returns the name of the type.
            pub fn name(&self) -> &'static str {
                match self {
                    $( LogRecord::$bare => stringify!($bare), )*
                    $( LogRecord::$variant(_) => stringify!($variant), )*
                    $( LogRecord::$ign_variant(_) => stringify!($ign_variant), )*
                    LogRecord::Ignored(_) => "Ignored",
                    LogRecord::Obsolete(_) => "Obsolete",
                }
            }

            /// Appends the encoded record.
            ///
            /// # Panics
            /// Panics if a payload is too long for its length field (65535 bytes; 32767 for replaced data).
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
                    $( $kind => fields::describe_fields::<$body>(body), )*
                    $( $ign_kind => fields::describe_fields::<$ign_body>(body), )*
                    _ => Ok(vec![("body", FieldValue::Bytes(body.to_vec()))]),
                }
            }

            /// Decodes an ignorable record. Returns `None` if the payload does not match the type's layout.
            fn decode_ignorable(kind: u8, payload: &[u8]) -> Option<LogRecord> {
                let input = &mut Input::new(payload);
                let record = match kind {
                    $( $ign_kind => LogRecord::$ign_variant(<$ign_body>::take(input).ok()?), )*
                    _ => return None,
                };
                input.is_empty().then_some(record)
            }
        }

        /// Type byte constants, named after the records.
        #[allow(non_upper_case_globals, missing_docs)]
        pub mod kinds {
            $( pub const $variant: u8 = $kind; )*
        }

        /// Names and type bytes of all named types.
        const NAMES: &[(&str, u8)] = &[
            $( (stringify!($bare), $bare_kind), )*
            $( (stringify!($variant), $kind), )*
            $( (stringify!($ign_variant), $ign_kind), )*
        ];

        /// Returns the length of the record after its type byte.
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
        /// Type 0: one filler byte.
        Nop = 0,
        /// Type 23: end of logging. Nothing more is logged before the engine stops.
        ShutDownMark = 23,
    }
    plain {
        /// Type 5: start of a nested transaction.
        Begin(Begin) = 5,
        /// Type 6: commit of a nested transaction.
        Commit(Commit) = 6,
        /// Type 7: rollback of a transaction.
        Rollback(Rollback) = 7,
        /// Type 8: start of an outermost transaction.
        Begin0(Begin0) = 8,
        /// Type 9: commit of an outermost transaction. The transaction is durable when this record is durable.
        Commit0(Commit0) = 9,
        /// Type 10: new snapshot for a transaction that has made no changes.
        Refresh(Refresh) = 10,
        /// Type 11: start of a group of records that take effect together (a macro).
        MacroBegin(Macro) = 11,
        /// Type 12: end of a macro whose records take effect.
        MacroCommit(Macro) = 12,
        /// Type 13: end of a macro whose records do not take effect.
        MacroAbort(Macro) = 13,
        /// Type 14: creation of a database.
        CreateDb(CreateDb) = 14,
        /// Type 15: attachment of a database.
        AttachDb(AttachDb) = 15,
        /// Type 16: detachment of a database.
        DetachDb(DetachDb) = 16,
        /// Type 22: message in the log.
        Trace(Trace) = 22,
        /// Type 24: creation of a tree with space trees.
        CreateMultiExtentFdp(CreateMultiExtentFdp) = 24,
        /// Type 25: creation of a tree in a single extent.
        CreateSingleExtentFdp(CreateSingleExtentFdp) = 25,
        /// Type 29: insertion of a node.
        Insert(Insert) = 29,
        /// Type 30: reinsertion of a deleted node.
        FlagInsert(FlagInsert) = 30,
        /// Type 31: reinsertion of a deleted node with different data.
        FlagInsertAndReplaceData(FlagInsertAndReplaceData) = 31,
        /// Type 32: marking a node as deleted.
        FlagDelete(FlagDelete) = 32,
        /// Type 33: replacement of a node's data. The record contains all of the new data.
        Replace(Replace) = 33,
        /// Type 34: replacement of a node's data. The record contains only the differences.
        ReplaceD(Replace) = 34,
        /// Type 35: removal of a node.
        Delete(Delete) = 35,
        /// Type 36: before-image of an uncommitted change.
        UndoInfo(UndoInfo) = 36,
        /// Type 37: change to a 32-bit counter.
        Delta(Delta) = 37,
        /// Type 38: replacement of a page's external header.
        SetExternalHeader(SetExternalHeader) = 38,
        /// Type 39: rollback of one change.
        Undo(Undo) = 39,
        /// Type 48: release of a tree's pages.
        EmptyTree(EmptyTree) = 48,
        /// Type 49: start of the engine.
        Init2(Init) = 49,
        /// Type 50: stop of the engine.
        Term2(Termination) = 50,
        /// Type 51: start of the undo phase of recovery.
        RecoveryUndo2(RecoveryUndo) = 51,
        /// Type 52: end of recovery.
        RecoveryQuit2(Termination) = 52,
        /// Type 58: conversion of a tree to one with space trees.
        ConvertFdp2(ConvertFdp) = 58,
        /// Type 60: step of a backup.
        Backup2(BackupRecord) = 60,
        /// Type 61: request for a new generation.
        ForceLogRollover(Trace) = 61,
        /// Type 62: page split.
        Split2(Split) = 62,
        /// Type 63: page merge.
        Merge2(Merge) = 63,
        /// Type 64: overwriting of deleted data.
        Scrub(Scrub) = 64,
        /// Type 65: page move.
        PageMove(PageMove) = 65,
        /// Type 66: request for a valid copy of a page.
        PagePatchRequest(PagePatchRequest) = 66,
        /// Type 76: first fragment of a long record.
        FragmentBegin(FragmentBegin) = 76,
        /// Type 77: subsequent fragment of a long record.
        Fragment(Fragment) = 77,
        /// Type 78: shrink of the database file.
        ShrinkDb(ShrinkDb) = 78,
        /// Type 79: end of a database creation.
        CreateDbFinish(CreateDbFinish) = 79,
        /// Type 80: end of a recovery that leaves databases attached.
        RecoveryQuitKeepAttachments(Termination) = 80,
        /// Type 81: return of free pages to the file system (hole punching).
        TrimDb(TrimDb) = 81,
        /// Type 92: upgrade of a database's format version.
        SetDbVersion(SetDbVersion) = 92,
        /// Type 93: change to a 64-bit counter.
        Delta64(Delta64) = 93,
        /// Type 94: shrink of the database file, in newer formats.
        ShrinkDb2(ShrinkDb) = 94,
        /// Type 95: formatting of a new page.
        NewPage(NewPage) = 95,
        /// Type 96: move of a tree's root.
        RootPageMove(RootPageMove) = 96,
        /// Type 97: signal to other readers of the log that a database is attached.
        SignalAttachDb(SignalAttachDb) = 97,
        /// Type 98: result of scanning a page.
        ScanCheck2(ScanCheck2) = 98,
        /// Type 99: shrink of the database file, with dbtime.
        ShrinkDb3(ShrinkDb3) = 99,
        /// Type 100: release of a deleted tree's space.
        ExtentFreed(ExtentFreed) = 100,
        /// Type 101: release of a deleted tree's space, with dbtime.
        ExtentFreed2(ExtentFreed2) = 101,
    }
    ignorable {
        /// Type 67: pages changed by a macro, in the older form with 4-byte page numbers.
        MacroInfo(Vec<u8>) = 67,
        /// Type 68: extension of the database file.
        ExtendDb(ExtendDb) = 68,
        /// Type 69: client data logged with a commit.
        CommitCtx(CommitContext) = 69,
        /// Type 70: result of scanning a page, in the older form.
        ScanCheck(ScanCheck) = 70,
        /// Type 71: filler.
        Nop2(Vec<u8>) = 71,
        /// Type 72: reattachment of a database that recovery left attached.
        ReAttachDb(ReAttachDb) = 72,
        /// Type 73: pages changed by a macro.
        MacroInfo2(MacroInfo) = 73,
        /// Type 74: deletion of a tree.
        FreeFdp(FreeFdp) = 74,
    }
}

/// Writes a length followed by a body.
fn put_sized(out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = Vec::new();
    body(&mut bytes);
    <u32 as crate::layout::LengthField>::put_len(bytes.len(), out);
    out.append(&mut bytes);
}

impl LogRecord {
    /// Decodes the record at the start of `bytes`. Returns the record and its length.
    pub fn decode(bytes: &[u8]) -> Result<(LogRecord, usize), LogRecordError> {
        let len = record_len(bytes)?;
        let (&kind, _) = bytes.split_first().ok_or(LogRecordError::Empty)?;
        let record = bytes.get(..len).ok_or(LogRecordError::Truncated {
            kind,
            needed: len,
            available: bytes.len(),
        })?;
        if is_ignorable(kind) {
            let body = record.get(IGNORABLE_PREFIX..).unwrap_or_default();
            let known = LogRecord::decode_ignorable(kind, body);
            return Ok((
                known.unwrap_or_else(|| LogRecord::Ignored(Opaque { kind, body: body.to_vec() })),
                len,
            ));
        }
        let input = &mut Input::new(record.get(1..).unwrap_or_default());
        let decoded = LogRecord::decode_plain(kind, input)
            .map_err(|error| LogRecordError::from_layout_error(kind, error, 1))?;
        debug_assert_eq!(input.consumed() + 1, len, "type {kind}");
        Ok((decoded, len))
    }

    /// Returns the fields of the record in `bytes`, in file order. The record's type is not included; see
    /// [`LogRecord::decode`].
    pub fn fields(bytes: &[u8]) -> Result<Fields, LogRecordError> {
        let (&kind, body) = bytes.split_first().ok_or(LogRecordError::Empty)?;
        let prefix = if is_ignorable(kind) { IGNORABLE_PREFIX } else { 1 };
        let body = body.get(prefix - 1..).unwrap_or_default();
        LogRecord::describe_body(kind, body).or_else(|error| {
            if is_ignorable(kind) {
                Ok(vec![("body", FieldValue::Bytes(body.to_vec()))])
            } else {
                Err(LogRecordError::from_layout_error(kind, error, prefix))
            }
        })
    }

    /// Returns the type byte for the record type with the given name, ignoring case.
    pub fn kind_named(name: &str) -> Option<u8> {
        NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, kind)| *kind)
    }

    /// Encodes the record.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode(&mut out);
        out
    }

    /// Creates a filler record of exactly `len` bytes, for the unused part of a segment.
    ///
    /// If `len` is less than 5, use [`LogRecord::Nop`] instead.
    pub fn filler(len: usize) -> Option<LogRecord> {
        len.checked_sub(IGNORABLE_PREFIX).map(|rest| LogRecord::Nop2(vec![0; rest]))
    }
}

/// Returns the length of the record at the start of `bytes`. Reads only the fixed part, so the payload may be
/// missing.
pub fn record_len(bytes: &[u8]) -> Result<usize, LogRecordError> {
    let (&kind, rest) = bytes.split_first().ok_or(LogRecordError::Empty)?;
    let input = &mut Input::new(rest);
    if is_ignorable(kind) {
        let len = u32::take(input).map_err(|error| LogRecordError::from_layout_error(kind, error, 1))?;
        return Ok(IGNORABLE_PREFIX.saturating_add(len as usize));
    }
    let len = body_len(kind, input).ok_or(LogRecordError::UnknownKind { kind })?;
    len.map(|len| len.saturating_add(1)).map_err(|error| LogRecordError::from_layout_error(kind, error, 1))
}
