//! Choices about the form of values in the output.

use ese_format::record::ColumnType;

use crate::profile::{Knowledge, Profile};
use crate::table::Table;

/// Form of the values in the output. The default changes nothing that is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rendering {
    /// Write an apostrophe before CSV fields that a spreadsheet would take for a formula.
    pub csv_safe: bool,
    /// Form of Currency columns.
    pub currency: Currency,
    /// Names and forms that the application of the database gives to its columns.
    pub profile: Profile,
    /// Write integers beyond 2^53 as strings in JSON.
    pub wide_integers_as_text: bool,
}

/// Form of Currency columns. Windows stores 64-bit integers in them, such as times and identifiers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Currency {
    /// Integers in databases whose schema is known to store integers, decimals in others.
    #[default]
    BySchema,
    /// Decimals with four digits behind the point.
    Decimal,
    /// The stored integers.
    Integer,
}

impl Rendering {
    /// The table with the forms of its columns.
    pub(crate) fn of(self, table: &Table, known: &Knowledge) -> Table {
        let integers = match self.currency {
            Currency::BySchema => known.directory,
            Currency::Decimal => false,
            Currency::Integer => true,
        };
        let mut table = table.clone();
        for column in &mut table.columns {
            // Both types store eight bytes, little-endian.
            if integers && column.column.kind == ColumnType::Currency {
                column.column.kind = ColumnType::LongLong;
            }
            column.form.wide_integers_as_text = self.wide_integers_as_text;
        }
        known.apply(&mut table);
        table
    }
}
