//! Records that change the shape of a tree: splits, merges, moved pages, new and emptied trees.

use bitflags::bitflags;

use super::node::fixed;
use super::prefix::{NodeChange, PageChange};
use crate::declare::{layout, layout_flags};
use crate::layout::Layout;
use crate::{DatabaseIdInLog, DbTime, PageNumber, TreeId};

bitflags! {
    /// Form in which the before-image of a page is stored.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub struct BeforeImageFlags: u32 {
        /// The free gap of the page is left out. ESE: `fPreimageDehydrated`.
        const DEHYDRATED = 1;
        /// Compressed after the gap was left out, in the form of compressed columns: scheme byte, length (2), bytes.
        /// ESE: `fPreimageXpress`.
        const XPRESS = 2;
    }
}

bitflags! {
    /// What a merge does besides moving nodes. ESE: `fLRMerge...`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub struct MergeFlags: u8 {
        /// The separator key in the parent changes.
        const KEY_CHANGE = 1;
        /// The entry in the parent is removed.
        const DELETE_NODE = 2;
        /// The page was empty.
        const EMPTY_PAGE = 4;
    }
}

bitflags! {
    /// Kind of root that a page move moves.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub struct PageMoveFlags: u32 {
        /// Root of the tree.
        const ROOT = 1;
        /// Root of its owned-extents tree.
        const OWNED_ROOT = 2;
        /// Root of its available-extents tree.
        const AVAILABLE_ROOT = 4;
    }
}

bitflags! {
    /// Properties of a freed extent.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub struct ExtentFreedFlags: u8 {
        /// The extent holds the root page of a table.
        const TABLE_ROOT = 1;
        /// The pages of the extent are empty because the tree was deleted.
        const TREE_DELETED = 2;
    }
}

layout_flags!(BeforeImageFlags: u32, MergeFlags: u8, PageMoveFlags: u32, ExtentFreedFlags: u8);

layout! {
    /// A page is split. `change.page` is the page that is split. Nodes from `split_line` on move to the new page.
    ///
    /// ```text
    ///  1 page change (31)      32 new page (4)         36 right page (4)         40 right dbtime before (8)
    /// 48 parent page (4)       52 parent dbtime before (8)   60 root (4)         64 tree (4)
    /// 68 split type (1)        69 operation (1)        70 line of operation (2)  72 split line (2)  74 lines (2)
    /// 76 flags of new page (4) 80 flags of split page (4)    84 uncommitted free, source (2) and new page (2)
    /// 88 prefix line, split page (4)   92 prefix line, new page (4)   96 old prefix length (2)
    /// 98 new prefix length (2)   100 parent key length (2)   102 image flags (4)   106 image length (4)
    /// 110 parent key, old prefix, new prefix, before image of the split page
    /// ```
    #[doc(alias = "LRSPLITNEW")]
    pub struct Split {
        /// The page that is split.
        change: PageChange,
        /// The new page; absent if an internal page only receives the new entry.
        new_page: Option<PageNumber>,
        /// Right neighbour, whose back link changes; only leaves have one.
        right: Option<PageNumber>,
        /// dbtime of the right neighbour before.
        right_before: DbTime,
        /// Parent that receives the new entry; absent if the root is split.
        parent: Option<PageNumber>,
        /// dbtime of the parent before.
        parent_before: DbTime,
        /// Root page of the tree.
        root: PageNumber,
        /// The tree.
        tree: TreeId,
        /// 0 vertical, 1 right, 2 append. ESE: `SPLITTYPE`.
        split_type: u8,
        /// Operation that is part of the split, see [`split_operation`].
        operation: u8,
        /// Node of the operation.
        operation_line: u16,
        /// First node that moves. All lines count the node that is inserted.
        split_line: u16,
        /// Nodes on the page, the inserted one included.
        line_count: u16,
        /// Page flags of the new page.
        new_flags: u32,
        /// Page flags of the split page, after.
        split_flags: u32,
        /// Uncommitted free bytes of the split page, which rollbacks may need.
        split_uncommitted: i16,
        /// Uncommitted free bytes of the new page.
        new_uncommitted: i16,
        /// Node whose key becomes the prefix of the split page; -1 for none.
        split_prefix_line: i32,
        /// Node whose key becomes the prefix of the new page, as a line of the new page; -1 for none.
        new_prefix_line: i32,
        [old_prefix: u16],
        [new_prefix: u16],
        [parent_key: u16],
        /// Form of `before_image`.
        image_flags: BeforeImageFlags,
        [before_image: u32],
    } then {
        /// Separator for the parent.
        parent_key,
        /// Prefix of the split page before.
        old_prefix,
        /// Prefix of the split page after.
        new_prefix,
        /// The split page before the split. With it, redo can fill the new page in any state of the split page.
        before_image,
    }
}

/// Operations that are part of a split ([`Split::operation`]). ESE: `SPLITOPER`.
#[doc(alias = "SPLITOPER")]
pub mod split_operation {
    /// None.
    pub const NONE: u8 = 0;
    /// A node is inserted.
    pub const INSERT: u8 = 1;
    /// The data of a node are replaced.
    pub const REPLACE: u8 = 2;
    /// A deleted node is inserted again with other data.
    pub const FLAG_INSERT_AND_REPLACE: u8 = 3;
}

layout! {
    /// Two pages are merged, fully or partially, or an empty page is removed. Nodes of `change.page` move away.
    ///
    /// ```text
    ///  1 page change (31)   32 right page (4)   36 its dbtime before (8)   44 left page (4)   48 its dbtime before (8)
    /// 56 parent page (4)    60 its dbtime before (8)   68 root (4)   72 tree (4)   76 bytes moved (2)
    /// 78 bytes moved at most (2)   80 uncommitted free of destination (2)   82 first line moved (2)   84 flags (1)
    /// 85 merge type (1)   86 separator length (2)   88 image flags (4)   92 image length (4)
    /// 96 separator, before image
    /// ```
    #[doc(alias = "LRMERGENEW")]
    pub struct Merge {
        /// The page whose nodes move.
        change: PageChange,
        /// Right neighbour.
        right: Option<PageNumber>,
        /// dbtime of the right neighbour before.
        right_before: DbTime,
        /// Left neighbour.
        left: Option<PageNumber>,
        /// dbtime of the left neighbour before.
        left_before: DbTime,
        /// Parent.
        parent: Option<PageNumber>,
        /// dbtime of the parent before.
        parent_before: DbTime,
        /// Root page of the tree.
        root: PageNumber,
        /// The tree.
        tree: TreeId,
        /// Number of bytes that move.
        moved: u16,
        /// Number of bytes that would move if all nodes had the largest size that a rollback can restore.
        moved_max: u16,
        /// Uncommitted free bytes of the destination, which rollbacks may need.
        destination_uncommitted: u16,
        /// First node that moves.
        merge_line: u16,
        /// Other effects of the merge.
        flags: MergeFlags,
        /// 0 none, 1 empty page, 2 full right, 3 partial right, 4 empty tree, 5 full left, 6 partial left,
        /// 7 page move. ESE: `MERGETYPE`.
        merge_type: u8,
        [separator: u16],
        /// Form of `before_image`.
        image_flags: BeforeImageFlags,
        [before_image: u32],
    } then {
        /// New separator for the parent.
        separator,
        /// The merged page before the merge.
        before_image,
    }
}

layout! {
    /// The contents of a page move to another page. `change.page` is the source.
    ///
    /// ```text
    /// 32 destination (4)   36 left (4)   40 right (4)   44 parent (4)   48 left, right, parent dbtime before (8 each)
    /// 72 root (4)   76 tree (4)   80 line in parent (4)   84 flags (4)   88 header length (4)   92 trailer length (4)
    /// 96 first part of the page, last part of the page
    /// ```
    #[doc(alias = "LRPAGEMOVE")]
    pub struct PageMove {
        /// The source page.
        change: PageChange,
        /// The destination page.
        destination: PageNumber,
        /// Left neighbour.
        left: Option<PageNumber>,
        /// Right neighbour.
        right: Option<PageNumber>,
        /// Parent.
        parent: Option<PageNumber>,
        /// dbtime of the left neighbour before.
        left_before: DbTime,
        /// dbtime of the right neighbour before.
        right_before: DbTime,
        /// dbtime of the parent before.
        parent_before: DbTime,
        /// Root page of the tree.
        root: PageNumber,
        /// The tree.
        tree: TreeId,
        /// Node of the parent that points to the page.
        parent_line: i32,
        /// Kind of root, if the page is a root.
        flags: PageMoveFlags,
        [head: u32],
        [tail: u32],
    } then {
        /// The page up to its free gap.
        head,
        /// The page from its tags on.
        tail,
    }
}

layout! {
    /// The root of a tree moves. This record precedes the page moves and header changes of the macro.
    #[doc(alias = "LRROOTPAGEMOVE")]
    #[derive(Copy)]
    pub struct RootPageMove {
        /// dbtime of all pages after.
        after: DbTime,
        /// Database.
        database: DatabaseIdInLog,
        /// The tree.
        tree: TreeId,
        /// Session.
        procid: u16,
    }
}

layout! {
    /// All pages of a tree below its root are freed.
    ///
    /// ```text
    /// 44 list length (2)   46 per page: dbtime before (8), page (4), flags (4)
    /// ```
    #[doc(alias = "LREMPTYTREE")]
    pub struct EmptyTree {
        /// The root.
        node: NodeChange,
        [pages: u16],
    } then {
        /// The pages, see [`EmptyTree::entries`].
        pages,
    }
}

layout! {
    /// A page that an [`EmptyTree`] record frees.
    #[doc(alias = "EMPTYPAGE")]
    #[derive(Copy)]
    pub struct EmptiedPage {
        /// dbtime before.
        before: DbTime,
        /// The page.
        page: u32,
        /// Page flags.
        flags: u32,
    }
}

impl EmptyTree {
    /// The decoded list. A truncated last entry is ignored.
    pub fn entries(&self) -> impl Iterator<Item = EmptiedPage> {
        self.pages
            .chunks_exact(EmptiedPage::FIXED)
            .filter_map(|entry| EmptiedPage::take(&mut crate::layout::Input::new(entry)).ok())
    }

    /// Encodes a list.
    pub fn encode_entries(entries: &[EmptiedPage]) -> Vec<u8> {
        let mut out = Vec::with_capacity(entries.len() * EmptiedPage::FIXED);
        entries.iter().for_each(|entry| entry.put(&mut out));
        out
    }
}

layout! {
    /// A tree with its own space trees is created; `change.page` is its root.
    ///
    /// ```text
    /// 32 tree (4)   36 owned root (4)   40 available root (4)   44 parent root (4)   48 pages (4)   52 page flags (4)   56
    /// ```
    #[doc(alias = "LRCREATEMEFDP")]
    #[derive(Copy)]
    pub struct CreateMultiExtentFdp {
        /// The root.
        change: PageChange,
        /// The tree.
        tree: TreeId,
        /// Root of its owned extents.
        owned_root: PageNumber,
        /// Root of its available extents.
        available_root: PageNumber,
        /// Root of the tree from which its space is allocated.
        parent_root: Option<PageNumber>,
        /// Number of pages of the first extent.
        primary_pages: i32,
        /// Flags of the root page.
        page_flags: u32,
    }
}

layout! {
    /// A tree in a single extent is created; `change.page` is its root.
    #[doc(alias = "LRCREATESEFDP")]
    #[derive(Copy)]
    pub struct CreateSingleExtentFdp {
        /// The root.
        change: PageChange,
        /// The tree.
        tree: TreeId,
        /// Root of the tree from which its space is allocated.
        parent_root: Option<PageNumber>,
        /// Number of pages of the extent.
        primary_pages: i32,
        /// Flags of the root page.
        page_flags: u32,
    }
}

layout! {
    /// A tree that outgrows its single extent gets space trees.
    ///
    /// ```text
    /// 32 tree (4)   36 owned root (4)   40 available root (4)   44 parent root (4)   48 first page of new extent (4)
    /// 52 pages of first extent (4)   56 pages of new extent (4)   60 availability bits (4)   64 page flags (4)   68
    /// ```
    #[doc(alias = "LRCONVERTFDP")]
    #[derive(Copy)]
    pub struct ConvertFdp {
        /// The root.
        change: PageChange,
        /// The tree.
        tree: TreeId,
        /// Root of its owned extents.
        owned_root: PageNumber,
        /// Root of its available extents.
        available_root: PageNumber,
        /// Root of the tree from which its space is allocated.
        parent_root: Option<PageNumber>,
        /// First page of the extent of the space trees.
        secondary_first: PageNumber,
        /// Number of pages of the first extent.
        primary_pages: i32,
        /// Number of pages of the new extent.
        secondary_pages: i32,
        /// Free pages of the first extent, one bit each. ESE: `rgbitAvail`.
        available_bits: u32,
        /// Flags of the new root pages.
        page_flags: u32,
    }
}

layout! {
    /// A page was formatted, and no other record formats it.
    #[doc(alias = "LRNEWPAGE")]
    #[derive(Copy)]
    pub struct NewPage {
        /// Session.
        procid: u16,
        /// Database.
        database: DatabaseIdInLog,
        /// The page.
        page: PageNumber,
        /// Its tree.
        tree: TreeId,
        /// Its dbtime after.
        after: DbTime,
    }
}

layout! {
    /// The space of a deleted tree was freed.
    #[doc(alias = "LREXTENTFREED")]
    #[derive(Copy)]
    pub struct ExtentFreed {
        /// Database.
        database: DatabaseIdInLog,
        /// First page.
        first: PageNumber,
        /// Number of pages.
        count: i32,
        /// Properties of the extent.
        flags: ExtentFreedFlags,
    }
}

layout! {
    /// Like [`ExtentFreed`], with its dbtime.
    #[doc(alias = "LREXTENTFREED2")]
    #[derive(Copy)]
    pub struct ExtentFreed2 {
        /// The extent.
        freed: ExtentFreed,
        /// dbtime.
        db_time: DbTime,
    }
}

fixed!(
    Split = 110,
    Merge = 96,
    PageMove = 96,
    RootPageMove = 16,
    EmptyTree = 46,
    CreateMultiExtentFdp = 56,
    CreateSingleExtentFdp = 48,
    ConvertFdp = 68,
    NewPage = 20,
    ExtentFreed = 11,
    ExtentFreed2 = 19,
);
