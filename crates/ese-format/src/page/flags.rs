//! Page and node flags.
//!
//! Values and meanings follow Microsoft's published source. Flags marked "seen" also occur in real files. Unknown
//! bits are preserved.

bitflags::bitflags! {
    /// Flags of a page, stored in bytes 36 to 39 of its header. ESE: `fFlags`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct PageFlags: u32 {
        /// The page is the root of a tree or of one of its two space trees; seen.
        #[doc(alias = "fPageRoot")]
        const ROOT = 0x1;
        /// The page contains data rather than child pointers; seen.
        const LEAF = 0x2;
        /// The page is an internal page whose children are leaves; seen.
        const PARENT_OF_LEAF = 0x4;
        /// The page was emptied and returned to the available space, so its lines are stale; seen.
        const EMPTY = 0x8;
        /// The page is being rebuilt by repair.
        const REPAIR = 0x10;
        /// The page belongs to a space tree; seen.
        #[doc(alias = "fPageSpaceTree")]
        const SPACE = 0x20;
        /// The page belongs to a secondary index; seen.
        const INDEX = 0x40;
        /// The page belongs to a long-value tree; seen.
        const LONG_VALUE = 0x80;
        /// The tree is ordered by the combination of key and data; seen.
        const NON_UNIQUE = 0x400;
        /// Set on every page of a modern database; seen.
        const NEW_RECORD = 0x800;
        /// The page has the 64-bit checksum; seen.
        const NEW_CHECKSUM = 0x2000;
        /// Free space on the page was overwritten.
        const SCRUBBED = 0x4000;
        /// Two-bit flush type. 0 means unknown. Otherwise, each write of the page increments the value, wrapping from
        /// 3 to 1; seen.
        const FLUSH_TYPE = 0x18000;
        /// The page is formatted but not yet used.
        const PRE_INIT = 0x20000;
        /// The tree is being deleted.
        const FDP_DELETE = 0x40000;
        /// Unknown bits are preserved.
        const _ = !0;
    }
}

impl PageFlags {
    /// Returns the flush type, 0 to 3.
    pub const fn flush_type(self) -> u8 {
        ((self.bits() & Self::FLUSH_TYPE.bits()) >> 15) as u8
    }

    /// Returns the flags with the flush type for the next write.
    #[must_use]
    pub const fn with_next_flush_type(self) -> PageFlags {
        let next = self.flush_type() as u32 % 3 + 1;
        PageFlags::from_bits_retain(self.bits() & !Self::FLUSH_TYPE.bits() | next << 15)
    }
}

bitflags::bitflags! {
    /// Three-bit node flags. Small pages store them in the tag, and large pages in the first length field of the
    /// node.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct NodeFlags: u8 {
        /// The node has or had an entry in the version store. This flag has no meaning after a clean shutdown; seen.
        #[doc(alias = "fNDVersion")]
        const VERSIONED = 1;
        /// The node is logically deleted; seen.
        #[doc(alias = "fNDDeleted")]
        const DELETED = 2;
        /// The start of the key is stored in the page's prefix; seen.
        #[doc(alias = "fNDCompressed")]
        const COMPRESSED = 4;
    }
}
