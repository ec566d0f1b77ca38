//! Definition of a column: number, type, length, flags, default, and offset in the record.

use std::cmp::Ordering;
use std::fmt;

/// A column number within a table. Its range determines the column's storage class. ESE: `COLUMNID`.
///
/// The fixed and variable columns of a derived table continue the numbering of its template. Tagged columns are
/// numbered separately, so the id of a tagged column also states whether it is inherited ([`ColumnId::inherited`]).
/// Ids sort in the order in which records store columns: inherited tagged columns come before the table's own.
#[doc(alias = "COLUMNID")]
#[doc(alias = "FID")]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ColumnId(pub u32);

/// Storage class of a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ColumnClass {
    /// Values are at the same offset in every record.
    Fixed,
    /// Values are stored after an array of their end offsets.
    Variable,
    /// Values are in the tagged area. Only existing values are stored.
    Tagged,
}

impl ColumnId {
    /// Returns the position of a variable column among the variable columns of a record.
    pub(super) fn variable_index(self) -> usize {
        usize::from(self.number().saturating_sub(ColumnId::FIRST_VARIABLE.number()))
    }

    /// Last column number in the fixed class.
    pub const LAST_FIXED: ColumnId = ColumnId(127);
    /// First column number in the variable class.
    pub const FIRST_VARIABLE: ColumnId = ColumnId(128);
    /// Last column number in the variable class.
    pub const LAST_VARIABLE: ColumnId = ColumnId(255);
    /// First column number in the tagged class.
    pub const FIRST_TAGGED: ColumnId = ColumnId(256);

    const INHERITED: u32 = 1 << 31;

    /// Returns the id under which a derived table inherits this column of its template.
    #[must_use]
    pub const fn inherited(self) -> ColumnId {
        match self.class() {
            ColumnClass::Tagged => ColumnId(self.0 | ColumnId::INHERITED),
            ColumnClass::Fixed | ColumnClass::Variable => self,
        }
    }

    /// Returns the id that the column has in the table that defines it.
    #[must_use]
    pub const fn own(self) -> ColumnId {
        ColumnId(self.0 & !ColumnId::INHERITED)
    }

    /// Returns true if this is the id of an inherited tagged column.
    pub const fn is_inherited(self) -> bool {
        self.0 & ColumnId::INHERITED != 0
    }

    /// Returns the stored number of the column. ESE: `FID`.
    pub const fn number(self) -> u16 {
        self.0 as u16
    }

    /// Returns the storage class for this number.
    pub const fn class(self) -> ColumnClass {
        match self.own().0 {
            0..=127 => ColumnClass::Fixed,
            128..=255 => ColumnClass::Variable,
            _ => ColumnClass::Tagged,
        }
    }

    /// Returns the number in the one-byte form that records use for column numbers up to 255.
    pub(super) fn low_byte(self) -> u8 {
        self.0.to_le_bytes()[0]
    }
}

impl From<u16> for ColumnId {
    fn from(number: u16) -> ColumnId {
        ColumnId(number.into())
    }
}

impl Ord for ColumnId {
    fn cmp(&self, other: &ColumnId) -> Ordering {
        let place = |id: &ColumnId| (id.class() as u8, !id.is_inherited(), id.own().0);
        place(self).cmp(&place(other))
    }
}

impl PartialOrd for ColumnId {
    fn partial_cmp(&self, other: &ColumnId) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Debug for ColumnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.is_inherited() { "inherited c" } else { "c" }, self.own().0)
    }
}

impl fmt::Display for ColumnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.own().0.fmt(f)
    }
}

/// Type of a column. ESE: `JET_coltyp`.
///
/// Code 0 marks a deleted column, and code 13 is the obsolete SLV. Neither is a type here.
#[doc(alias = "JET_coltyp")]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum ColumnType {
    /// Boolean value, stored as 0x00 or 0xFF.
    Bit = 1,
    /// Unsigned 8-bit integer.
    UnsignedByte = 2,
    /// Signed 16-bit integer.
    Short = 3,
    /// Signed 32-bit integer.
    Long = 4,
    /// Signed 64-bit integer in units of 1/10,000.
    Currency = 5,
    /// Single-precision IEEE number.
    Single = 6,
    /// Double-precision IEEE number.
    Double = 7,
    /// Number of days since 1899-12-30, as a double-precision IEEE number.
    DateTime = 8,
    /// Binary data of up to 255 bytes.
    Binary = 9,
    /// Text of up to 255 bytes.
    Text = 10,
    /// Binary data, possibly stored in the long-value tree.
    LongBinary = 11,
    /// Text, possibly stored in the long-value tree.
    LongText = 12,
    /// Unsigned 32-bit integer.
    UnsignedLong = 14,
    /// Signed 64-bit integer.
    LongLong = 15,
    /// 16-byte GUID, whose first three groups are little-endian.
    Guid = 16,
    /// Unsigned 16-bit integer.
    UnsignedShort = 17,
    /// Unsigned 64-bit integer; occurs only in newer databases.
    UnsignedLongLong = 18,
}

impl ColumnType {
    /// Returns the type with the given on-disk code.
    pub const fn from_code(code: u32) -> Option<ColumnType> {
        Some(match code {
            1 => ColumnType::Bit,
            2 => ColumnType::UnsignedByte,
            3 => ColumnType::Short,
            4 => ColumnType::Long,
            5 => ColumnType::Currency,
            6 => ColumnType::Single,
            7 => ColumnType::Double,
            8 => ColumnType::DateTime,
            9 => ColumnType::Binary,
            10 => ColumnType::Text,
            11 => ColumnType::LongBinary,
            12 => ColumnType::LongText,
            14 => ColumnType::UnsignedLong,
            15 => ColumnType::LongLong,
            16 => ColumnType::Guid,
            17 => ColumnType::UnsignedShort,
            18 => ColumnType::UnsignedLongLong,
            _ => return None,
        })
    }

    /// Returns the on-disk code of the type.
    pub const fn code(self) -> u32 {
        self as u32
    }

    /// Returns the length in bytes of all values of the type, or `None` for binary and text.
    pub const fn fixed_size(self) -> Option<usize> {
        Some(match self {
            ColumnType::Bit | ColumnType::UnsignedByte => 1,
            ColumnType::Short | ColumnType::UnsignedShort => 2,
            ColumnType::Long | ColumnType::UnsignedLong | ColumnType::Single => 4,
            ColumnType::Currency
            | ColumnType::Double
            | ColumnType::DateTime
            | ColumnType::LongLong
            | ColumnType::UnsignedLongLong => 8,
            ColumnType::Guid => 16,
            ColumnType::Binary | ColumnType::Text | ColumnType::LongBinary | ColumnType::LongText => {
                return None;
            }
        })
    }

    /// Returns true if values may be stored in the long-value tree.
    pub const fn is_long(self) -> bool {
        matches!(self, ColumnType::LongBinary | ColumnType::LongText)
    }

    /// Returns true if the type is text or long text.
    pub const fn is_text(self) -> bool {
        matches!(self, ColumnType::Text | ColumnType::LongText)
    }
}

bitflags::bitflags! {
    /// Column flags stored in the catalog. ESE: `fieldflag`.
    #[doc(alias = "FIELDFLAG")]
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct ColumnFlags: u32 {
        /// The column does not allow null.
        const NOT_NULL = 0x1;
        /// The engine counts updates of the record in this column.
        const VERSION = 0x2;
        /// The engine assigns increasing values to this column.
        const AUTO_INCREMENT = 0x4;
        /// A record may hold several values.
        const MULTI_VALUED = 0x8;
        /// The column has a default value.
        const HAS_DEFAULT = 0x10;
        /// The column is changed by delta operations.
        const ESCROW = 0x20;
        /// The engine finalises the record when the escrow value reaches zero.
        const FINALIZE = 0x40;
        /// A callback provides the default value.
        const USER_DEFINED_DEFAULT = 0x80;
        /// The column belongs to a template table. Template columns of the oldest databases lack this flag, and records
        /// of derived tables do not mark the values of such columns as inherited.
        const TEMPLATE = 0x100;
        /// The record is deleted when the escrow value reaches zero.
        const DELETE_ON_ZERO = 0x200;
        /// Placeholder for a key column that was removed from the primary index.
        const PRIMARY_INDEX_PLACEHOLDER = 0x800;
        /// Long values in this column may be compressed.
        const COMPRESSED = 0x1000;
        /// Long values in this column are encrypted.
        const ENCRYPTED = 0x2000;
        /// Unknown bits are preserved.
        const _ = !0;
    }
}

/// Character encoding of text columns, as a Windows code page number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct CodePage(pub u32);

impl CodePage {
    /// Code page of columns that are not text.
    pub const NONE: CodePage = CodePage(0);
    /// Code page of UTF-16, little-endian.
    pub const UNICODE: CodePage = CodePage(1200);
    /// Code page of Western European text in Windows.
    pub const WESTERN: CodePage = CodePage(1252);
    /// Code page of 7-bit ASCII.
    pub const ASCII: CodePage = CodePage(20127);
}

/// One column of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Column {
    /// Number of the column. Its range determines the storage class.
    pub id: ColumnId,
    /// Name of the column.
    pub name: String,
    /// Type of the values.
    pub kind: ColumnType,
    /// Maximum length of a value in bytes; 0 means no limit.
    #[doc(alias = "SpaceUsage")]
    pub size: u32,
    /// Flags of the column.
    pub flags: ColumnFlags,
    /// Character encoding of a text column.
    pub code_page: CodePage,
    /// Default value, which applies to records that do not store the column.
    pub default: Option<Vec<u8>>,
    /// Offset of a fixed column from the start of the record; 0 for all other columns.
    #[doc(alias = "RecordOffset")]
    pub record_offset: u16,
}

impl Column {
    /// Creates a column without a default. [`layout_fixed_columns`] sets the offsets of fixed columns.
    pub fn new(id: u16, name: &str, kind: ColumnType, size: u32) -> Column {
        Column {
            id: id.into(),
            name: name.to_owned(),
            kind,
            size: kind.fixed_size().map_or(size, |size| size as u32),
            flags: ColumnFlags::empty(),
            code_page: if kind.is_text() { CodePage::WESTERN } else { CodePage::NONE },
            default: None,
            record_offset: 0,
        }
    }

    /// Returns the id that marks the column's values in the tagged area of a record.
    pub(super) fn tagged_id(&self) -> ColumnId {
        if self.flags.contains(ColumnFlags::TEMPLATE) { self.id } else { self.id.own() }
    }

    /// Returns the storage class of the column.
    pub const fn class(&self) -> ColumnClass {
        self.id.class()
    }

    /// Returns the number of bytes that a fixed column occupies in the record.
    pub fn stored_size(&self) -> usize {
        self.kind.fixed_size().unwrap_or(self.size as usize)
    }
}

/// Sorts columns by number, and assigns offsets that pack the fixed columns in that order.
pub fn layout_fixed_columns(columns: &mut [Column]) {
    columns.sort_by_key(|column| column.id);
    let mut offset = super::SKELETON_LEN;
    for column in columns.iter_mut().filter(|column| column.class() == ColumnClass::Fixed) {
        column.record_offset = u16::try_from(offset).unwrap_or(u16::MAX);
        offset = offset.saturating_add(column.stored_size());
    }
}
