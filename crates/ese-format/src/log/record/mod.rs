//! Log records: one enum variant per record type.
//!
//! A record is a type byte, a fixed part, and payloads whose lengths stand in the fixed part. The stream has no
//! record lengths of its own, so a reader must know every type; only types 67..=75 and 82..=91 carry a length
//! (`u32` behind the type byte) and can be skipped unknown.
//!
//! Invariants: `encode` writes what `decode` read, byte for byte, and `record_len` agrees with both. Types that
//! no engine of the segment format (log version 8) writes any more are known by length only ([`Opaque`]).

mod access;
#[cfg(test)]
mod corpus_tests;
mod database;
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

/// Why bytes are not a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// No bytes.
    #[error("no record: the input is empty")]
    Empty,
    /// No engine of this log format writes such a type.
    #[error("unknown log record type {kind}")]
    UnknownKind {
        /// The type.
        kind: u8,
    },
    /// The input ends inside the record.
    #[error("log record type {kind} needs {needed} bytes, only {available} are there")]
    Truncated {
        /// The type.
        kind: u8,
        /// Bytes needed at least.
        needed: usize,
        /// Bytes there.
        available: usize,
    },
    /// A field has an impossible value.
    #[error("log record type {kind}: impossible {what}")]
    Invalid {
        /// The type.
        kind: u8,
        /// The field.
        what: &'static str,
    },
}

impl RecordError {
    /// `before` bytes stood in front of the part that was decoded.
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

/// A record of which only the length matters here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opaque {
    /// Its type.
    pub kind: u8,
    /// What follows the type byte; for the ignorable family, what follows the length.
    pub body: Vec<u8>,
}

/// Type byte and length of the ignorable family.
const IGNORABLE_PREFIX: usize = 5;

const fn is_ignorable(kind: u8) -> bool {
    matches!(kind, 67..=75 | 82..=91)
}

/// Types without variant: length of the fixed part after the type byte and where in it a `u16` payload length is.
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
        /// A log record. The number of each type is its byte in the log.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum LogRecord {
            $( $(#[$bare_meta])* $bare, )*
            $( $(#[$meta])* $variant($body), )*
            $( $(#[$ign_meta])* $ign_variant($ign_body), )*
            /// An ignorable type this program does not know, or one with an unexpected length.
            Ignored(Opaque),
            /// A type no engine of this log format writes any more.
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
            /// When a payload is longer than its length field can say (65535 bytes; 32767 for replaced data).
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

            fn view_body(kind: u8, body: &[u8]) -> Result<Fields, LayoutError> {
                match kind {
                    $( $bare_kind => Ok(Fields::new()), )*
                    $( $kind => fields::of::<$body>(body), )*
                    $( $ign_kind => fields::of::<$ign_body>(body), )*
                    _ => Ok(vec![("body", FieldValue::Bytes(body.to_vec()))]),
                }
            }

            /// `None` if the payload is not what the type should have.
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

        /// Every type that has a name.
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
        /// 10: a read transaction renews its view.
        Refresh(Refresh) = 10,
        /// 11: the records up to the end of the macro count together.
        MacroBegin(Macro) = 11,
        /// 12: they count.
        MacroCommit(Macro) = 12,
        /// 13: they do not count.
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
        /// 30: deleted node revived.
        FlagInsert(FlagInsert) = 30,
        /// 31: deleted node revived with other data.
        FlagInsertAndReplaceData(FlagInsertAndReplaceData) = 31,
        /// 32: node flagged deleted.
        FlagDelete(FlagDelete) = 32,
        /// 33: data replaced, new data in full.
        Replace(Replace) = 33,
        /// 34: data replaced, differences only.
        ReplaceD(Replace) = 34,
        /// 35: node removed.
        Delete(Delete) = 35,
        /// 36: before image of an uncommitted change.
        UndoInfo(UndoInfo) = 36,
        /// 37: counter changed.
        Delta(Delta) = 37,
        /// 38: external header replaced.
        SetExternalHeader(SetExternalHeader) = 38,
        /// 39: one change taken back.
        Undo(Undo) = 39,
        /// 48: pages of a tree given up.
        EmptyTree(EmptyTree) = 48,
        /// 49: engine started.
        Init2(Init) = 49,
        /// 50: engine stopped.
        Term2(Termination) = 50,
        /// 51: recovery begins to roll back.
        RecoveryUndo2(RecoveryUndo) = 51,
        /// 52: recovery is done.
        RecoveryQuit2(Termination) = 52,
        /// 58: tree gets space trees.
        ConvertFdp2(ConvertFdp) = 58,
        /// 60: backup step.
        Backup2(Backup) = 60,
        /// 61: a new generation is wanted.
        ForceLogRollover(Trace) = 61,
        /// 62: page split.
        Split2(Split) = 62,
        /// 63: pages merged.
        Merge2(Merge) = 63,
        /// 64: deleted data overwritten.
        Scrub(Scrub) = 64,
        /// 65: page moved.
        PageMove(PageMove) = 65,
        /// 66: a good copy of a page is wanted.
        PagePatchRequest(PagePatchRequest) = 66,
        /// 76: first piece of a long record.
        FragmentBegin(FragmentBegin) = 76,
        /// 77: next piece of a long record.
        Fragment(Fragment) = 77,
        /// 78: file shrunk.
        ShrinkDb(ShrinkDb) = 78,
        /// 79: creation complete.
        CreateDbFinish(CreateDbFinish) = 79,
        /// 80: recovery is done and databases stay attached.
        RecoveryQuitKeepAttachments(Termination) = 80,
        /// 81: holes punched.
        TrimDb(TrimDb) = 81,
        /// 92: format raised.
        SetDbVersion(SetDbVersion) = 92,
        /// 93: 64-bit counter changed.
        Delta64(Delta64) = 93,
        /// 94: file shrunk, newer meaning.
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
        /// 101: the same with dbtime.
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
        /// 72: kept database in use again.
        ReAttachDb(ReAttachDb) = 72,
        /// 73: pages of a macro.
        MacroInfo2(MacroInfo) = 73,
        /// 74: tree deleted.
        FreeFdp(FreeFdp) = 74,
    }
}

/// Writes a body behind its length.
fn put_sized(out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = Vec::new();
    body(&mut bytes);
    <u32 as crate::layout::LengthField>::put_len(bytes.len(), out);
    out.append(&mut bytes);
}

impl LogRecord {
    /// Reads the record at the start of `bytes`; returns it and its length.
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

    /// The fields of the record that `bytes` are, in file order; see [`LogRecord::decode`] for its type.
    pub fn fields(bytes: &[u8]) -> Result<Fields, RecordError> {
        let (&kind, body) = bytes.split_first().ok_or(RecordError::Empty)?;
        let prefix = if is_ignorable(kind) { IGNORABLE_PREFIX } else { 1 };
        let body = body.get(prefix - 1..).unwrap_or_default();
        LogRecord::view_body(kind, body).or_else(|error| match is_ignorable(kind) {
            true => Ok(vec![("body", FieldValue::Bytes(body.to_vec()))]),
            false => Err(RecordError::of(kind, error, prefix)),
        })
    }

    /// The number of the type with this name; case does not matter.
    pub fn kind_named(name: &str) -> Option<u8> {
        NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, kind)| *kind)
    }

    /// The bytes of the record.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode(&mut out);
        out
    }

    /// Filler of exactly `len` bytes, for the unused rest of a segment; below 5 bytes use [`LogRecord::Nop`].
    pub fn filler(len: usize) -> Option<LogRecord> {
        len.checked_sub(IGNORABLE_PREFIX).map(|rest| LogRecord::Nop2(vec![0; rest]))
    }
}

/// Length of the record at the start of `bytes`, from its fixed part alone: the payload need not be there.
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
