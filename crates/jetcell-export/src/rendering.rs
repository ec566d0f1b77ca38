//! Choices about the form of values in the output.

use ese_format::record::ColumnType;

use crate::active_directory::{Attributes, DIRECTORY_SID, DIRECTORY_TABLE};
use crate::table::{Ids, Table};
use crate::usage_monitor;

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

/// Knowledge of an application about its columns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Profile {
    /// Columns as the catalog names and types them.
    #[default]
    None,
    /// The profile of the database's schema, if it is known.
    BySchema,
    /// Active Directory: names of attributes, single values without lists, times.
    Directory,
    /// System Resource Usage Monitor: names of providers, applications and users, times.
    UsageMonitor,
}

/// What is known about the columns of a database.
#[derive(Debug, Default)]
pub(crate) struct Knowledge {
    /// The tables are those of Active Directory.
    pub(crate) directory: bool,
    /// The attributes of its schema.
    pub(crate) attributes: Option<Attributes>,
    /// The applications and users of the usage monitor.
    pub(crate) ids: Option<Ids>,
}

impl Rendering {
    /// The table with the forms of its columns.
    pub(crate) fn of(self, table: &Table, known: &Knowledge) -> Table {
        let Knowledge { directory, attributes, ids } = known;
        let directory = *directory;
        let integers = match self.currency {
            Currency::BySchema => directory,
            Currency::Decimal => false,
            Currency::Integer => true,
        };
        let mut table = table.clone();
        let of_objects = directory && table.name.eq_ignore_ascii_case(DIRECTORY_TABLE);
        for column in &mut table.columns {
            // Both types store eight bytes, little-endian.
            if integers && column.column.kind == ColumnType::Currency {
                column.column.kind = ColumnType::LongLong;
            }
            let number = column.column.name.strip_prefix(DIRECTORY_SID).unwrap_or_default();
            column.form.directory_sid =
                of_objects && !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
            column.form.wide_integers_as_text = self.wide_integers_as_text;
        }
        if let (true, Some(attributes)) = (of_objects, attributes) {
            attributes.apply(&mut table);
        }
        if let Some(ids) = ids {
            usage_monitor::apply(&mut table, ids);
        }
        table
    }
}
