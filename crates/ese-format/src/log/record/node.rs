//! Records that change a single node on a single page.

use super::prefix::NodeChange;
use crate::declare::layout;
use crate::layout::{BinaryLayout, Input, LayoutError};

/// Checks the length of a record's fixed part, including the type byte, at compile time.
macro_rules! fixed {
    ($($name:ty = $len:literal),* $(,)?) => {$( const _: () = assert!(1 + <$name as BinaryLayout>::FIXED == $len); )*};
}
pub(super) use fixed;

layout! {
    /// Log record of a node insertion. The key is `prefix` followed by `suffix`. `prefix` is the part that is
    /// stored in the page's prefix.
    ///
    /// ```text
    /// 44 suffix length (2)   46 prefix length (2)   48 data length (2)   50 prefix, suffix, data
    /// ```
    #[doc(alias = "LRINSERT")]
    pub struct Insert {
        /// Node that the record changes.
        node: NodeChange,
        [suffix: u16],
        [prefix: u16],
        [data: u16],
    } then {
        /// Part of the key that the page stores once for many nodes.
        prefix,
        /// Rest of the key.
        suffix,
        /// Data of the node.
        data,
    }
}

impl Insert {
    /// Appends an Insert record directly from its parts, without creating an `Insert` value, which would copy them.
    pub fn encode_parts(out: &mut Vec<u8>, node: &NodeChange, [prefix, suffix]: [&[u8]; 2], data: &[u8]) {
        out.push(super::kinds::Insert);
        Insert::put_parts(out, node, prefix, suffix, data);
    }

    /// Returns the complete key.
    pub fn key(&self) -> Vec<u8> {
        [self.prefix.as_slice(), &self.suffix].concat()
    }
}

layout! {
    /// Log record written when a node that was flagged as deleted is reinserted. The payload starts at offset 48.
    #[doc(alias = "LRFLAGINSERT")]
    pub struct FlagInsert {
        /// Node that the record changes.
        node: NodeChange,
        [key: u16],
        [data: u16],
    } then {
        /// Key of the node.
        key,
        /// Data of the node.
        data,
    }
}

layout! {
    /// Log record written when a deleted node is reinserted with new data. See also [`FlagInsert`]. The payload
    /// starts at offset 52.
    #[doc(alias = "LRFLAGINSERTANDREPLACEDATA")]
    pub struct FlagInsertAndReplaceData {
        /// Node that the record changes.
        node: NodeChange,
        [key: u16],
        [data: u16],
        /// Version id of the replacement. `node` holds the version id of the insertion.
        replace_rceid: u32,
    } then {
        /// Key of the node.
        key,
        /// The node's new data.
        data,
    }
}

layout! {
    /// Log record written when a node is flagged as deleted. The node stays on the page until no transaction can see
    /// it.
    #[doc(alias = "LRFLAGDELETE")]
    #[derive(Copy)]
    pub struct FlagDelete {
        /// Node that the record changes.
        node: NodeChange,
    }
}

layout! {
    /// Log record written when a node is removed from its page.
    #[doc(alias = "LRDELETE")]
    #[derive(Copy)]
    pub struct Delete {
        /// Node that the record changes.
        node: NodeChange,
    }
}

/// Log record that stores new data for a node, either in full (type 33) or as differences from the old data (type 34,
/// `ReplaceD`).
///
/// ```text
/// 44 payload length (15 bits), top bit: wide differences   46 old data length (2)   48 new data length (2)
/// 50 payload
/// ```
#[doc(alias = "LRREPLACE")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replace {
    /// Node whose data is replaced.
    pub node: NodeChange,
    /// Whether differences have 3-byte headers instead of 2-byte headers. ESE: `fDiff2`.
    pub wide_diff: bool,
    /// Length of the data before the change.
    pub old_len: u16,
    /// Length of the data after the change.
    pub new_len: u16,
    /// New data, or the list of differences.
    pub data: Vec<u8>,
}

const WIDE_DIFF: u16 = 0x8000;

impl Replace {
    /// Appends a Replace record that contains all of the new data, without creating a `Replace` value, which would
    /// copy the data.
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

impl BinaryLayout for Replace {
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
    /// Log record that contains the before-image of an uncommitted change. It is logged before the page is written.
    ///
    /// ```text
    /// 44 key length (2)   46 bookmark data length (2)   48 operation (2)   50 max size (2)   52 size delta (2)
    /// 54 before-image length (2)   56 key, bookmark data, before image
    /// ```
    #[doc(alias = "LRUNDOINFO")]
    pub struct UndoInfo {
        /// Change to which the before-image belongs, identified by its `rceid`. Its dbtimes have no meaning.
        node: NodeChange,
        [key: u16],
        [bookmark_data: u16],
        /// Kind of operation; see [`operation`].
        operation: u16,
        /// Maximum size that the node has had in the transaction; used only for replacements.
        max_size: i16,
        /// Growth of the node in bytes; used only for replacements.
        size_delta: i16,
        [before: u16],
    } then {
        /// Key of the node.
        key,
        /// Data of the node, as part of its bookmark. Present only in trees with duplicate keys.
        bookmark_data,
        /// Data before the change; used only for replacements.
        before,
    }
}

layout! {
    /// Log record of the rollback of one change.
    ///
    /// ```text
    /// 44 key length (2)   46 bookmark data length (2)   48 operation (2)   50 level (1)   51 key, bookmark data
    /// ```
    #[doc(alias = "LRUNDO")]
    pub struct Undo {
        /// Change that is being rolled back, identified by its `rceid`.
        node: NodeChange,
        [key: u16],
        [bookmark_data: u16],
        /// Kind of operation; see [`operation`].
        operation: u16,
        /// Level of the transaction that made the change.
        level: u8,
    } then {
        /// Key of the node.
        key,
        /// Data of the node, as part of its bookmark. Present only in trees with duplicate keys.
        bookmark_data,
    }
}

/// Numbers of versioned operations in [`UndoInfo`] and [`Undo`]. ESE: `oper...`.
pub mod operation {
    /// Node inserted. ESE: `operInsert`.
    pub const INSERT: u16 = 1;
    /// Data replaced. ESE: `operReplace`.
    pub const REPLACE: u16 = 2;
    /// Node flagged as deleted. ESE: `operFlagDelete`.
    pub const FLAG_DELETE: u16 = 3;
    /// 32-bit counter changed. ESE: `operDelta`.
    pub const DELTA: u16 = 4;
    /// 64-bit counter changed. ESE: `operDelta64`.
    pub const DELTA64: u16 = 9;
}

layout! {
    /// Log record written when a 32-bit counter in a node's data is incremented. An increment does not lock out other
    /// transactions.
    ///
    /// ```text
    /// 44 key length (2)   46 bookmark data length (2)   48 delta (4)   52 offset (2)   54 key, bookmark data
    /// ```
    #[doc(alias = "LRDELTA32")]
    pub struct Delta {
        /// Node that the record changes.
        node: NodeChange,
        [key: u16],
        [bookmark_data: u16],
        /// Number to add to the counter.
        delta: i32,
        /// Offset of the counter in the node's data.
        offset: u16,
    } then {
        /// Key of the node.
        key,
        /// Data of the node, as part of its bookmark. Present only in trees with duplicate keys.
        bookmark_data,
    }
}

layout! {
    /// Log record written when a 64-bit counter is incremented; see [`Delta`]. The offset is stored at byte 56, and
    /// the payload starts at byte 58.
    #[doc(alias = "LRDELTA64")]
    pub struct Delta64 {
        /// Node that the record changes.
        node: NodeChange,
        [key: u16],
        [bookmark_data: u16],
        /// Number to add to the counter.
        delta: i64,
        /// Offset of the counter in the node's data.
        offset: u16,
    } then {
        /// Key of the node.
        key,
        /// Data of the node, as part of its bookmark. Present only in trees with duplicate keys.
        bookmark_data,
    }
}

layout! {
    /// Log record written when a root page's external header (tag 0) is replaced. The payload starts at offset 46.
    #[doc(alias = "LRSETEXTERNALHEADER")]
    pub struct SetExternalHeader {
        /// Node that the record changes.
        node: NodeChange,
        [data: u16],
    } then {
        /// New external header.
        data,
    }
}

layout! {
    /// Log record written when deleted data on a page is overwritten.
    ///
    /// ```text
    /// 44 flags (4)   48 operations (4)   52 length (2)   54 one operation byte per node, then padding
    /// ```
    ///
    /// ESE pads the record. The padding grows with the dirty part of the cache, which limits how many pages one log
    /// file can refer to.
    #[doc(alias = "LRSCRUB")]
    pub struct Scrub {
        /// Node that the record changes.
        node: NodeChange,
        /// Flags. Bit 0: the page is not in use.
        flags: u32,
        /// Number of operation bytes, one for each node.
        count: u32,
        [data: u16],
    } then {
        /// Operations and padding.
        data,
    }
}

impl Scrub {
    /// Returns one operation byte per node: 0 to keep the node, 1 to overwrite its data, 2 to overwrite a long-value
    /// chunk.
    ///
    /// Returns `None` if the payload has fewer operations than `count`.
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
