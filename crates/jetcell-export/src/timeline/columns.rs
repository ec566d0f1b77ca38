//! The columns of a table that contain times, identify a row, or describe it.

use std::ops::Range;

use ese_format::record::{ColumnId, ColumnType};
use jetcell_input::shortened;

use crate::cell::{CellItem, ExportedCell};
use crate::format::item_value;
use crate::profile::TimelineColumns;
use crate::rows::ExportedRow;
use crate::selected_table::SelectedTable;
use crate::table::{SourceTable, TableColumn};
use crate::time_filter::has_times;
use crate::value::{ExportedValue, Timestamp};

/// Plausible times, from 1970 up to the start of the year 2100, in units of 100 nanoseconds since 1970-01-01. Earlier
/// times usually mean "never", and later ones "forever".
const PLAUSIBLE: Range<i64> = 1..41_024_448_000_000_000;
/// Maximum number of columns that describe a row.
const MAX_DESCRIPTIONS: usize = 4;
/// Maximum number of columns that describe a row of an unknown database.
const MAX_UNKNOWN_DESCRIPTIONS: usize = 2;
/// Maximum number of characters of one value in a key or a description.
const MAX_VALUE: usize = 512;

/// Positions of a table's time columns, key columns, and descriptive columns.
pub(super) struct EventColumns {
    times: Vec<(usize, Option<&'static str>)>,
    key: Vec<usize>,
    descriptions: Vec<usize>,
}

/// One time that a row contains. A row has one event for each plausible time in its columns.
pub(super) struct RowEvent {
    /// Column that contains the time.
    pub(super) column: ColumnId,
    position: usize,
    meaning: Option<&'static str>,
    /// Time in units of 100 nanoseconds since 1970-01-01.
    pub(super) ticks: i64,
    /// Bytes that a `DateTime` column stores for this time.
    pub(super) time: [u8; 8],
}

/// Key and description of a row, as text.
pub(super) struct RowTexts {
    /// Key of the row.
    pub(super) key: String,
    /// Values that describe the row.
    description: String,
}

impl EventColumns {
    /// Removes all other columns from the table. Returns `None` if the table has no times, or if a condition selects
    /// rows by time but does not apply to this table.
    pub(super) fn select(
        selected: &mut SelectedTable,
        known: TimelineColumns,
        has_condition: bool,
    ) -> Option<EventColumns> {
        if has_condition && !selected.has_condition() {
            return None;
        }
        let table = &mut selected.table;
        let key = table.primary_key.clone();
        let described = description_columns(table, known);
        let is_needed = |column: &TableColumn| {
            let id = column.column.id;
            has_times(column) || key.contains(&id) || described.contains(&id)
        };
        table.columns.retain(is_needed);
        let columns = || table.columns.iter().enumerate();
        let position =
            |id: &ColumnId| columns().find(|(_, column)| column.column.id == *id).map(|(at, _)| at);
        let meaning = |column: &TableColumn| {
            let name = column.column.name.as_str();
            known.meanings.iter().find(|(known, _)| *known == name).map(|(_, meaning)| *meaning)
        };
        let times: Vec<_> = columns()
            .filter(|(_, column)| has_times(column))
            .map(|(at, column)| (at, meaning(column)))
            .collect();
        let key = key.iter().filter_map(position).collect();
        let descriptions = described.iter().filter_map(position).collect();
        (!times.is_empty()).then_some(EventColumns { times, key, descriptions })
    }

    /// Returns the plausible times in a row. Adds the number of other times to `implausible`.
    pub(super) fn events(
        &self,
        table: &SourceTable,
        row: &ExportedRow<'_>,
        implausible: &mut u64,
    ) -> Vec<RowEvent> {
        let mut events = Vec::new();
        for &(position, meaning) in &self.times {
            let pair = table.columns.get(position).zip(row.cells.get(position));
            let Some((column, cell)) = pair else { continue };
            for item in cell.items() {
                // A value that cannot be decoded is reported as missing data.
                let Ok(value) = item_value(column, item) else { continue };
                match value {
                    ExportedValue::Time(time) if PLAUSIBLE.contains(&time.ticks) => {
                        events.push(RowEvent {
                            column: column.column.id,
                            position,
                            meaning,
                            ticks: time.ticks,
                            time: stored_time(column.column.kind, item, time),
                        });
                    }
                    _ => *implausible += 1,
                }
            }
        }
        events
    }

    /// Returns the texts that are shared by all events of a row.
    pub(super) fn texts(&self, table: &SourceTable, row: &ExportedRow<'_>) -> RowTexts {
        let EventColumns { key, descriptions, .. } = self;
        let text = |position: &usize| {
            table
                .columns
                .get(*position)
                .zip(row.cells.get(*position))
                .map(|(column, cell)| cell_text(column, cell))
        };
        let key = match row.carved {
            _ if !key.is_empty() => key.iter().filter_map(text).collect::<Vec<_>>().join(","),
            Some(from) => format!("page {} byte {}", row.page, from.offset),
            None => format!("page {} row {}", row.page, row.index),
        };
        let texts = descriptions.iter().filter_map(text).filter(|text| !text.is_empty());
        RowTexts { key, description: texts.collect::<Vec<_>>().join(", ") }
    }
}

impl RowEvent {
    /// Returns the meaning of the time, and the description of the row.
    pub(super) fn what(&self, table: &SourceTable, RowTexts { description, .. }: &RowTexts) -> String {
        let mut what =
            table.columns.get(self.position).map_or_else(String::new, |time| time.column.name.clone());
        if let Some(meaning) = self.meaning {
            what += &format!(" ({meaning})");
        }
        if !description.is_empty() {
            what += ": ";
            what += description;
        }
        what
    }
}

/// Returns the columns that describe a row, the most important first.
fn description_columns(table: &SourceTable, known: TimelineColumns) -> Vec<ColumnId> {
    let columns = || table.columns.iter().map(|column| &column.column);
    if known.descriptions.is_empty() {
        let texts = columns().filter(|column| {
            matches!(column.kind, ColumnType::Text | ColumnType::LongText)
                && !table.primary_key.contains(&column.id)
        });
        return texts.map(|column| column.id).take(MAX_UNKNOWN_DESCRIPTIONS).collect();
    }
    let named = |name: &&'static str| columns().find(|column| column.name == **name);
    let found = known.descriptions.iter().filter_map(named).map(|column| column.id);
    found.take(MAX_DESCRIPTIONS).collect()
}

/// Returns the bytes that a `DateTime` column stores for a time: a FILETIME if it is in UTC, or an OLE date if its time
/// zone is not known.
fn stored_time(kind: ColumnType, item: &CellItem<'_>, time: Timestamp) -> [u8; 8] {
    let stored = match item {
        CellItem::Inline(bytes) if !time.utc && kind == ColumnType::DateTime => {
            bytes.as_ref().try_into().ok()
        }
        _ if !time.utc => Some(time.to_ole_date().to_le_bytes()),
        _ => None,
    };
    stored.unwrap_or_else(|| time.to_filetime().to_le_bytes())
}

/// Returns the values of a cell as text of limited length.
fn cell_text(column: &TableColumn, cell: &ExportedCell<'_>) -> String {
    let mut text = Vec::new();
    for item in cell.items() {
        if text.len() >= MAX_VALUE {
            break;
        }
        if !text.is_empty() {
            text.push(b' ');
        }
        match item_value(column, item) {
            Ok(value) => value.write_text(&mut text),
            Err(marker) => marker.write_text(&mut text),
        }
    }
    shortened(&String::from_utf8_lossy(&text), MAX_VALUE).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{ColumnFormat, ColumnMeaning};
    use ese_format::record::Column;

    #[test]
    fn local_times_stay_without_a_time_zone() {
        let column = Column::new(256, "System.ActivityHistory.LocalStartTime", ColumnType::LongBinary, 0);
        let format = ColumnFormat { meaning: ColumnMeaning::LocalFiletimeBytes, ..ColumnFormat::default() };
        let local = TableColumn { column, format, names: None };
        // 2022-02-05T14:53:29, with a fraction.
        let ticks = 16_440_728_091_230_000;
        let stored = Timestamp { ticks, utc: true }.to_filetime().to_le_bytes();
        let item = CellItem::Inline(stored.as_slice().into());
        let Ok(ExportedValue::Time(time)) = item_value(&local, &item) else { panic!("not a time") };
        assert_eq!((time.ticks, time.utc), (ticks, false));
        let bytes = stored_time(local.column.kind, &item, time);
        let output = Column::new(1, "time", ColumnType::DateTime, 8);
        assert_eq!(ExportedValue::decode(&output, &bytes), Ok(ExportedValue::Time(time)));
        let utc = Timestamp { ticks, utc: true };
        assert_eq!(stored_time(local.column.kind, &item, utc), stored);
    }
}
