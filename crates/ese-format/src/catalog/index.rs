//! Description of an index.
//!
//! ```text
//!  key segments (KeyFldIDs)   { u8 flags, u8 0, u16 column } per segment      0x40 descending
//!  conditions                 same                                            0x20 the column must be null
//!  both                                                                       0x80 column of a template table
//!  files before update 7      i16 column per segment, negative = descending
//! ```

use crate::key::{DEFAULT_MAX_KEY_LEN, IndexFlags, KeyLimits};
use crate::record::ColumnId;
use crate::{PageNumber, TreeId};

/// One column of an index key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeySegment {
    /// Key column.
    pub column: ColumnId,
    /// Whether larger values sort first.
    pub descending: bool,
}

/// A condition that a record must satisfy to be included in an index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IndexCondition {
    /// Column to which the condition applies.
    pub column: ColumnId,
    /// Whether the column must be null (true) or must not be null (false).
    pub must_be_null: bool,
}

/// Language settings of an index. They are always stored, but they affect only Unicode text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IndexLocale {
    /// Windows language id, used by old files; 0 if the locale has a name.
    pub lcid: u32,
    /// Locale name, such as "en-US".
    pub name: Option<String>,
    /// Flags of the Windows function that converts text to keys. ESE: `LCMapFlags`.
    #[doc(alias = "LCMapFlags")]
    pub map_flags: Option<u32>,
    /// Version of the Windows sort tables.
    pub version: Option<Vec<u8>>,
    /// Identifier of the Windows sort tables.
    pub sort_id: Option<Vec<u8>>,
}

impl Default for IndexLocale {
    /// Returns ESE's default: "en-US", ignoring case, kana type, and width.
    fn default() -> IndexLocale {
        let name = Some("en-US".to_owned());
        IndexLocale { lcid: 0, name, map_flags: Some(0x3_0401), version: None, sort_id: None }
    }
}

/// An index of a table, as described by the catalog.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Index {
    /// Name of the index.
    pub name: String,
    /// Tree that stores the index. The primary index uses the table's own tree.
    pub tree: TreeId,
    /// Root page of the tree.
    pub root: PageNumber,
    /// Flags of the index.
    pub flags: IndexFlags,
    /// Key columns, in order.
    pub segments: Vec<KeySegment>,
    /// Conditions that a record must satisfy to be included in the index.
    pub conditions: Vec<IndexCondition>,
    /// Maximum key length in bytes, if it is not 255.
    #[doc(alias = "KeyMost")]
    pub key_most: Option<u16>,
    /// Maximum length of the key segment for a text or binary column.
    #[doc(alias = "VarSegMac")]
    pub segment_limit: Option<u16>,
    /// Percentage of a page to fill before splitting it.
    pub density: u32,
    /// Language settings of the index.
    pub locale: IndexLocale,
    /// Limits for a tuple index: five numbers, in their stored form.
    pub tuple_limits: Option<Vec<u8>>,
    /// Growth hints, in their stored form.
    pub space_hints: Option<Vec<u8>>,
}

impl Index {
    /// Creates an index with the default locale, a density of 80, and no conditions.
    pub fn new(name: &str, tree: TreeId, root: PageNumber, flags: IndexFlags, columns: &[u16]) -> Index {
        let segment = |id: &u16| KeySegment { column: (*id).into(), descending: false };
        Index {
            name: name.to_owned(),
            tree,
            root,
            flags,
            segments: columns.iter().map(segment).collect(),
            conditions: Vec::new(),
            key_most: None,
            segment_limit: None,
            density: 80,
            locale: IndexLocale::default(),
            tuple_limits: None,
            space_hints: None,
        }
    }

    /// Returns true if the index is the primary index, which is the table's own tree.
    pub fn is_primary(&self) -> bool {
        self.flags.contains(IndexFlags::PRIMARY)
    }

    /// Returns true if no two records can have the same key.
    pub fn is_unique(&self) -> bool {
        self.flags.intersects(IndexFlags::UNIQUE | IndexFlags::PRIMARY)
    }

    /// Returns the limits of the index's keys.
    pub fn key_limits(&self) -> KeyLimits {
        KeyLimits {
            key: self.key_most.map_or(DEFAULT_MAX_KEY_LEN, usize::from),
            segment: self.segment_limit.map(usize::from).filter(|limit| *limit > 0),
        }
    }
}

const DESCENDING: u8 = 0x40;
const MUST_BE_NULL: u8 = 0x20;
const TEMPLATE_COLUMN: u8 = 0x80;

/// Decodes the flags and column of each segment. Returns `None` if the bytes are not a whole number of segments. The
/// columns of a template are decoded as inherited, even in the indexes of the template itself.
fn decode(bytes: &[u8], flags: IndexFlags) -> Option<Vec<(u8, ColumnId)>> {
    if flags.contains(IndexFlags::EXTENDED_SEGMENTS) {
        let (segments, []) = bytes.as_chunks::<4>() else { return None };
        let segment = |&[flags, _, low, high]: &[u8; 4]| {
            let id = ColumnId::from(u16::from_le_bytes([low, high]));
            (flags, if flags & TEMPLATE_COLUMN != 0 { id.inherited() } else { id })
        };
        return Some(segments.iter().map(segment).collect());
    }
    let (segments, []) = bytes.as_chunks::<2>() else { return None };
    let segment = |bytes: &[u8; 2]| {
        let id = i16::from_le_bytes(*bytes);
        (if id < 0 { DESCENDING } else { 0 }, id.unsigned_abs().into())
    };
    Some(segments.iter().map(segment).collect())
}

/// Encodes the flags and column of each segment. `is_of_template` tells whether the table inherits a column from its
/// template.
fn encode(
    segments: impl Iterator<Item = (u8, ColumnId)>,
    is_of_template: &dyn Fn(ColumnId) -> bool,
) -> Vec<u8> {
    segments
        .flat_map(|(flags, id)| {
            let [low, high] = id.number().to_le_bytes();
            [if is_of_template(id) { flags | TEMPLATE_COLUMN } else { flags }, 0, low, high]
        })
        .collect()
}

impl KeySegment {
    pub(super) fn decode_all(bytes: &[u8], flags: IndexFlags) -> Option<Vec<KeySegment>> {
        let segments = decode(bytes, flags)?.into_iter();
        Some(
            segments
                .map(|(flags, column)| KeySegment { column, descending: flags & DESCENDING != 0 })
                .collect(),
        )
    }

    pub(super) fn encode_all(segments: &[KeySegment], is_of_template: &dyn Fn(ColumnId) -> bool) -> Vec<u8> {
        let flags = |segment: &KeySegment| if segment.descending { DESCENDING } else { 0 };
        encode(segments.iter().map(|segment| (flags(segment), segment.column)), is_of_template)
    }
}

impl IndexCondition {
    pub(super) fn decode_all(bytes: &[u8], flags: IndexFlags) -> Option<Vec<IndexCondition>> {
        let all = decode(bytes, flags)?.into_iter();
        Some(
            all.map(|(flags, column)| IndexCondition { column, must_be_null: flags & MUST_BE_NULL != 0 })
                .collect(),
        )
    }

    pub(super) fn encode_all(
        conditions: &[IndexCondition],
        is_of_template: &dyn Fn(ColumnId) -> bool,
    ) -> Vec<u8> {
        let flags = |one: &IndexCondition| if one.must_be_null { MUST_BE_NULL } else { 0 };
        encode(conditions.iter().map(|one| (flags(one), one.column)), is_of_template)
    }
}
