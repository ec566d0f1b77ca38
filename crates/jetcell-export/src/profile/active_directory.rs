//! Active Directory names (`ntds.dit`, `adamntds.dit`). Columns are named after attribute numbers, such as
//! `ATTm590045`. The schema rows map these numbers to attributes.
//!
//! A schema row contains the attribute's name in `ATTm131532` (lDAPDisplayName) and its number in `ATTc131102`
//! (attributeID). Attributes that were added later have another number, in `ATTj591540` (msDS-IntId). `ATTi131105`
//! (isSingleValued) is true if an object has at most one value for the attribute.
//!
//! Each object has a number, `DNT_col`, and its parent's number, `PDNT_col`. `ATTm589825` (name) contains the
//! object's name below its parent, and `RDNtyp_col` the number of the attribute that the name belongs to. Columns
//! with syntax `b` refer to objects by number.

use std::collections::BTreeMap;
use std::sync::Arc;

use ese_format::record::{ColumnFlags, ColumnType};

use super::fields::{integer, text, visit_fields};
use super::timeline_columns::TimelineColumns;
use crate::names::{NameHierarchy, ValueNames};
use crate::source_database::SourceDatabase;
use crate::table::{ColumnMeaning, SourceTable, make_column_names_unique};

/// The main table. All its Currency columns contain integers.
const OBJECTS: &str = "datatable";
/// The table of links between objects.
const LINKS: &str = "link_table";
/// Columns of the link table that contain object numbers.
const LINK_ENDS: [&str; 2] = ["link_DNT", "backlink_DNT"];
/// Prefix of columns that contain security identifiers. It is followed by the attribute number.
const SECURITY_IDENTIFIER: &str = "ATTr";

/// Returns true if the tables belong to Active Directory (`ntds.dit`).
pub(super) fn matches(source: &SourceDatabase) -> bool {
    source.table(OBJECTS).is_some() && source.table(LINKS).is_some()
}

/// Marks the columns that contain security identifiers, whose last part is big-endian.
pub(super) fn mark_security_identifiers(table: &mut SourceTable) {
    if !table.name.eq_ignore_ascii_case(OBJECTS) {
        return;
    }
    for column in &mut table.columns {
        let number = column.column.name.strip_prefix(SECURITY_IDENTIFIER).unwrap_or_default();
        if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) {
            column.format.meaning = ColumnMeaning::DirectorySid;
        }
    }
}

const NAME: &str = "ATTm131532";
const NUMBER: &str = "ATTc131102";
const LATER_NUMBER: &str = "ATTj591540";
const SINGLE: &str = "ATTi131105";
const OBJECT: &str = "DNT_col";
const PARENT: &str = "PDNT_col";
const NAME_ATTRIBUTE: &str = "RDNtyp_col";
const NAME_BELOW_PARENT: &str = "ATTm589825";
/// Number of the root object, which has no name.
const ROOT: i64 = 2;
const PREFIX: &str = "ATT";
/// Names of attributes whose large integers are times in units of 100 nanoseconds since 1601.
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
/// Syntax letter for times in seconds since 1601.
const SECONDS_SYNTAX: char = 'l';
/// Syntax letter for object names, which are stored as object numbers.
const OBJECT_SYNTAX: char = 'b';

/// Meaning of the times, and columns that describe an object.
pub(super) const TIMELINE: TimelineColumns = TimelineColumns {
    meanings: &[
        ("accountExpires", "account expires"),
        ("badPasswordTime", "bad password on this domain controller"),
        ("lastLogon", "last logon on this domain controller"),
        ("lastLogonTimestamp", "last logon, replicated with a delay"),
        ("lockoutTime", "account locked"),
        ("pwdLastSet", "password set"),
        ("whenChanged", "object changed on this domain controller"),
        ("whenCreated", "object created"),
    ],
    descriptions: &["distinguishedName", "name", "sAMAccountName"],
};

/// An attribute in the schema.
#[derive(Clone, PartialEq, Eq, Debug)]
struct SchemaAttribute {
    name: String,
    single: bool,
}

/// The schema attributes by number, and the object names, of an Active Directory database.
#[derive(Debug, Default)]
pub(super) struct DirectorySchema {
    attributes: BTreeMap<u32, SchemaAttribute>,
    objects: Arc<NameHierarchy>,
}

impl DirectorySchema {
    /// Reads the schema and the objects.
    pub(super) fn read(source: &SourceDatabase) -> DirectorySchema {
        let mut directory = DirectorySchema { attributes: attributes(source), ..DirectorySchema::default() };
        let mut objects = NameHierarchy::default();
        let columns = [OBJECT, PARENT, NAME_ATTRIBUTE, NAME_BELOW_PARENT];
        visit_fields(source, OBJECTS, columns, |[object, parent, attribute, name]| {
            let numbers = (integer(&object), integer(&parent), integer(&attribute));
            if let ((Some(object), Some(parent), Some(attribute)), Some(name)) = (numbers, text(name))
                && object != ROOT
            {
                objects.insert(object, parent, &directory.relative_name(attribute, &name));
            }
        });
        directory.objects = Arc::new(objects);
        directory
    }

    /// Returns true if the database contains schema rows.
    pub(super) fn has_schema(&self) -> bool {
        !self.attributes.is_empty()
    }

    /// Returns a component of a distinguished name, such as `CN=Users`.
    fn relative_name(&self, attribute: i64, name: &str) -> String {
        let attribute = match self.attributes.get(&(attribute as u32)) {
            Some(attribute) => attribute.name.to_uppercase(),
            None => attribute.to_string(),
        };
        let mut part = format!("{attribute}=");
        for (at, character) in name.char_indices() {
            let outer_space = character == ' ' && (at == 0 || at + 1 == name.len());
            match character {
                ',' | '+' | '"' | '\\' | '<' | '>' | ';' | '=' => part.extend(['\\', character]),
                '#' if at == 0 => part.push_str("\\#"),
                ' ' if outer_space => part.push_str("\\ "),
                // The names of deleted objects contain a line feed.
                control if control.is_ascii_control() => part.push_str(&format!("\\{:02X}", control as u32)),
                other => part.push(other),
            }
        }
        part
    }

    /// Applies the directory's names and formats to a table.
    pub(super) fn apply(&self, table: &mut SourceTable) {
        if table.name.eq_ignore_ascii_case(OBJECTS) {
            self.apply_attributes(table);
        } else if table.name.eq_ignore_ascii_case(LINKS) {
            for column in &mut table.columns {
                if LINK_ENDS.contains(&column.column.name.as_str()) {
                    column.names = Some(ValueNames::Objects(self.objects.clone()));
                }
            }
        }
    }

    /// Names the main table's columns after their attributes, and applies the formats given by the schema.
    fn apply_attributes(&self, table: &mut SourceTable) {
        for column in &mut table.columns {
            if let Some((syntax, attribute)) = self.find_attribute(&column.column.name) {
                if attribute.single {
                    column.column.flags.remove(ColumnFlags::MULTI_VALUED);
                    column.format.application_single_valued = true;
                }
                let eight_bytes = matches!(column.column.kind, ColumnType::Currency | ColumnType::LongLong);
                if eight_bytes && syntax == SECONDS_SYNTAX {
                    column.format.meaning = ColumnMeaning::SecondsSince1601;
                } else if eight_bytes && TIMES.contains(&attribute.name.as_str()) {
                    column.format.meaning = ColumnMeaning::Filetime;
                } else if syntax == OBJECT_SYNTAX && column.column.kind == ColumnType::Long {
                    column.names = Some(ValueNames::Objects(self.objects.clone()));
                }
                column.column.name.clone_from(&attribute.name);
            }
        }
        make_column_names_unique(table);
    }

    /// Returns the syntax letter and the attribute for a column name such as `ATTm590045`.
    fn find_attribute(&self, column: &str) -> Option<(char, &SchemaAttribute)> {
        let mut rest = column.strip_prefix(PREFIX)?.chars();
        let syntax = rest.next().filter(char::is_ascii_lowercase)?;
        let digits = rest.as_str();
        // The numbers of attributes that were added later are stored as signed integers.
        let number = digits.parse::<u32>().ok().or_else(|| Some(digits.parse::<i32>().ok()? as u32))?;
        Some((syntax, self.attributes.get(&number)?))
    }
}

/// Reads the schema, ignoring rows without a name or a number.
fn attributes(source: &SourceDatabase) -> BTreeMap<u32, SchemaAttribute> {
    let mut found = BTreeMap::new();
    visit_fields(source, OBJECTS, [NAME, NUMBER, LATER_NUMBER, SINGLE], |[name, number, later, single]| {
        if let (Some(name), Some(number)) = (text(name), integer(&number)) {
            let attribute = SchemaAttribute { name, single: integer(&single).unwrap_or(0) != 0 };
            for number in [Some(number), integer(&later)].into_iter().flatten() {
                // The stored number has the same 32 bits whether it is signed or unsigned.
                found.entry(number as u32).or_insert_with(|| attribute.clone());
            }
        }
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::ExportedValue;
    use ese_format::catalog::TableSchema;
    use ese_format::record::Column;
    use ese_format::{PageNumber, PageSize, TreeId};

    #[test]
    fn columns_get_the_names_and_forms_of_their_attributes() {
        let attribute = |name: &str, single| SchemaAttribute { name: name.into(), single };
        let attributes = BTreeMap::from([
            (590_045, attribute("sAMAccountName", true)),
            (589_920, attribute("pwdLastSet", true)),
            (131_074, attribute("whenCreated", true)),
            (0x8000_0001, attribute("later", false)),
            (131_108, attribute("member", false)),
            (3, attribute("cn", true)),
            (1_376_281, attribute("dc", true)),
        ]);
        let mut objects = NameHierarchy::default();
        let mut directory = DirectorySchema { attributes, ..DirectorySchema::default() };
        for (object, parent, attribute, name) in
            [(3, ROOT, 1_376_281, "example"), (4, 3, 3, " R,D #1 "), (5, 4, 99, "#a\nb")]
        {
            objects.insert(object, parent, &directory.relative_name(attribute, name));
        }
        directory.objects = Arc::new(objects);
        let mut schema = TableSchema::new(OBJECTS, TreeId(9), PageNumber::fixed(9));
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
            ("ATTb131108", ColumnType::Long),
        ];
        schema.columns = (256..).zip(&columns).map(column).collect();
        let mut table = SourceTable::new(&schema, PageSize::KIB_8);
        directory.apply(&mut table);
        let names: Vec<&str> = table.columns.iter().map(|column| column.column.name.as_str()).collect();
        assert_eq!(
            names,
            ["DNT_col", "sAMAccountName", "pwdLastSet", "whenCreated", "later", "ATTm1", "later_2", "member"]
        );
        let form = |at: usize| table.columns[at].format;
        assert!(form(1).application_single_valued && !form(4).application_single_valued);
        let meanings = [1, 2, 3, 4].map(|at| form(at).meaning);
        assert_eq!(
            meanings,
            [
                ColumnMeaning::Stored,
                ColumnMeaning::Filetime,
                ColumnMeaning::SecondsSince1601,
                ColumnMeaning::Stored
            ]
        );
        let name = |number| table.columns[7].names.as_ref().unwrap().lookup(&ExportedValue::Int(number));
        assert_eq!(name(3).unwrap(), "DC=example");
        assert_eq!(name(4).unwrap(), r"CN=\ R\,D #1\ ,DC=example");
        assert_eq!(name(5).unwrap(), r"99=\#a\0Ab,CN=\ R\,D #1\ ,DC=example");
        assert_eq!(name(6), None);
        assert!(table.columns[0].names.is_none(), "the number of the object itself");
    }
}
