//! The web cache of Internet Explorer and Edge (`WebCacheV01.dat`): container names, times,
//! headers and cookies.
//!
//! The table `Containers` lists the containers. The entries in container 3, for example, are in the table
//! `Container_3`. Newer cookies are in tables such as `CookieEntryEx_2`, and the hosts that require HTTPS (HSTS) in
//! tables such as `HstsEntryEx_3`.

use std::collections::BTreeMap;
use std::sync::Arc;

use ese_format::record::ColumnType;

use super::fields::{integer, text, visit_fields};
use super::timeline_columns::TimelineColumns;
use crate::names::ValueNames;
use crate::source_database::SourceDatabase;
use crate::table::{ColumnMeaning, SourceTable};

const CONTAINERS: &str = "Containers";
const CONTAINER: &str = "Container_";
const ID: &str = "ContainerId";
/// Columns that contain times in units of 100 nanoseconds since 1601.
const TIMES: [&str; 12] = [
    "AccessedTime",
    "CreationTime",
    "Expires",
    "ExpiryTime",
    "LastAccessTime",
    "LastModified",
    "LastModifiedTime",
    "LastScavengeTime",
    "LastTimeUsed",
    "ModifiedTime",
    "PostCheckTime",
    "SyncTime",
];
/// Columns that contain HTTP headers in ASCII.
const HEADERS: [&str; 2] = ["RequestHeaders", "ResponseHeaders"];
/// Prefixes of tables whose binary columns contain ASCII text.
const ENTRIES: [&str; 2] = ["CookieEntryEx_", "HstsEntryEx_"];

/// Meanings of the time columns, and the columns that describe an entry.
pub(super) const TIMELINE: TimelineColumns = TimelineColumns {
    meanings: &[
        ("AccessedTime", "last access"),
        ("CreationTime", "entry created"),
        ("ExpiryTime", "entry expires"),
        ("ModifiedTime", "content modified, from the server"),
        ("PostCheckTime", "next check for changes"),
        ("SyncTime", "last synchronization with the server"),
        ("LastAccessTime", "last access of the container"),
        ("LastModifiedTime", "container modified"),
        ("LastScavengeTime", "last cleanup of the container"),
        ("Expires", "expires"),
        ("LastModified", "changed"),
        ("LastTimeUsed", "last use"),
    ],
    descriptions: &["Url", "RDomain", "Filename", "Name", "ContainerId"],
};

/// Returns true if the database is a web cache.
pub(super) fn matches(source: &SourceDatabase) -> bool {
    source.table(CONTAINERS).is_some()
        && source.tables().iter().any(|table| has_prefix(&table.name, CONTAINER))
}

/// Returns true if a table name starts with the prefix. ASCII letter case is ignored.
fn has_prefix(table: &str, prefix: &str) -> bool {
    table.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

/// Reads the names of the containers.
pub(super) fn read(source: &SourceDatabase) -> ValueNames {
    let mut names = BTreeMap::new();
    visit_fields(source, CONTAINERS, [ID, "Name"], |[id, name]| {
        if let (Some(id), Some(name)) = (integer(&id), text(name)) {
            names.insert(id, name);
        }
    });
    ValueNames::Numbers(Arc::new(names))
}

/// Replaces container numbers with names and applies the formats to the columns.
pub(super) fn apply(table: &mut SourceTable, containers: &ValueNames) {
    let list = table.name.eq_ignore_ascii_case(CONTAINERS);
    let entries = ENTRIES.iter().any(|prefix| has_prefix(&table.name, prefix));
    for column in &mut table.columns {
        let binary = matches!(column.column.kind, ColumnType::Binary | ColumnType::LongBinary);
        let name = column.column.name.as_str();
        if TIMES.contains(&name) {
            column.format.meaning = ColumnMeaning::Filetime;
        } else if HEADERS.contains(&name) || entries && binary {
            column.format.meaning = ColumnMeaning::Ascii;
        } else if name == ID && !list {
            column.names = Some(containers.clone());
        }
    }
}
