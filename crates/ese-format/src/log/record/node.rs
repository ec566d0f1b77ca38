//! Records that change one node of one page.

use super::prefix::NodeChange;
use crate::declare::layout;
use crate::layout::{Input, Layout, LayoutError};

/// Compile-time proof of the length of a record's fixed part, type byte included.
macro_rules! fixed {
    ($($name:ty = $len:literal),* $(,)?) => {$( const _: () = assert!(1 + <$name as Layout>::FIXED == $len); )*};
}
pub(super) use fixed;

layout! {
    /// A new node. Its key is `prefix` followed by `suffix`. `prefix` is the part that the node shares with its page.
    ///
    /// ```text
    /// 44 suffix length (2)   46 prefix length (2)   48 data length (2)   50 prefix, suffix, data
    /// ```
    #[doc(alias = "LRINSERT")]
    pub struct Insert {
        /// The changed node.
        node: NodeChange,
        [suffix: u16],
        [prefix: u16],
        [data: u16],
    } then {
        /// The part of the key that the page stores once for many nodes.
        prefix,
        /// The rest of the key.
        suffix,
        /// The data.
        data,
    }
}

impl Insert {
    /// Appends an Insert record directly from its parts, without an `Insert` value that would copy them.
    pub fn encode_parts(out: &mut Vec<u8>, node: &NodeChange, [prefix, suffix]: [&[u8]; 2], data: &[u8]) {
        out.push(super::kinds::Insert);
        Insert::put_parts(out, node, prefix, suffix, data);
    }

    /// The whole key.
    pub fn key(&self) -> Vec<u8> {
        [self.prefix.as_slice(), &self.suffix].concat()
    }
}

layout! {
    /// A node that was flagged deleted is inserted again. Payload at 48.
    #[doc(alias = "LRFLAGINSERT")]
    pub struct FlagInsert {
        /// The changed node.
        node: NodeChange,
        [key: u16],
        [data: u16],
    } then {
        /// Its key.
        key,
        /// Its data.
        data,
    }
}

layout! {
    /// Like [`FlagInsert`], with other data than those of the deleted node. Payload at 52.
    #[doc(alias = "LRFLAGINSERTANDREPLACEDATA")]
    pub struct FlagInsertAndReplaceData {
        /// The changed node.
        node: NodeChange,
        [key: u16],
        [data: u16],
        /// Version id of the replacement. That of the insertion is in `node`.
        replace_rceid: u32,
    } then {
        /// Its key.
        key,
        /// Its new data.
        data,
    }
}

layout! {
    /// A node is flagged deleted. It stays on the page until no transaction can see it.
    #[doc(alias = "LRFLAGDELETE")]
    #[derive(Copy)]
    pub struct FlagDelete {
        /// The changed node.
        node: NodeChange,
    }
}

layout! {
    /// A node is removed from its page.
    #[doc(alias = "LRDELETE")]
    #[derive(Copy)]
    pub struct Delete {
        /// The changed node.
        node: NodeChange,
    }
}

/// New data of a node: in full (type 33) or as differences from the old (type 34, ReplaceD).
///
/// ```text
/// 44 payload length (15 bits), top bit: wide differences   46 old data length (2)   48 new data length (2)   50 payload
/// ```
#[doc(alias = "LRREPLACE")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replace {
    /// Where.
    pub node: NodeChange,
    /// Differences have 3-byte headers instead of 2-byte ones. ESE: `fDiff2`.
    pub wide_diff: bool,
    /// Length of the data before.
    pub old_len: u16,
    /// Length of the data after.
    pub new_len: u16,
    /// New data, or the list of differences.
    pub data: Vec<u8>,
}

const WIDE_DIFF: u16 = 0x8000;

impl Replace {
    /// Appends a Replace record with the new data in full, without a `Replace` value that would copy them.
    pub fn encode_parts(out: &mut Vec<u8>, node: &NodeChange, old_len: u16, data: &[u8]) {
        out.push(super::kinds::Replace);
        Replace::put_parts(out, node, false, [old_len, data.len() as u16], data);
    }

    fn put_parts(out: &mut Vec<u8>, node: &NodeChange, wide: bool, lens: [u16; 2], payload: &[u8]) {
        let len = payload.len();
        assert!(len < usize::from(WIDE_DIFF), "payload of {len} bytes exceeds its length field");
        node.put(out);
        (len as u16 | if wide { WIDE_DIFF } else { 0 }).put(out);
        lens.iter().for_each(|len| len.put(out));
        out.extend_from_slice(payload);
    }
}

impl Layout for Replace {
    const FIXED: usize = NodeChange::FIXED + 6;

    fn put(&self, out: &mut Vec<u8>) {
        Replace::put_parts(out, &self.node, self.wide_diff, [self.old_len, self.new_len], &self.data);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, LayoutError> {
        let node = NodeChange::take(input)?;
        let (len, old_len, new_len) = (u16::take(input)?, u16::take(input)?, u16::take(input)?);
        let data = input.bytes(usize::from(len & !WIDE_DIFF))?.to_vec();
        Ok(Replace { node, wide_diff: len & WIDE_DIFF != 0, old_len, new_len, data })
    }

    fn payload_len(input: &mut Input<'_>) -> Result<usize, LayoutError> {
        input.bytes(NodeChange::FIXED)?;
        let len = u16::take(input)?;
        input.bytes(4)?;
        Ok(usize::from(len & !WIDE_DIFF))
    }
}

layout! {
    /// Before-image of an uncommitted change. It is logged before the page is written.
    ///
    /// ```text
    /// 44 key length (2)   46 bookmark data length (2)   48 operation (2)   50 max size (2)   52 size delta (2)
    /// 54 before-image length (2)   56 key, bookmark data, before image
    /// ```
    #[doc(alias = "LRUNDOINFO")]
    pub struct UndoInfo {
        /// The change to which the before-image belongs, by `rceid`. The dbtimes have no meaning.
        node: NodeChange,
        [key: u16],
        [bookmark_data: u16],
        /// The operation, see [`operation`].
        operation: u16,
        /// For a replacement: the largest size the node has had in the transaction.
        max_size: i16,
        /// For a replacement: growth of the node in bytes.
        size_delta: i16,
        [before: u16],
    } then {
        /// Key of the node.
        key,
        /// In trees with repeating keys: its data, as part of the bookmark.
        bookmark_data,
        /// The data before, for a replacement.
        before,
    }
}

layout! {
    /// One change was undone.
    ///
    /// ```text
    /// 44 key length (2)   46 bookmark data length (2)   48 operation (2)   50 level (1)   51 key, bookmark data
    /// ```
    #[doc(alias = "LRUNDO")]
    pub struct Undo {
        /// The change that is undone, by `rceid`.
        node: NodeChange,
        [key: u16],
        [bookmark_data: u16],
        /// The operation, see [`operation`].
        operation: u16,
        /// Level of the transaction that made the change.
        level: u8,
    } then {
        /// Key of the node.
        key,
        /// In trees with repeating keys: its data, as part of the bookmark.
        bookmark_data,
    }
}

/// Numbers of versioned operations in [`UndoInfo`] and [`Undo`]. ESE: `oper...`.
pub mod operation {
    /// Node inserted. ESE: `operInsert`.
    pub const INSERT: u16 = 1;
    /// Data replaced. ESE: `operReplace`.
    pub const REPLACE: u16 = 2;
    /// Node flagged deleted. ESE: `operFlagDelete`.
    pub const FLAG_DELETE: u16 = 3;
    /// 32-bit counter changed. ESE: `operDelta`.
    pub const DELTA: u16 = 4;
    /// 64-bit counter changed. ESE: `operDelta64`.
    pub const DELTA64: u16 = 9;
}

layout! {
    /// A 32-bit counter in the data of a node is incremented, without a lock against other transactions.
    ///
    /// ```text
    /// 44 key length (2)   46 bookmark data length (2)   48 delta (4)   52 offset (2)   54 key, bookmark data
    /// ```
    #[doc(alias = "LRDELTA32")]
    pub struct Delta {
        /// The changed node.
        node: NodeChange,
        [key: u16],
        [bookmark_data: u16],
        /// What is added.
        delta: i32,
        /// Offset of the counter in the data.
        offset: u16,
    } then {
        /// Key of the node.
        key,
        /// In trees with repeating keys: its data, as part of the bookmark.
        bookmark_data,
    }
}

layout! {
    /// Like [`Delta`], for a 64-bit counter. Offset at 56, payload at 58.
    #[doc(alias = "LRDELTA64")]
    pub struct Delta64 {
        /// The changed node.
        node: NodeChange,
        [key: u16],
        [bookmark_data: u16],
        /// What is added.
        delta: i64,
        /// Offset of the counter in the data.
        offset: u16,
    } then {
        /// Key of the node.
        key,
        /// In trees with repeating keys: its data, as part of the bookmark.
        bookmark_data,
    }
}

layout! {
    /// The external header (tag 0) of a root page is replaced. Payload at 46.
    #[doc(alias = "LRSETEXTERNALHEADER")]
    pub struct SetExternalHeader {
        /// The changed node.
        node: NodeChange,
        [data: u16],
    } then {
        /// The header.
        data,
    }
}

layout! {
    /// Deleted data on a page are overwritten.
    ///
    /// ```text
    /// 44 flags (4)   48 operations (4)   52 length (2)   54 one operation byte per node, then padding
    /// ```
    ///
    /// ESE pads the record, so that a log names fewer pages while more of the cache is dirty.
    #[doc(alias = "LRSCRUB")]
    pub struct Scrub {
        /// The changed node.
        node: NodeChange,
        /// Bit 0: the page is not in use.
        flags: u32,
        /// Number of operations.
        count: u32,
        [data: u16],
    } then {
        /// The operations and the padding.
        data,
    }
}

impl Scrub {
    /// One byte per node: 0 keep, 1 overwrite the data, 2 overwrite a long-value chunk. `None` if there are fewer than the
    /// record counts.
    pub fn operations(&self) -> Option<&[u8]> {
        self.data.get(..usize::try_from(self.count).ok()?)
    }
}

fixed!(
    Insert = 50,
    FlagInsert = 48,
    FlagInsertAndReplaceData = 52,
    FlagDelete = 44,
    Delete = 44,
    Replace = 50,
    UndoInfo = 56,
    Undo = 51,
    Delta = 54,
    Delta64 = 58,
    SetExternalHeader = 46,
    Scrub = 54,
);
