//! Common prefixes of records: the page that a record changes and, for node changes, its tree.

use bitflags::bitflags;

use crate::declare::{layout, layout_flags};
use crate::layout::BinaryLayout;
use crate::{DatabaseIdInLog, DbTime, PageNumber, TreeId};

bitflags! {
    /// Flags that describe a page change. ESE: `fLRPage...`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub struct PageChangeFlags: u8 {
        /// The node has a version, so the change can be undone.
        const VERSIONED = 1;
        /// The node is flagged as deleted.
        const DELETED = 2;
        /// Keys in the tree are unique.
        const UNIQUE = 4;
        /// The tree is a space tree.
        const SPACE = 8;
        /// The change was made during a concurrent index build.
        const CONCURRENT_INDEX = 0x10;
        /// The change was made by background maintenance.
        const SYSTEM_TASK = 0x20;
    }
}
layout_flags!(PageChangeFlags: u8);

layout! {
    /// Description of the page that a log record changes. Offsets are relative to the record's type byte.
    ///
    /// ```text
    /// 1 session (2)   3 database (1)   4 page (4)   8 dbtime after (8)   16 dbtime before (8)
    /// 24 transaction (4)   28 level (1)   29 line (2)   31 flags (1)   32
    /// ```
    ///
    /// Redo applies the record if the page's dbtime is `before`, and then sets it to `after`.
    #[doc(alias = "LRPAGE_")]
    #[derive(Copy)]
    pub struct PageChange {
        /// Session that wrote the record. ESE: `procid`.
        procid: u16,
        /// Database to which the record applies.
        database: DatabaseIdInLog,
        /// Number of the page.
        page: PageNumber,
        /// dbtime of the page after the change.
        after: DbTime,
        /// dbtime of the page before the change.
        before: DbTime,
        /// Begin number of the session's outermost transaction. ESE: `trxBegin0`.
        begin0: u32,
        /// Transaction level; 0 outside a transaction.
        level: u8,
        /// Index of the node on the page. ESE: `iline`.
        line: u16,
        /// Properties of the change.
        flags: PageChangeFlags,
    }
}
const _: () = assert!(1 + <PageChange as BinaryLayout>::FIXED == 32);

layout! {
    /// Description of the node that a log record changes.
    ///
    /// ```text
    /// 1 page change (31)   32 version (4)   36 tree's root page (4)   40 tree id (4)   44
    /// ```
    #[doc(alias = "LRNODE_")]
    #[derive(Copy)]
    pub struct NodeChange {
        /// Page, line, and dbtimes of the change.
        page: PageChange,
        /// Version id, which links the change to its before-image in a later [`UndoInfo`](super::UndoInfo). ESE:
        /// `rceid`.
        rceid: u32,
        /// Root page of the tree. Absent if the writer did not know it, as when zeroing a page. ESE: `pgnoFDP`.
        root: Option<PageNumber>,
        /// Tree to which the page belongs. ESE: `objidFDP`.
        tree: TreeId,
    }
}
const _: () = assert!(1 + <NodeChange as BinaryLayout>::FIXED == 44);
