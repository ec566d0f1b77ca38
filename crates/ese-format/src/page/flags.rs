//! Flag words of pages and nodes.
//!
//! Values and meanings follow Microsoft's published source. Those marked "seen" also occur in real files. Unknown bits
//! are kept.

bitflags::bitflags! {
    /// Bits 36..40 of the page header. ESE: `fFlags`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct PageFlags: u32 {
        /// Root of a tree or of one of its two space trees; seen.
        #[doc(alias = "fPageRoot")]
        const ROOT = 0x1;
        /// Holds data rather than child pointers; seen.
        const LEAF = 0x2;
        /// Internal page whose children are leaves; seen.
        const PARENT_OF_LEAF = 0x4;
        /// Emptied and returned to the available space. The lines are stale; seen.
        const EMPTY = 0x8;
        /// Being rebuilt by repair.
        const REPAIR = 0x10;
        /// Page of a space tree; seen.
        #[doc(alias = "fPageSpaceTree")]
        const SPACE = 0x20;
        /// Page of a secondary index; seen.
        const INDEX = 0x40;
        /// Page of a long-value tree; seen.
        const LONG_VALUE = 0x80;
        /// The tree is ordered by key and data together; seen.
        const NON_UNIQUE = 0x400;
        /// Set on every page of modern databases; seen.
        const NEW_RECORD = 0x800;
        /// The 64-bit checksum applies; seen.
        const NEW_CHECKSUM = 0x2000;
        /// Free space was overwritten.
        const SCRUBBED = 0x4000;
        /// Two bits: 0 unknown, else a counter that each write of the page increments, 1 after 3; seen.
        const FLUSH_TYPE = 0x18000;
        /// Formatted but not yet used.
        const PRE_INIT = 0x20000;
        /// The tree is being deleted.
        const FDP_DELETE = 0x40000;
        /// Other bits are kept.
        const _ = !0;
    }
}

impl PageFlags {
    /// The flush type, 0 to 3.
    pub const fn flush_type(self) -> u8 {
        ((self.bits() & Self::FLUSH_TYPE.bits()) >> 15) as u8
    }

    /// The flags with the flush type of the next write.
    pub const fn with_next_flush_type(self) -> PageFlags {
        let next = self.flush_type() as u32 % 3 + 1;
        PageFlags::from_bits_retain(self.bits() & !Self::FLUSH_TYPE.bits() | next << 15)
    }
}

bitflags::bitflags! {
    /// Three bits of a node: in its tag on small pages, in its first length on large ones.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct NodeFlags: u8 {
        /// Has or had an entry in the version store. Without meaning after a clean shutdown; seen.
        #[doc(alias = "fNDVersion")]
        const VERSIONED = 1;
        /// Logically deleted; seen.
        #[doc(alias = "fNDDeleted")]
        const DELETED = 2;
        /// The key starts with bytes of the page's prefix; seen.
        #[doc(alias = "fNDCompressed")]
        const COMPRESSED = 4;
    }
}
