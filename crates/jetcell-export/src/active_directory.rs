//! Names of Active Directory (`ntds.dit`, `adamntds.dit`). Its columns are named after numbers of attributes, such as
//! `ATTm590045`, and the rows of its schema say which attribute has which number.
//!
//! A schema row holds the name in `ATTm131532` (lDAPDisplayName), the number in `ATTc131102` (attributeID), another number
//! in `ATTj591540` (msDS-IntId) of attributes that were added later, and in `ATTi131105` (isSingleValued) whether an object
//! has one value.

use std::collections::{BTreeMap, HashSet};

use ese_format::record::{ColumnFlags, ColumnType};

use crate::cell::{Cell, Item};
use crate::issue::Issues;
use crate::rows::{ReadOptions, read_rows};
use crate::source::Source;
use crate::table::{Table, TableColumn, unique};
use crate::value::Value;

/// The main table of Active Directory. All its Currency columns hold integers.
pub(crate) const DIRECTORY_TABLE: &str = "datatable";
/// Prefix of the columns of Active Directory with security identifiers; the number of the attribute follows.
pub(crate) const DIRECTORY_SID: &str = "ATTr";

/// Whether the tables are those of Active Directory (`ntds.dit`).
pub(crate) fn is_directory(tables: &[Table]) -> bool {
    let there = |wanted: &str| tables.iter().any(|table| table.name.eq_ignore_ascii_case(wanted));
    there(DIRECTORY_TABLE) && there("link_table")
}

const NAME: &str = "ATTm131532";
const NUMBER: &str = "ATTc131102";
const LATER_NUMBER: &str = "ATTj591540";
const SINGLE: &str = "ATTi131105";
const PREFIX: &str = "ATT";
/// Attributes whose large integers are times in 100-nanosecond steps since 1601, by name.
const TIMES: [&str; 14] = [
    "accountExpires",
    "badPasswordTime",
    "creationTime",
    "lastLogoff",
    "lastLogon",
    "lastLogonTimestamp",
    "lastSetTime",
    "lockoutTime",
    "msDS-ApproximateLastLogonTimeStamp",
    "msDS-LastFailedInteractiveLogonTime",
    "msDS-LastSuccessfulInteractiveLogonTime",
    "ms-Mcs-AdmPwdExpirationTime",
    "priorSetTime",
    "pwdLastSet",
];
/// Letter of the syntax of times in seconds since 1601.
const SECONDS_SYNTAX: char = 'l';

/// An attribute of the schema.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Attribute {
    name: String,
    single: bool,
}

/// The attributes of a directory, by number.
#[derive(Debug, Default)]
pub(crate) struct Attributes(BTreeMap<u32, Attribute>);

impl Attributes {
    /// Reads the schema of a directory. Rows that cannot be read name no attribute; the export of the table reports them.
    pub(crate) fn read(source: &Source) -> Attributes {
        let mut found = BTreeMap::new();
        let Some(table) = source.table(DIRECTORY_TABLE) else { return Attributes::default() };
        let at = |name: &str| table.columns.iter().position(|column| column.column.name == name);
        let (Some(name), Some(number)) = (at(NAME), at(NUMBER)) else { return Attributes::default() };
        let (later, single) = (at(LATER_NUMBER), at(SINGLE));
        let mut unreported = Issues::default();
        // No error is possible: the closure has none, and nothing is written.
        let _ = read_rows(source, table, ReadOptions::default(), &mut unreported, |row| {
            let value = |at: Option<usize>| {
                let at = at?;
                integer(table.columns.get(at)?, row.cells.get(at)?)
            };
            let text = row.cells.get(name).and_then(|cell| text(table.columns.get(name)?, cell));
            if let (Some(text), Some(id)) = (text, value(Some(number))) {
                let attribute = Attribute { name: text, single: value(single).unwrap_or(0) != 0 };
                for number in [Some(id), value(later)].into_iter().flatten() {
                    // The stored number is the same 32 bits, with or without a sign.
                    found.entry(number as u32).or_insert_with(|| attribute.clone());
                }
            }
            Ok(())
        });
        Attributes(found)
    }

    /// The number of attributes.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Names the columns of the main table after their attributes, and gives them the form that the schema says.
    pub(crate) fn apply(&self, table: &mut Table) {
        let mut taken = HashSet::new();
        for column in &mut table.columns {
            if let Some((syntax, attribute)) = self.of(&column.column.name) {
                if attribute.single {
                    column.column.flags.remove(ColumnFlags::MULTI_VALUED);
                    column.form.single_of_list = true;
                }
                let eight_bytes = matches!(column.column.kind, ColumnType::Currency | ColumnType::LongLong);
                column.form.seconds_since_1601 = eight_bytes && syntax == SECONDS_SYNTAX;
                column.form.filetime = eight_bytes && TIMES.contains(&attribute.name.as_str());
                column.column.name.clone_from(&attribute.name);
            }
            column.column.name = unique(&column.column.name, &mut taken);
        }
    }

    /// The attribute of a column such as `ATTm590045`, and the letter of its syntax.
    fn of(&self, column: &str) -> Option<(char, &Attribute)> {
        let mut rest = column.strip_prefix(PREFIX)?.chars();
        let syntax = rest.next().filter(char::is_ascii_lowercase)?;
        let digits = rest.as_str();
        // Attributes with a later number are stored with a sign.
        let number = digits.parse::<u32>().ok().or_else(|| Some(digits.parse::<i32>().ok()? as u32))?;
        Some((syntax, self.0.get(&number)?))
    }
}

fn integer(column: &TableColumn, cell: &Cell<'_>) -> Option<i64> {
    match first(column, cell)? {
        Value::Int(value) => Some(value),
        _ => None,
    }
}

fn text(column: &TableColumn, cell: &Cell<'_>) -> Option<String> {
    match first(column, cell)? {
        Value::Text(text) if !text.is_empty() => Some(text.into_owned()),
        _ => None,
    }
}

fn first<'v>(column: &TableColumn, cell: &'v Cell<'_>) -> Option<Value<'v>> {
    let Some(Item::Inline(bytes)) = cell.items().first() else { return None };
    Value::decode(&column.column, bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ese_format::catalog::TableSchema;
    use ese_format::record::Column;
    use ese_format::{PageNumber, PageSize, TreeId};

    #[test]
    fn columns_get_the_names_and_forms_of_their_attributes() {
        let attribute = |name: &str, single| Attribute { name: name.into(), single };
        let attributes = Attributes(BTreeMap::from([
            (590_045, attribute("sAMAccountName", true)),
            (589_920, attribute("pwdLastSet", true)),
            (131_074, attribute("whenCreated", true)),
            (0x8000_0001, attribute("later", false)),
        ]));
        let mut schema = TableSchema::new(DIRECTORY_TABLE, TreeId(9), PageNumber::fixed(9));
        let column = |(id, (name, kind)): (u16, &(&str, ColumnType))| {
            let mut column = Column::new(id, name, *kind, 0);
            column.flags |= ColumnFlags::MULTI_VALUED;
            column
        };
        let columns = [
            ("DNT_col", ColumnType::Long),
            ("ATTm590045", ColumnType::LongText),
            ("ATTq589920", ColumnType::Currency),
            ("ATTl131074", ColumnType::Currency),
            ("ATTk-2147483647", ColumnType::LongBinary),
            ("ATTm1", ColumnType::LongText),
            ("later", ColumnType::LongText),
        ];
        schema.columns = (256..).zip(&columns).map(column).collect();
        let mut table = Table::new(&schema, None, PageSize::KIB_8);
        attributes.apply(&mut table);
        let names: Vec<&str> = table.columns.iter().map(|column| column.column.name.as_str()).collect();
        assert_eq!(
            names,
            ["DNT_col", "sAMAccountName", "pwdLastSet", "whenCreated", "later", "ATTm1", "later_2"]
        );
        let form = |at: usize| table.columns[at].form;
        assert!(form(1).single_of_list && !form(1).filetime && !form(4).single_of_list);
        assert!(form(2).filetime && !form(2).seconds_since_1601);
        assert!(form(3).seconds_since_1601 && !form(3).filetime);
    }
}
