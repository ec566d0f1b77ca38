//! Active Directory names (`ntds.dit`, `adamntds.dit`). Columns are named after attribute numbers, such as
//! `ATTm590045`. The schema rows map these numbers to attributes.
//!
//! A schema row contains the attribute's name in `ATTm131532` (lDAPDisplayName) and its number in `ATTc131102`
//! (attributeID). Attributes that were added later have another number, in `ATTj591540` (msDS-IntId). `ATTi131105`
//! (isSingleValued) is true if an object has at most one value for the attribute.
//!
//! `ATTc131094` (governsID) contains the number of a class, and `ATTj131122` (linkID) the number of a linked attribute:
//! an even number for one such as `member`, and the next odd number for its counterpart, `memberOf`.
//!
//! Each object has a number, `DNT_col`, and its parent's number, `PDNT_col`. `ATTm589825` (name) contains the
//! object's name below its parent, and `RDNtyp_col` the number of the attribute that the name belongs to. Columns
//! with syntax `b` refer to objects by number.

use std::collections::BTreeMap;
use std::sync::Arc;

use ese_format::record::{ColumnFlags, ColumnType};

use super::fields::{integer, text, visit_fields};
use super::timeline_columns::TimelineColumns;
use crate::names::{NameHierarchy, ValueNames, number_key};
use crate::source_database::SourceDatabase;
use crate::table::{ColumnMeaning, SourceTable, TableColumn, make_column_names_unique};
use crate::value::ExportedValue;

/// The main table. All its Currency columns contain integers.
const OBJECTS: &str = "datatable";
/// The table of links between objects.
const LINKS: &str = "link_table";
/// Columns of the link table that contain object numbers.
const LINK_ENDS: [&str; 2] = ["link_DNT", "backlink_DNT"];
/// Column of the link table that contains half of the attribute's link number.
const LINK_BASE: &str = "link_base";
/// Columns of the link table that contain times in seconds since 1601.
const LINK_TIMES: [&str; 2] = ["link_deactivetime", "link_deltime"];
/// The table of security descriptors. Objects with equal descriptors refer to the same row.
const DESCRIPTORS: &str = "sd_table";
const DESCRIPTOR_ID: &str = "sd_id";
const DESCRIPTOR: &str = "sd_value";
/// Maximum total length in bytes of the descriptors in memory. References to descriptors beyond this limit are exported
/// as numbers.
const MAX_DESCRIPTOR_BYTES: usize = 64 << 20;
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
const CLASS_NUMBER: &str = "ATTc131094";
const LINK_NUMBER: &str = "ATTj131122";
const OBJECT: &str = "DNT_col";
const PARENT: &str = "PDNT_col";
const NAME_ATTRIBUTE: &str = "RDNtyp_col";
const NAME_BELOW_PARENT: &str = "ATTm589825";
const ANCESTORS: &str = "Ancestors_col";
/// Columns of the main table that contain times in seconds since 1601.
const OBJECT_TIMES: [&str; 2] = ["recycle_time_col", "time_col"];
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
/// Syntax letter for attributes and classes, which are stored as numbers.
const IDENTIFIER_SYNTAX: char = 'c';
/// Attributes with the identifier syntax that contain the number of the attribute or class that the row defines.
const OWN_IDENTIFIERS: [&str; 2] = ["attributeID", "governsID"];
/// Syntax letter for binary values.
const BINARY_SYNTAX: char = 'k';
/// Syntax letter for security descriptors, which are stored as numbers in the table of security descriptors.
const DESCRIPTOR_SYNTAX: char = 'p';
/// Attribute that contains the identifier of a server's database. The names of other attributes that contain GUIDs end
/// in GUID.
const INVOCATION: &str = "invocationId";
const REPLICATION_METADATA: &str = "replPropertyMetaData";

/// Meanings of the time columns, and the columns that describe an object.
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

/// The schema, the object names and the security descriptors of an Active Directory database.
#[derive(Debug, Default)]
pub(super) struct DirectorySchema {
    attributes: BTreeMap<u32, SchemaAttribute>,
    /// Names of attributes and classes, keyed by [`number_key`].
    identifiers: Arc<BTreeMap<i64, String>>,
    /// Names of linked attributes, keyed by half of their link number.
    links: Arc<BTreeMap<i64, String>>,
    objects: Arc<NameHierarchy>,
    descriptors: Arc<BTreeMap<i64, Box<[u8]>>>,
}

impl DirectorySchema {
    /// Reads the schema and the objects.
    pub(super) fn read(source: &SourceDatabase) -> DirectorySchema {
        let mut directory = DirectorySchema::read_schema(source);
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
        directory.descriptors = Arc::new(descriptors(source));
        directory
    }

    /// Reads the schema, ignoring rows without a name or a number.
    fn read_schema(source: &SourceDatabase) -> DirectorySchema {
        let (mut attributes, mut identifiers, mut links) =
            (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let columns = [NAME, NUMBER, LATER_NUMBER, SINGLE, CLASS_NUMBER, LINK_NUMBER];
        visit_fields(source, OBJECTS, columns, |[name, number, later, single, class, link]| {
            let Some(name) = text(name) else { return };
            let (number, class) = (integer(&number), integer(&class));
            let later = integer(&later).filter(|_| number.is_some());
            for number in [number, later, class].into_iter().flatten() {
                identifiers.entry(number_key(number)).or_insert_with(|| name.clone());
            }
            if let Some(link) = integer(&link).filter(|link| link % 2 == 0) {
                links.entry(link / 2).or_insert_with(|| name.clone());
            }
            let attribute = SchemaAttribute { name, single: integer(&single).unwrap_or(0) != 0 };
            for number in [number, later].into_iter().flatten() {
                // The stored number has the same 32 bits whether it is signed or unsigned.
                attributes.entry(number as u32).or_insert_with(|| attribute.clone());
            }
        });
        let (identifiers, links) = (Arc::new(identifiers), Arc::new(links));
        DirectorySchema { attributes, identifiers, links, ..DirectorySchema::default() }
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
                let name = column.column.name.as_str();
                if LINK_ENDS.contains(&name) {
                    column.names = Some(ValueNames::Objects(self.objects.clone()));
                } else if name == LINK_BASE {
                    column.names = Some(ValueNames::Numbers(self.links.clone()));
                } else if LINK_TIMES.contains(&name) {
                    column.format.meaning = ColumnMeaning::SecondsSince1601;
                }
            }
        } else if table.name.eq_ignore_ascii_case(DESCRIPTORS) {
            let values = table.columns.iter_mut().filter(|column| column.column.name == DESCRIPTOR);
            values.for_each(|column| column.format.meaning = ColumnMeaning::SecurityDescriptor);
        }
    }

    /// Names the main table's columns after their attributes, and applies the formats given by the schema.
    fn apply_attributes(&self, table: &mut SourceTable) {
        for column in &mut table.columns {
            let name = column.column.name.as_str();
            if name == ANCESTORS {
                column.format.meaning = ColumnMeaning::IntegerList;
            } else if OBJECT_TIMES.contains(&name) {
                column.format.meaning = ColumnMeaning::SecondsSince1601;
            }
            if let Some((syntax, attribute)) = self.find_attribute(name) {
                if attribute.single {
                    column.column.flags.remove(ColumnFlags::MULTI_VALUED);
                    column.format.application_single_valued = true;
                }
                self.apply_syntax(column, syntax, &attribute.name);
                column.column.name.clone_from(&attribute.name);
            }
        }
        make_column_names_unique(table);
    }

    /// Applies the format of an attribute.
    fn apply_syntax(&self, column: &mut TableColumn, syntax: char, attribute: &str) {
        use ColumnType::{Binary, Currency, Long, LongBinary, LongLong};
        match (syntax, column.column.kind) {
            (SECONDS_SYNTAX, Currency | LongLong) => {
                column.format.meaning = ColumnMeaning::SecondsSince1601;
            }
            (_, Currency | LongLong) if TIMES.contains(&attribute) => {
                column.format.meaning = ColumnMeaning::Filetime;
            }
            (OBJECT_SYNTAX, Long) => column.names = Some(ValueNames::Objects(self.objects.clone())),
            (IDENTIFIER_SYNTAX, Long) if !OWN_IDENTIFIERS.contains(&attribute) => {
                column.names = Some(ValueNames::Numbers(self.identifiers.clone()));
            }
            (DESCRIPTOR_SYNTAX, Binary | LongBinary) => {
                column.names = Some(ValueNames::Descriptors(self.descriptors.clone()));
            }
            (BINARY_SYNTAX, Binary | LongBinary) if attribute == REPLICATION_METADATA => {
                column.names = Some(ValueNames::PropertyMetadata(self.identifiers.clone()));
            }
            (BINARY_SYNTAX, Binary | LongBinary)
                if attribute == INVOCATION || attribute.to_ascii_lowercase().ends_with("guid") =>
            {
                column.format.meaning = ColumnMeaning::GuidBytes;
            }
            _ => {}
        }
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

/// Reads the security descriptors, up to a total length.
fn descriptors(source: &SourceDatabase) -> BTreeMap<i64, Box<[u8]>> {
    let (mut found, mut total) = (BTreeMap::new(), 0);
    visit_fields(source, DESCRIPTORS, [DESCRIPTOR_ID, DESCRIPTOR], |[id, descriptor]| {
        if let (Some(id), Some(ExportedValue::Binary(bytes))) = (integer(&id), descriptor)
            && bytes.len() <= MAX_DESCRIPTOR_BYTES - total
        {
            total += bytes.len();
            found.insert(id, bytes.into());
        }
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;
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
        let text = |text: &'static str| Some(ExportedValue::Text(text.into()));
        assert_eq!(name(3), text("DC=example"));
        assert_eq!(name(4), text(r"CN=\ R\,D #1\ ,DC=example"));
        assert_eq!(name(5), text(r"99=\#a\0Ab,CN=\ R\,D #1\ ,DC=example"));
        assert_eq!(name(6), None);
        assert!(table.columns[0].names.is_none(), "the number of the object itself");
    }

    #[test]
    fn links_descriptors_and_guids_are_recognized() {
        let attribute = |name: &str| SchemaAttribute { name: name.into(), single: true };
        let names = |number, name: &str| Arc::new(BTreeMap::from([(number, name.to_owned())]));
        // The owner is the local system, and there are no access control lists.
        let descriptor: Vec<u8> =
            [&[1, 0, 0, 0x80, 20][..], &[0; 15], &[1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0]].concat();
        let directory = DirectorySchema {
            attributes: BTreeMap::from([
                (0, attribute("objectClass")),
                (131_102, attribute("attributeID")),
                (131_353, attribute("nTSecurityDescriptor")),
                (589_826, attribute("objectGUID")),
                (589_827, attribute("replPropertyMetaData")),
            ]),
            identifiers: names(655_369, "user"),
            links: names(1, "member"),
            descriptors: Arc::new(BTreeMap::from([(7, descriptor.clone().into())])),
            ..DirectorySchema::default()
        };
        let applied = |name: &str, columns: &[(&str, ColumnType)]| {
            let mut schema = TableSchema::new(name, TreeId(9), PageNumber::fixed(9));
            schema.columns =
                (256..).zip(columns).map(|(id, (name, kind))| Column::new(id, name, *kind, 0)).collect();
            let mut table = SourceTable::new(&schema, PageSize::KIB_8);
            directory.apply(&mut table);
            table
        };
        let shown = |table: &SourceTable, column: usize, bytes: &[u8]| {
            let mut text = Vec::new();
            table.columns[column].value(bytes).unwrap().write_text(&mut text);
            String::from_utf8(text).unwrap()
        };
        use ColumnType::{Long, LongBinary, LongLong};
        let links = [
            ("link_DNT", Long),
            ("link_base", Long),
            ("link_deltime", LongLong),
            ("link_deactivetime", LongLong),
        ];
        let links = applied(LINKS, &links);
        assert_eq!(shown(&links, 0, &5i32.to_le_bytes()), "5");
        assert_eq!(shown(&links, 1, &1i32.to_le_bytes()), "member");
        for column in [2, 3] {
            assert_eq!(shown(&links, column, &13_013_628_273i64.to_le_bytes()), "2013-05-21T16:44:33Z");
        }
        let objects = [
            ("ATTc0", Long),
            ("ATTc131102", Long),
            ("ATTp131353", LongBinary),
            ("ATTk589826", LongBinary),
            ("ATTk589827", LongBinary),
            ("Ancestors_col", LongBinary),
            ("time_col", LongLong),
        ];
        let objects = applied(OBJECTS, &objects);
        assert_eq!(shown(&objects, 0, &655_369i32.to_le_bytes()), "user");
        assert_eq!(shown(&objects, 1, &655_369i32.to_le_bytes()), "655369", "the number of the row itself");
        assert_eq!(shown(&objects, 2, &7i64.to_le_bytes()), "O:SY");
        assert_eq!(shown(&objects, 2, &descriptor), "O:SY", "a descriptor in the object's row");
        assert_eq!(shown(&objects, 2, &8i64.to_le_bytes()), "0800000000000000", "an unknown number");
        assert_eq!(shown(&objects, 3, &[0xab; 16]), "abababab-abab-abab-abab-abababababab");
        assert_eq!(shown(&objects, 3, &[0xab; 3]), "ababab");
        assert_eq!(shown(&objects, 4, &[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), "[]");
        assert_eq!(shown(&objects, 4, b"ab"), "6162", "another form");
        assert_eq!(shown(&objects, 5, &[2, 0, 0, 0, 1, 1, 0, 0]), "[2,257]");
        assert_eq!(shown(&objects, 5, &[2, 0, 0]), "020000");
        assert_eq!(shown(&objects, 6, &13_013_628_273i64.to_le_bytes()), "2013-05-21T16:44:33Z");
    }
}
