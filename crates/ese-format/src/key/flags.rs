//! Index flags. Many of them determine how keys are constructed.

bitflags::bitflags! {
    /// Flags of an index. ESE: `IDBFLAG` (low half) and `IDXFLAG` (high half).
    #[doc(alias = "IDBFLAG")]
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct IndexFlags: u32 {
        /// No two records can have the same key.
        const UNIQUE = 0x1;
        /// Records whose key columns are all null are included in the index.
        const ALLOW_ALL_NULLS = 0x2;
        /// Records whose first key column is null are included in the index.
        const ALLOW_FIRST_NULL = 0x4;
        /// Records in which some key columns are null are included in the index.
        const ALLOW_SOME_NULLS = 0x8;
        /// Records in which a key column is null are rejected.
        const NO_NULL_SEGMENT = 0x10;
        /// The index is the primary index, which is the table's own tree.
        const PRIMARY = 0x20;
        /// The index has a locale.
        const LOCALE_SET = 0x40;
        /// At least one key column is multi-valued.
        const MULTI_VALUED = 0x80;
        /// The index belongs to a template table.
        const TEMPLATE = 0x100;
        /// The index is inherited from a template table.
        const DERIVED = 0x200;
        /// A key column is Unicode text, so the keys depend on the version of the Windows sort tables.
        const LOCALIZED_TEXT = 0x400;
        /// Nulls sort after all values.
        const NULLS_HIGH = 0x800;
        /// Legacy repair of Unicode keys.
        const UNICODE_FIXUP = 0x1000;
        /// The index contains every combination of values.
        const CROSS_PRODUCT = 0x2000;
        /// Keys that are too long are rejected rather than truncated.
        const DISALLOW_TRUNCATION = 0x4000;
        /// The n-th values of all columns form one entry.
        const NESTED_TABLE = 0x8000;
        /// Segment descriptions are four bytes long. This flag is always set in modern files.
        const EXTENDED_SEGMENTS = 0x1_0000;
        /// GUIDs sort in .NET order.
        const DOT_NET_GUID = 0x2_0000;
        /// The index is populated after its creation.
        const DEFERRED_POPULATE = 0x4_0000;
        /// Unknown bits are preserved.
        const _ = !0;
    }
}

impl IndexFlags {
    /// Flags of an ordinary primary index.
    pub const DEFAULT_PRIMARY: IndexFlags = IndexFlags::from_bits_retain(0x1_002f);
    /// Flags of an ordinary secondary index, which allows duplicates and nulls.
    pub const DEFAULT_SECONDARY: IndexFlags = IndexFlags::from_bits_retain(0x1_000e);
}
