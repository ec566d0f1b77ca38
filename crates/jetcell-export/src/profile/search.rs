//! The Windows Search index (`Windows.edb`): property names, folder paths, lists, times and sizes.
//!
//! Columns in the property store are named after a number and a property, such as `15F-System_DateModified`, because
//! column names cannot contain dots. Times, durations and large integers are stored as eight bytes of binary data.
//! Properties with several texts are stored as UTF-16 texts that are separated by NULs.

use std::sync::Arc;

use ese_format::record::ColumnType;

use super::fields::{integer, text, visit_fields};
use super::timeline_columns::TimelineColumns;
use crate::names::{NameHierarchy, ValueNames};
use crate::source_database::SourceDatabase;
use crate::table::{ColumnMeaning, SourceTable, TableColumn, make_column_names_unique};

const PROPERTY_STORE: &str = "SystemIndex_PropertyStore";
/// Table with each folder's number, its parent's number, and its name.
const FOLDERS: &str = "SystemIndex_GthrPth";
/// Table of the indexed files, with each file's folder number.
const FILES: &str = "SystemIndex_Gthr";
/// Table with a UTF-16 name in a column that declares a different code page.
const CATALOGS: &str = "CatalogStorageManager";
/// Property that contains a duration, although its name does not end in `Duration`.
const EDITING_TIME: &str = "TotalEditingTime";
/// Long binary properties that do not contain texts.
const NOT_TEXTS: [&str; 7] = [
    "System.Contact.AccountPictureDynamicVideo",
    "System.Contact.AccountPictureLarge",
    "System.Contact.AccountPictureSmall",
    "System.GPS.Latitude",
    "System.GPS.Longitude",
    "System.Message.ConversationIndex",
    "System.StorageProviderShareStatuses",
];
/// Properties that store unsigned 64-bit integers.
const INTEGERS: [&str; 6] = [
    "System.Capacity",
    "System.FreeSpace",
    "System.Size",
    "System.SizeUncompressed",
    "System.ThumbnailCacheId",
    "System.TotalFileSize",
];

/// Meanings of the time columns, and the columns that describe a file.
pub(super) const TIMELINE: TimelineColumns = TimelineColumns {
    meanings: &[
        ("LastModified", "file modified"),
        ("System.DateAccessed", "file accessed"),
        ("System.DateCreated", "file created"),
        ("System.DateImported", "file imported"),
        ("System.DateModified", "file modified"),
        ("System.Search.GatherTime", "file indexed"),
    ],
    descriptions: &["System.ItemPathDisplay", "System.ItemUrl", "ScopeID", "FileName"],
};

/// Returns true if the database is a Windows Search index.
pub(super) fn matches(source: &SourceDatabase) -> bool {
    source.table(PROPERTY_STORE).is_some() || source.table(FILES).is_some()
}

/// Reads the folder paths.
pub(super) fn read(source: &SourceDatabase) -> ValueNames {
    let mut folders = NameHierarchy::default();
    visit_fields(source, FOLDERS, ["Scope", "Parent", "Name"], |[scope, parent, name]| {
        if let (Some(scope), Some(parent), Some(name)) = (integer(&scope), integer(&parent), text(name)) {
            folders.insert(scope, parent, &name);
        }
    });
    ValueNames::Folders(Arc::new(folders))
}

/// Gives the columns their property names and formats.
pub(super) fn apply(table: &mut SourceTable, folders: &ValueNames) {
    let is_table = |name: &str| table.name.eq_ignore_ascii_case(name);
    let (properties, files, catalogs) = (is_table(PROPERTY_STORE), is_table(FILES), is_table(CATALOGS));
    for column in &mut table.columns {
        match column.column.name.as_str() {
            _ if properties => property(column),
            "ScopeID" if files => column.names = Some(folders.clone()),
            "LastModified" if files => column.format.meaning = ColumnMeaning::FiletimeBigEndian,
            "CatalogName" if catalogs => column.format.meaning = ColumnMeaning::Utf16,
            _ => {}
        }
    }
    make_column_names_unique(table);
}

fn property(column: &mut TableColumn) {
    let Some((number, name)) = column.column.name.split_once('-') else { return };
    if !number.trim_end_matches('F').bytes().all(|byte| byte.is_ascii_digit()) {
        return;
    }
    // Only property names contain dots.
    let name = if name.contains('_') { name.replace('_', ".") } else { name.to_owned() };
    // Matches names such as System.DateModified, System.ItemDate and System.Search.GatherTime.
    let last = name.rsplit('.').next().unwrap_or_default();
    let local = last.starts_with("Local");
    column.format.meaning = match column.column.kind {
        ColumnType::LongBinary if name.starts_with("System.") && !NOT_TEXTS.contains(&name.as_str()) => {
            ColumnMeaning::Utf16List
        }
        _ if last.ends_with("Duration") || last == EDITING_TIME => ColumnMeaning::DurationBytes,
        _ if local && last.ends_with("Time") => ColumnMeaning::LocalFiletimeBytes,
        _ if last.contains("Date") || last.ends_with("Time") => ColumnMeaning::FiletimeBytes,
        _ if INTEGERS.contains(&name.as_str()) => ColumnMeaning::Unsigned,
        _ => ColumnMeaning::Stored,
    };
    column.column.name = name;
}
