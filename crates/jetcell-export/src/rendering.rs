//! Options for the format of values in the output.

use ese_format::record::ColumnType;

use crate::profile::{Knowledge, Profile};
use crate::table::Table;

/// Format of the values in the output. The default leaves the stored values unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rendering {
    /// Whether to write an apostrophe before CSV fields that a spreadsheet would interpret as a formula.
    pub csv_safe: bool,
    /// Format of Currency columns.
    pub currency: Currency,
    /// Application profile with names and formats of columns.
    pub profile: Profile,
    /// Whether to write integers beyond 2^53 as strings in JSON.
    pub wide_integers_as_text: bool,
}

/// Format of Currency columns. Windows stores 64-bit integers in them, such as times and identifiers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Currency {
    /// Integers in databases whose schema is known to store integers, decimals in others.
    #[default]
    BySchema,
    /// Decimals with four digits after the decimal point.
    Decimal,
    /// Stored integers.
    Integer,
}

impl Rendering {
    /// Returns the table with these formats applied to its columns.
    pub(crate) fn of(self, table: &Table, known: &Knowledge) -> Table {
        let integers = match self.currency {
            Currency::BySchema => known.directory,
            Currency::Decimal => false,
            Currency::Integer => true,
        };
        let mut table = table.clone();
        for column in &mut table.columns {
            // Both types store eight bytes in little-endian order.
            if integers && column.column.kind == ColumnType::Currency {
                column.column.kind = ColumnType::LongLong;
            }
            column.form.wide_integers_as_text = self.wide_integers_as_text;
        }
        known.apply(&mut table);
        table
    }
}
