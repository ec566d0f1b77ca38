//! Log records for transactions and macros.

use super::node::fixed;
use crate::declare::layout;
use crate::layout::{BinaryLayout, Input, LayoutError};
use crate::{DbTime, LogPosition, LogTime};

/// Levels begun by a transaction, packed into one byte. The low half is the previous level, and the high half is the
/// number of new levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct BeginLevels(pub u8);

impl BeginLevels {
    /// Packs `count` new levels on top of level `from`.
    pub const fn new(from: u8, count: u8) -> BeginLevels {
        BeginLevels((from & 0x0f) | (count << 4))
    }

    /// Returns the previous level. ESE: `levelBeginFrom`.
    pub const fn from(self) -> u8 {
        self.0 & 0x0f
    }

    /// Returns the number of new levels. ESE: `clevelsToBegin`.
    pub const fn count(self) -> u8 {
        self.0 >> 4
    }
}

impl BinaryLayout for BeginLevels {
    const FIXED: usize = 1;

    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, LayoutError> {
        Ok(BeginLevels(u8::take(input)?))
    }
}

layout! {
    /// Log record that starts a nested transaction. Layout: `1 session (2)   3 levels (1)   4`.
    #[doc(alias = "LRBEGIN")]
    #[derive(Copy)]
    pub struct Begin {
        /// Session that wrote the record.
        procid: u16,
        /// Levels that begin with this record.
        levels: BeginLevels,
    }
}

layout! {
    /// Log record that starts an outermost transaction. Layout: `1 session (2)   3 levels (1)   4 transaction (4)   8`.
    #[doc(alias = "LRBEGIN0")]
    #[derive(Copy)]
    pub struct Begin0 {
        /// Session that wrote the record.
        procid: u16,
        /// Levels that begin with this record.
        levels: BeginLevels,
        /// Begin number, which is repeated in every change made by the transaction. ESE: `trxBegin0`.
        begin0: u32,
    }
}

layout! {
    /// Log record that commits a nested transaction. Layout: `1 session (2)   3 level (1)   4`.
    #[doc(alias = "LRCOMMIT")]
    #[derive(Copy)]
    pub struct Commit {
        /// Session that wrote the record.
        procid: u16,
        /// Transaction level after the commit.
        level: u8,
    }
}

layout! {
    /// Log record that commits the outermost level. Layout: `1 session (2)   3 level (1)   4 commit number (4)   8`.
    #[doc(alias = "LRCOMMIT0")]
    #[derive(Copy)]
    pub struct Commit0 {
        /// Session that wrote the record.
        procid: u16,
        /// Transaction level after the commit; always 0.
        level: u8,
        /// Commit number. Commit numbers and begin numbers are drawn from the same sequence. ESE: `trxCommit0`.
        commit0: u32,
    }
}

layout! {
    /// Log record of a rollback. Layout: `1 session (2)   3 levels (1)   4`.
    #[doc(alias = "LRROLLBACK")]
    #[derive(Copy)]
    pub struct Rollback {
        /// Session that wrote the record.
        procid: u16,
        /// Number of levels to roll back.
        levels: u8,
    }
}

layout! {
    /// Log record of a new snapshot for a transaction that has made no changes. Layout:
    /// `1 session (2)   3 transaction (4)   7`.
    #[doc(alias = "LRREFRESH")]
    #[derive(Copy)]
    pub struct Refresh {
        /// Session that wrote the record.
        procid: u16,
        /// New begin number of the transaction.
        begin0: u32,
    }
}

layout! {
    /// Log record of the start or end of a macro, which is a group of records that take effect together.
    ///
    /// ```text
    /// 1 session (2)   3 dbtime (8)   11
    /// ```
    #[doc(alias = "LRMACROBEGIN")]
    #[derive(Copy)]
    pub struct Macro {
        /// Session that wrote the record.
        procid: u16,
        /// dbtime of all changed pages after the macro.
        db_time: DbTime,
    }
}

layout! {
    /// Log record written when the engine stops or when recovery ends.
    ///
    /// ```text
    /// 1 last position (8)   9 redo from (8)   17 hard (1)   18 time (8)   26
    /// ```
    #[doc(alias = "LRTERMREC2")]
    #[derive(Copy)]
    pub struct Termination {
        /// Log position at which the engine started, or at which the undo phase began.
        last: LogPosition,
        /// Log position at which redo began.
        redo_from: LogPosition,
        /// 1 if recovery followed a restore from a backup.
        hard: u8,
        /// Time at which the engine stopped or recovery ended.
        time: LogTime,
    }
}

layout! {
    /// Log record written when recovery has replayed all logs and starts to roll back. Layout: `1 time (8)   9`.
    #[doc(alias = "LRRECOVERYUNDO2")]
    #[derive(Copy)]
    pub struct RecoveryUndo {
        /// Time at which the rollback starts.
        time: LogTime,
    }
}

layout! {
    /// Log record that contains data supplied by a session's client with its commit.
    #[doc(alias = "LRCOMMITCTX")]
    pub struct CommitContext {
        /// Session that wrote the record.
        procid: u16,
        /// Flags: bit 0 if a callback is needed, bit 1 for customer data, bit 2 for a callback before the commit.
        flags: u8,
        /// Bytes that the client supplied.
        data: Vec<u8>,
    }
}

fixed!(
    Begin = 4,
    Begin0 = 8,
    Commit = 4,
    Commit0 = 8,
    Rollback = 4,
    Refresh = 7,
    Macro = 11,
    Termination = 26,
    RecoveryUndo = 9,
);
