//! Reads selected columns from all rows of a table, for profiles that need these values before the export.

use crate::cell::CellItem;
use crate::issue::ExportIssues;
use crate::rows::{RowReadOptions, read_rows};
use crate::source_database::SourceDatabase;
use crate::value::ExportedValue;

/// Calls `visit` for every row with the first value in each of these columns. A value is `None` if it is null or
/// unreadable, or if the table does not have the column. Issues are not reported here, because they are reported when
/// the table is exported.
pub(super) fn visit_fields<const N: usize>(
    source: &SourceDatabase,
    table: &str,
    columns: [&str; N],
    mut visit: impl FnMut([Option<ExportedValue<'_>>; N]),
) {
    let Some(table) = source.table(table) else { return };
    // The other columns of a row may contain long values, which need not be read.
    let mut table = table.clone();
    let is_named = |stored: &str| columns.iter().any(|name| stored.eq_ignore_ascii_case(name));
    table.columns.retain(|column| is_named(&column.column.name));
    let positions = columns
        .map(|name| table.columns.iter().position(|column| column.column.name.eq_ignore_ascii_case(name)));
    let mut unreported = ExportIssues::default();
    // This cannot fail: the closure returns no errors, and nothing is written.
    let _ = read_rows(source, &table, RowReadOptions::default(), &mut unreported, |row| {
        visit(positions.map(|position| {
            let position = position?;
            let Some(CellItem::Inline(bytes)) = row.cells.get(position)?.items().first() else { return None };
            ExportedValue::decode(&table.columns.get(position)?.column, bytes).ok()
        }));
        Ok(())
    });
}

/// Returns the integer in a value, or `None` for null.
pub(super) fn integer(value: &Option<ExportedValue<'_>>) -> Option<i64> {
    match value {
        Some(ExportedValue::Int(value) | ExportedValue::Currency(value)) => Some(*value),
        _ => None,
    }
}

/// Returns the text in a value, or `None` if the text is empty.
pub(super) fn text(value: Option<ExportedValue<'_>>) -> Option<String> {
    match value {
        Some(ExportedValue::Text(text)) if !text.is_empty() => Some(text.into_owned()),
        _ => None,
    }
}
