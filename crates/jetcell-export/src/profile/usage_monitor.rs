//! The Windows System Resource Usage Monitor (`SRUDB.dat`): names of providers, applications, users and
//! types of network interfaces.
//!
//! Tables are named after a provider's GUID. Rows refer to applications and users by number. The table
//! `SruDbIdMapTable` maps these numbers to text (UTF-16) or to security identifiers.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::fields::{integer, visit_fields};
use super::timeline_columns::TimelineColumns;
use crate::names::ValueNames;
use crate::source_database::SourceDatabase;
use crate::table::{ColumnMeaning, SourceTable, TableColumn};
use crate::value::{ExportedValue, sid_or_text};

/// Table that maps numbers to names.
const ID_TABLE: &str = "SruDbIdMapTable";
/// Columns that contain numbers from this table.
const ID_COLUMNS: [&str; 2] = ["AppId", "UserId"];
/// Column that contains the identifier of a network interface.
const INTERFACE: &str = "InterfaceLuid";
/// Columns that contain times in units of 100 nanoseconds since 1601.
const TIME_COLUMNS: [&str; 5] = ["ConnectStartTime", "EndTime", "EventTimestamp", "LocaleTime", "StartTime"];
/// Providers in Windows 8 to 11, by GUID.
const PROVIDERS: [(&str, &str); 14] = [
    ("{17F4D97B-F26A-5E79-3A82-90040A47D13D}", "SdpVolume"),
    ("{5C8CF1C7-7257-4F13-B223-970EF5939312}", "AppTimeline"),
    ("{7ACBBAA3-D029-4BE4-9A7A-0885927F1D8F}", "Vfuprov"),
    ("{841A7317-3805-518B-C2EA-AD224CB4AF84}", "SdpPhysicalDisk"),
    ("{973F5D5C-1D90-4944-BE8E-24B94231A174}", "NetworkDataUsage"),
    ("{B6D82AF1-F780-4E17-8077-6CB9AD8A6FC4}", "TaggedEnergy"),
    ("{D10CA2FE-6FCF-4F6D-848E-B2E99266FA86}", "PushNotifications"),
    ("{D10CA2FE-6FCF-4F6D-848E-B2E99266FA89}", "ApplicationResourceUsage"),
    ("{DA73FB89-2BEA-4DDC-86B8-6E048C6DA477}", "EnergyEstimation"),
    ("{DC3D3B50-BB90-5066-FA4E-A5F90DD8B677}", "SdpCpu"),
    ("{DD6636C4-8929-4683-974E-22C046A43763}", "NetworkConnectivityUsage"),
    ("{EEE2F477-0659-5C47-EF03-6D6BEFD441B3}", "SdpNetwork"),
    ("{FEE4E14F-02A9-4550-B5CE-5FA2DA202E37}", "EnergyUsage"),
    ("{FEE4E14F-02A9-4550-B5CE-5FA2DA202E37}LT", "EnergyUsageLongTerm"),
];

/// Meanings of the time columns, and the columns that describe a row.
pub(super) const TIMELINE: TimelineColumns = TimelineColumns {
    meanings: &[
        ("TimeStamp", "use recorded"),
        ("ConnectStartTime", "network connected"),
        ("EventTimestamp", "event"),
        ("StartTime", "start of use"),
        ("EndTime", "end of use"),
    ],
    descriptions: &["AppId", "UserId"],
};

/// Returns true if the database belongs to the System Resource Usage Monitor.
pub(super) fn matches(source: &SourceDatabase) -> bool {
    source.table(ID_TABLE).is_some()
}

/// Reads the table that maps numbers to names.
pub(super) fn read(source: &SourceDatabase) -> ValueNames {
    let mut found = BTreeMap::new();
    visit_fields(source, ID_TABLE, ["IdIndex", "IdBlob"], |[id, blob]| {
        let text = match blob {
            Some(ExportedValue::Binary(bytes)) => sid_or_text(bytes),
            _ => None,
        };
        if let (Some(id), Some(text)) = (integer(&id), text) {
            found.insert(id, text);
        }
    });
    ValueNames::Numbers(Arc::new(found))
}

/// Names the table after its provider and applies the formats to its columns.
pub(super) fn apply(table: &mut SourceTable, ids: &ValueNames) {
    let provider = PROVIDERS.iter().find(|(guid, _)| table.name.eq_ignore_ascii_case(guid));
    let Some((_, provider)) = provider else {
        let blobs = table.columns.iter_mut().filter(|column| column.column.name == "IdBlob");
        blobs.for_each(|column| column.format.meaning = ColumnMeaning::SidOrText);
        return;
    };
    table.name = (*provider).to_owned();
    for column in &mut table.columns {
        form(column, ids);
    }
}

fn form(column: &mut TableColumn, ids: &ValueNames) {
    let name = column.column.name.as_str();
    if ID_COLUMNS.contains(&name) {
        column.names = Some(ids.clone());
    } else if name == INTERFACE {
        column.names = Some(ValueNames::Interfaces);
    }
    if TIME_COLUMNS.contains(&name) {
        column.format.meaning = ColumnMeaning::Filetime;
    }
}
