//! Rows that an export contains only on request, and the columns that mark them.

use std::fmt;

use ese_format::record::ColumnType;

/// Rows to export in addition to the current rows on intact pages. Each choice adds columns that mark these rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AdditionalRows {
    /// Rows that are flagged as deleted. Adds the column `_deleted`.
    pub deleted: bool,
    /// Rows in the free space of pages, and on pages that the table no longer uses. Adds the columns `_carved_page`,
    /// `_carved_offset` and `_confidence`, which are null in other rows.
    pub carved: bool,
    /// Rows on pages with a bad checksum. Adds the column `_damaged`.
    pub damaged: bool,
}

/// Confidence that a carved row is a whole row of its table. It says nothing about when or why the row was removed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum CarveConfidence {
    /// The key, which precedes the row, is overwritten. Only the row itself was recognized.
    Low,
    /// The key and the row were recognized, but the end of the last value is not known. The value may be too long or
    /// too short.
    Medium,
    /// The key, the row and its end were recognized, on a page of the table with a valid checksum.
    High,
}

impl CarveConfidence {
    /// Returns the text in the column `_confidence`.
    pub fn name(self) -> &'static str {
        match self {
            CarveConfidence::Low => "low",
            CarveConfidence::Medium => "medium",
            CarveConfidence::High => "high",
        }
    }
}

impl fmt::Display for CarveConfidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Origin of a carved row, in addition to its page, which is known for every exported row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CarvedOrigin {
    /// Offset of the first recognized byte on the page. This is the start of the node, or of the row if its key is
    /// overwritten.
    pub offset: usize,
    /// Confidence that this is a row.
    pub confidence: CarveConfidence,
}

/// A column that describes a row instead of containing a value of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RowMark {
    /// Whether the row is flagged as deleted.
    Deleted,
    /// Page of a carved row.
    CarvedPage,
    /// Offset of a carved row on its page.
    CarvedOffset,
    /// Confidence of a carved row.
    Confidence,
    /// Whether the page of the row has a bad checksum.
    Damaged,
}

impl AdditionalRows {
    /// Returns the columns that mark these rows, in order.
    pub fn marks(self) -> Vec<RowMark> {
        let carved = [RowMark::CarvedPage, RowMark::CarvedOffset, RowMark::Confidence];
        let mut marks = Vec::new();
        marks.extend(self.deleted.then_some(RowMark::Deleted));
        marks.extend(carved.into_iter().filter(|_| self.carved));
        marks.extend(self.damaged.then_some(RowMark::Damaged));
        marks
    }
}

impl RowMark {
    /// Returns the name of the column.
    pub fn name(self) -> &'static str {
        match self {
            RowMark::Deleted => "_deleted",
            RowMark::CarvedPage => "_carved_page",
            RowMark::CarvedOffset => "_carved_offset",
            RowMark::Confidence => "_confidence",
            RowMark::Damaged => "_damaged",
        }
    }

    /// Returns the type of the values.
    pub fn kind(self) -> ColumnType {
        match self {
            RowMark::Deleted | RowMark::Damaged => ColumnType::Bit,
            RowMark::CarvedPage | RowMark::CarvedOffset => ColumnType::UnsignedLong,
            RowMark::Confidence => ColumnType::Text,
        }
    }
}
