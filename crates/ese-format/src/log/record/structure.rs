//! Records that change a tree's structure: splits, merges, page moves, new trees, and emptied trees.

use bitflags::bitflags;

use super::node::fixed;
use super::prefix::{NodeChange, PageChange};
use crate::declare::{layout, layout_flags};
use crate::layout::BinaryLayout;
use crate::{DatabaseIdInLog, DbTime, PageNumber, TreeId};

bitflags! {
    /// Flags for the form in which a page's before-image is stored.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub struct BeforeImageFlags: u32 {
        /// The image omits the page's free gap. ESE: `fPreimageDehydrated`.
        const DEHYDRATED = 1;
        /// The image was compressed after the gap was omitted. It has the same form as a compressed column: scheme
        /// byte, length (2), bytes. ESE: `fPreimageXpress`.
        const XPRESS = 2;
    }
}

bitflags! {
    /// Flags for what a page merge does in addition to moving nodes. ESE: `fLRMerge...`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub struct MergeFlags: u8 {
        /// The separator key in the parent changes.
        const KEY_CHANGE = 1;
        /// The entry in the parent is removed.
        const DELETE_NODE = 2;
        /// The merged page was empty.
        const EMPTY_PAGE = 4;
    }
}

bitflags! {
    /// Flags for the kind of root page that is moved.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub struct PageMoveFlags: u32 {
        /// Root page of the tree itself.
        const ROOT = 1;
        /// Root page of the tree's owned-extents tree.
        const OWNED_ROOT = 2;
        /// Root page of the tree's available-extents tree.
        const AVAILABLE_ROOT = 4;
    }
}

bitflags! {
    /// Flags that describe a freed extent.
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
    /// Log record of a page split. `change.page` is the page that is split. The nodes from `split_line` on
    /// move to the new page.
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
        /// Page that is split.
        change: PageChange,
        /// New page. Absent if the split page is an internal page that only receives the new entry.
        new_page: Option<PageNumber>,
        /// Right sibling, whose back link changes. Only leaves have siblings.
        right: Option<PageNumber>,
        /// dbtime of the right sibling before the change.
        right_before: DbTime,
        /// Parent that receives the new entry. Absent if the root is split.
        parent: Option<PageNumber>,
        /// dbtime of the parent before the change.
        parent_before: DbTime,
        /// Root page of the tree.
        root: PageNumber,
        /// Tree to which the page belongs.
        tree: TreeId,
        /// Type of the split: 0 vertical, 1 right, 2 append. ESE: `SPLITTYPE`.
        split_type: u8,
        /// Operation performed as part of the split; see [`split_operation`].
        operation: u8,
        /// Line of the node to which the operation applies.
        operation_line: u16,
        /// Line of the first node that moves. All line numbers count the inserted node.
        split_line: u16,
        /// Number of nodes on the page, including the inserted node.
        line_count: u16,
        /// Flags of the new page.
        new_flags: u32,
        /// Flags of the split page after the split.
        split_flags: u32,
        /// Number of free bytes on the split page that rollbacks may still need.
        split_uncommitted: i16,
        /// Number of free bytes on the new page that rollbacks may still need.
        new_uncommitted: i16,
        /// Line of the node whose key becomes the prefix of the split page; -1 if none.
        split_prefix_line: i32,
        /// Line on the new page of the node whose key becomes that page's prefix; -1 if none.
        new_prefix_line: i32,
        [old_prefix: u16],
        [new_prefix: u16],
        [parent_key: u16],
        /// Form in which `before_image` is stored.
        image_flags: BeforeImageFlags,
        [before_image: u32],
    } then {
        /// Separator key for the parent.
        parent_key,
        /// Prefix of the split page before the split.
        old_prefix,
        /// Prefix of the split page after the split.
        new_prefix,
        /// Contents of the split page before the split. With this image, redo can fill the new page regardless of the
        /// state of the split page.
        before_image,
    }
}

/// Operations that can be performed as part of a split ([`Split::operation`]). ESE: `SPLITOPER`.
#[doc(alias = "SPLITOPER")]
pub mod split_operation {
    /// No operation.
    pub const NONE: u8 = 0;
    /// A node is inserted.
    pub const INSERT: u8 = 1;
    /// The data of a node is replaced.
    pub const REPLACE: u8 = 2;
    /// A node that was flagged as deleted is reinserted with new data.
    pub const FLAG_INSERT_AND_REPLACE: u8 = 3;
}

layout! {
    /// Log record written when two pages are fully or partially merged, or when an empty page is removed. Nodes move
    /// away from `change.page`.
    ///
    /// ```text
    ///  1 page change (31)   32 right page (4)   36 its dbtime before (8)   44 left page (4)
    /// 48 its dbtime before (8)   56 parent page (4)   60 its dbtime before (8)   68 root (4)   72 tree (4)
    /// 76 bytes moved (2)   78 maximum bytes moved (2)   80 uncommitted free of destination (2)
    /// 82 first line moved (2)   84 flags (1)   85 merge type (1)   86 separator length (2)   88 image flags (4)
    /// 92 image length (4)   96 separator, before image
    /// ```
    #[doc(alias = "LRMERGENEW")]
    pub struct Merge {
        /// Page whose nodes move.
        change: PageChange,
        /// Right sibling of the page.
        right: Option<PageNumber>,
        /// dbtime of the right sibling before the change.
        right_before: DbTime,
        /// Left sibling of the page.
        left: Option<PageNumber>,
        /// dbtime of the left sibling before the change.
        left_before: DbTime,
        /// Parent of the page.
        parent: Option<PageNumber>,
        /// dbtime of the parent before the change.
        parent_before: DbTime,
        /// Root page of the tree.
        root: PageNumber,
        /// Tree to which the page belongs.
        tree: TreeId,
        /// Number of bytes moved.
        moved: u16,
        /// Number of bytes that would move if every node had the maximum size to which a rollback could restore it.
        moved_max: u16,
        /// Number of free bytes on the destination page that rollbacks may still need.
        destination_uncommitted: u16,
        /// Line of the first node that moves.
        merge_line: u16,
        /// Effects of the merge other than moving nodes.
        flags: MergeFlags,
        /// Type of the merge: 0 none, 1 empty page, 2 full right, 3 partial right, 4 empty tree, 5 full left, 6
        /// partial left, 7 page move. ESE: `MERGETYPE`.
        merge_type: u8,
        [separator: u16],
        /// Form in which `before_image` is stored.
        image_flags: BeforeImageFlags,
        [before_image: u32],
    } then {
        /// New separator for the parent.
        separator,
        /// Contents of the merged page before the merge.
        before_image,
    }
}

layout! {
    /// Log record written when the contents of a page are moved to another page. `change.page` is the source.
    ///
    /// ```text
    /// 32 destination (4)   36 left (4)   40 right (4)   44 parent (4)
    /// 48 left, right, parent dbtime before (8 each)   72 root (4)   76 tree (4)   80 line in parent (4)
    /// 84 flags (4)   88 header length (4)   92 trailer length (4)
    /// 96 first part of the page, last part of the page
    /// ```
    #[doc(alias = "LRPAGEMOVE")]
    pub struct PageMove {
        /// Source page.
        change: PageChange,
        /// Destination page.
        destination: PageNumber,
        /// Left sibling of the page.
        left: Option<PageNumber>,
        /// Right sibling of the page.
        right: Option<PageNumber>,
        /// Parent of the page.
        parent: Option<PageNumber>,
        /// dbtime of the left sibling before the change.
        left_before: DbTime,
        /// dbtime of the right sibling before the change.
        right_before: DbTime,
        /// dbtime of the parent before the change.
        parent_before: DbTime,
        /// Root page of the tree.
        root: PageNumber,
        /// Tree to which the page belongs.
        tree: TreeId,
        /// Line of the node in the parent that points to the page.
        parent_line: i32,
        /// Kind of root, if the page is a root.
        flags: PageMoveFlags,
        [head: u32],
        [tail: u32],
    } then {
        /// Contents of the page up to its free gap.
        head,
        /// Contents of the page from its tags to the end.
        tail,
    }
}

layout! {
    /// Log record written when a tree's root is moved. It precedes the page moves and header changes in the macro.
    #[doc(alias = "LRROOTPAGEMOVE")]
    #[derive(Copy)]
    pub struct RootPageMove {
        /// dbtime of all affected pages after the change.
        after: DbTime,
        /// Database to which the record applies.
        database: DatabaseIdInLog,
        /// Tree that the record changes.
        tree: TreeId,
        /// Session that wrote the record.
        procid: u16,
    }
}

layout! {
    /// Log record written when all pages of a tree except its root are freed.
    ///
    /// ```text
    /// 44 list length (2)   46 per page: dbtime before (8), page (4), flags (4)
    /// ```
    #[doc(alias = "LREMPTYTREE")]
    pub struct EmptyTree {
        /// Root of the tree that is emptied.
        node: NodeChange,
        [pages: u16],
    } then {
        /// Pages that are freed; see [`EmptyTree::entries`].
        pages,
    }
}

layout! {
    /// A page that an [`EmptyTree`] record frees.
    #[doc(alias = "EMPTYPAGE")]
    #[derive(Copy)]
    pub struct EmptiedPage {
        /// dbtime of the page before the change.
        before: DbTime,
        /// Number of the page.
        page: u32,
        /// Flags of the page.
        flags: u32,
    }
}

impl EmptyTree {
    /// Returns the decoded list of pages. Ignores a truncated last entry.
    pub fn entries(&self) -> impl Iterator<Item = EmptiedPage> {
        self.pages
            .chunks_exact(EmptiedPage::FIXED)
            .filter_map(|entry| EmptiedPage::take(&mut crate::layout::Input::new(entry)).ok())
    }

    /// Encodes a list of pages.
    pub fn encode_entries(entries: &[EmptiedPage]) -> Vec<u8> {
        let mut out = Vec::with_capacity(entries.len() * EmptiedPage::FIXED);
        entries.iter().for_each(|entry| entry.put(&mut out));
        out
    }
}

layout! {
    /// Log record written when a tree with its own space trees is created. `change.page` is its root.
    ///
    /// ```text
    /// 32 tree (4)   36 owned root (4)   40 available root (4)   44 parent root (4)   48 pages (4)
    /// 52 page flags (4)   56
    /// ```
    #[doc(alias = "LRCREATEMEFDP")]
    #[derive(Copy)]
    pub struct CreateMultiExtentFdp {
        /// Root of the tree.
        change: PageChange,
        /// Tree that the record changes.
        tree: TreeId,
        /// Root of the owned-extents tree.
        owned_root: PageNumber,
        /// Root of the available-extents tree.
        available_root: PageNumber,
        /// Root of the parent tree, from which space is allocated.
        parent_root: Option<PageNumber>,
        /// Number of pages in the first extent.
        primary_pages: i32,
        /// Flags of the root page.
        page_flags: u32,
    }
}

layout! {
    /// Log record written when a tree in a single extent is created. `change.page` is its root.
    #[doc(alias = "LRCREATESEFDP")]
    #[derive(Copy)]
    pub struct CreateSingleExtentFdp {
        /// Root of the tree.
        change: PageChange,
        /// Tree that the record changes.
        tree: TreeId,
        /// Root of the parent tree, from which space is allocated.
        parent_root: Option<PageNumber>,
        /// Number of pages in the extent.
        primary_pages: i32,
        /// Flags of the root page.
        page_flags: u32,
    }
}

layout! {
    /// Log record written when a tree outgrows its single extent and is converted to a tree with space trees.
    ///
    /// ```text
    /// 32 tree (4)   36 owned root (4)   40 available root (4)   44 parent root (4)   48 first page of new extent (4)
    /// 52 pages of first extent (4)   56 pages of new extent (4)   60 availability bits (4)   64 page flags (4)   68
    /// ```
    #[doc(alias = "LRCONVERTFDP")]
    #[derive(Copy)]
    pub struct ConvertFdp {
        /// Root of the tree.
        change: PageChange,
        /// Tree that the record changes.
        tree: TreeId,
        /// Root of the owned-extents tree.
        owned_root: PageNumber,
        /// Root of the available-extents tree.
        available_root: PageNumber,
        /// Root of the parent tree, from which space is allocated.
        parent_root: Option<PageNumber>,
        /// First page of the extent that contains the space trees.
        secondary_first: PageNumber,
        /// Number of pages in the first extent.
        primary_pages: i32,
        /// Number of pages in the new extent.
        secondary_pages: i32,
        /// Bitmap of the free pages in the first extent. ESE: `rgbitAvail`.
        available_bits: u32,
        /// Flags of the new root pages.
        page_flags: u32,
    }
}

layout! {
    /// Log record written when a page is formatted, unless another record already formats it.
    #[doc(alias = "LRNEWPAGE")]
    #[derive(Copy)]
    pub struct NewPage {
        /// Session that wrote the record.
        procid: u16,
        /// Database to which the record applies.
        database: DatabaseIdInLog,
        /// Number of the formatted page.
        page: PageNumber,
        /// Tree to which the page belongs.
        tree: TreeId,
        /// dbtime of the page after the change.
        after: DbTime,
    }
}

layout! {
    /// Log record written when the space of a deleted tree is freed.
    #[doc(alias = "LREXTENTFREED")]
    #[derive(Copy)]
    pub struct ExtentFreed {
        /// Database to which the record applies.
        database: DatabaseIdInLog,
        /// First page of the range.
        first: PageNumber,
        /// Number of pages in the extent.
        count: i32,
        /// Properties of the extent.
        flags: ExtentFreedFlags,
    }
}

layout! {
    /// Log record written when the space of a deleted tree is freed, including the dbtime. See also [`ExtentFreed`].
    #[doc(alias = "LREXTENTFREED2")]
    #[derive(Copy)]
    pub struct ExtentFreed2 {
        /// Extent that was freed.
        freed: ExtentFreed,
        /// dbtime of the change.
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
