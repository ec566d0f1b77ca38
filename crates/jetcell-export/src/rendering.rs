//! Options that control how values are formatted in the output.

use ese_format::record::ColumnType;

use crate::profile::{ApplicationProfile, ProfileData};
use crate::table::SourceTable;

/// Options for formatting values in export output. By default, stored values are left unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RenderingOptions {
    /// Whether to write an apostrophe before CSV fields that a spreadsheet would treat as a formula.
    pub csv_safe: bool,
    /// Format of Currency columns.
    pub currency: CurrencyFormat,
    /// Application profile that provides column names and formats.
    pub profile: ApplicationProfile,
    /// Whether JSON output contains integers beyond 2^53 as strings.
    pub wide_integers_as_text: bool,
    /// Whether JSON output omits columns that are null.
    pub omit_nulls: bool,
}

/// How to format the values in Currency columns. Windows stores 64-bit integers in them, such as times and
/// identifiers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CurrencyFormat {
    /// Renders integers in databases whose schema is known to store integers in these columns, and decimals in all
    /// others.
    #[default]
    BySchema,
    /// Renders decimals with four digits after the decimal point.
    Decimal,
    /// Renders the stored integers.
    Integer,
}

impl RenderingOptions {
    /// Returns the table with these formats applied to its columns.
    pub(crate) fn apply_to(self, table: &SourceTable, known: &ProfileData) -> SourceTable {
        let integers = match self.currency {
            CurrencyFormat::BySchema => known.directory,
            CurrencyFormat::Decimal => false,
            CurrencyFormat::Integer => true,
        };
        let mut table = table.clone();
        for column in &mut table.columns {
            // Both types store eight bytes in little-endian order.
            if integers && column.column.kind == ColumnType::Currency {
                column.column.kind = ColumnType::LongLong;
            }
            column.format.wide_integers_as_text = self.wide_integers_as_text;
        }
        known.apply(&mut table);
        table
    }
}
