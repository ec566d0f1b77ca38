//! Transactions and macros.

use super::node::fixed;
use crate::declare::layout;
use crate::layout::{Input, Layout, LayoutError};
use crate::{DbTime, LogPosition, LogTime};

/// Levels of a transaction begin, packed in one byte: the level before in the low half, the number of levels that begin
/// in the high half.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct BeginLevels(pub u8);

impl BeginLevels {
    /// `count` levels begin on top of level `from`.
    pub const fn new(from: u8, count: u8) -> BeginLevels {
        BeginLevels((from & 0x0f) | (count << 4))
    }

    /// Level before. ESE: `levelBeginFrom`.
    pub const fn from(self) -> u8 {
        self.0 & 0x0f
    }

    /// Levels that begin. ESE: `clevelsToBegin`.
    pub const fn count(self) -> u8 {
        self.0 >> 4
    }
}

impl Layout for BeginLevels {
    const FIXED: usize = 1;

    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, LayoutError> {
        Ok(BeginLevels(u8::take(input)?))
    }
}

layout! {
    /// Nested begin: `1 session (2)   3 levels (1)   4`.
    #[doc(alias = "LRBEGIN")]
    #[derive(Copy)]
    pub struct Begin {
        /// Session.
        procid: u16,
        /// Levels.
        levels: BeginLevels,
    }
}

layout! {
    /// Outermost begin: `1 session (2)   3 levels (1)   4 transaction (4)   8`.
    #[doc(alias = "LRBEGIN0")]
    #[derive(Copy)]
    pub struct Begin0 {
        /// Session.
        procid: u16,
        /// Levels.
        levels: BeginLevels,
        /// Begin number, which every change of the transaction repeats. ESE: `trxBegin0`.
        begin0: u32,
    }
}

layout! {
    /// Nested commit: `1 session (2)   3 level (1)   4`.
    #[doc(alias = "LRCOMMIT")]
    #[derive(Copy)]
    pub struct Commit {
        /// Session.
        procid: u16,
        /// Level after the commit.
        level: u8,
    }
}

layout! {
    /// Outermost commit: `1 session (2)   3 level (1)   4 commit number (4)   8`.
    #[doc(alias = "LRCOMMIT0")]
    #[derive(Copy)]
    pub struct Commit0 {
        /// Session.
        procid: u16,
        /// Level after the commit; 0.
        level: u8,
        /// Commit number; begin and commit numbers come from one sequence. ESE: `trxCommit0`.
        commit0: u32,
    }
}

layout! {
    /// Rollback: `1 session (2)   3 levels (1)   4`.
    #[doc(alias = "LRROLLBACK")]
    #[derive(Copy)]
    pub struct Rollback {
        /// Session.
        procid: u16,
        /// Number of levels that are rolled back.
        levels: u8,
    }
}

layout! {
    /// A transaction without changes takes a new snapshot: `1 session (2)   3 transaction (4)   7`.
    #[doc(alias = "LRREFRESH")]
    #[derive(Copy)]
    pub struct Refresh {
        /// Session.
        procid: u16,
        /// New begin number.
        begin0: u32,
    }
}

layout! {
    /// Begin or end of a group of records that take effect together: `1 session (2)   3 dbtime (8)   11`.
    #[doc(alias = "LRMACROBEGIN")]
    #[derive(Copy)]
    pub struct Macro {
        /// Session.
        procid: u16,
        /// dbtime of all changed pages after the group.
        db_time: DbTime,
    }
}

layout! {
    /// The engine stops, or recovery ends: `1 last position (8)   9 redo from (8)   17 hard (1)   18 time (8)   26`.
    #[doc(alias = "LRTERMREC2")]
    #[derive(Copy)]
    pub struct Termination {
        /// Log position where the engine started, or where undo began.
        last: LogPosition,
        /// Log position where redo began.
        redo_from: LogPosition,
        /// 1 after a restore from backup.
        hard: u8,
        /// When.
        time: LogTime,
    }
}

layout! {
    /// Recovery has replayed all logs and starts to roll back: `1 time (8)   9`.
    #[doc(alias = "LRRECOVERYUNDO2")]
    #[derive(Copy)]
    pub struct RecoveryUndo {
        /// When.
        time: LogTime,
    }
}

layout! {
    /// Data that the client of a session logs with its commit.
    #[doc(alias = "LRCOMMITCTX")]
    pub struct CommitContext {
        /// Session.
        procid: u16,
        /// Bit 0 callback needed, bit 1 customer data, bit 2 callback before commit.
        flags: u8,
        /// The bytes.
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
