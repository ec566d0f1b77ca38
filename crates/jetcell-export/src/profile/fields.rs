//! Reads selected columns from all rows of a table, for profiles that need these values before the export.

use crate::cell::Item;
use crate::issue::Issues;
use crate::rows::{ReadOptions, read_rows};
use crate::source::Source;
use crate::value::Value;

/// Calls `visit` for every row with the first value in each of these columns. A value is `None` if it is null or
/// unreadable, or if the table does not have the column. Issues are not reported here, because they are reported when
/// the table is exported.
pub(super) fn visit_fields<const N: usize>(
    source: &Source,
    table: &str,
    columns: [&str; N],
    mut visit: impl FnMut([Option<Value<'_>>; N]),
) {
    let Some(table) = source.table(table) else { return };
    let positions = columns
        .map(|name| table.columns.iter().position(|column| column.column.name.eq_ignore_ascii_case(name)));
    let mut unreported = Issues::default();
    // This cannot fail: the closure returns no errors, and nothing is written.
    let _ = read_rows(source, table, ReadOptions::default(), &mut unreported, |row| {
        visit(positions.map(|position| {
            let position = position?;
            let Some(Item::Inline(bytes)) = row.cells.get(position)?.items().first() else { return None };
            Value::decode(&table.columns.get(position)?.column, bytes).ok()
        }));
        Ok(())
    });
}

/// Returns an integer, or `None` for null.
pub(super) fn integer(value: &Option<Value<'_>>) -> Option<i64> {
    match value {
        Some(Value::Int(value)) => Some(*value),
        _ => None,
    }
}

/// Returns a text, or `None` if it is empty.
pub(super) fn text(value: Option<Value<'_>>) -> Option<String> {
    match value {
        Some(Value::Text(text)) if !text.is_empty() => Some(text.into_owned()),
        _ => None,
    }
}
