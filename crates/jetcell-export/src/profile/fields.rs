//! Values of some columns of all rows of a table, for what a profile must know before the export.

use crate::cell::Item;
use crate::issue::Issues;
use crate::rows::{ReadOptions, read_rows};
use crate::source::Source;
use crate::value::Value;

/// Calls `visit` with the first value of each of these columns, for every row. A value is `None` if it is null, cannot be
/// read, or if the table has no such column. Nothing is reported: the export of the table does that.
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
    // No error is possible: the closure has none, and nothing is written.
    let _ = read_rows(source, table, ReadOptions::default(), &mut unreported, |row| {
        visit(positions.map(|position| {
            let position = position?;
            let Some(Item::Inline(bytes)) = row.cells.get(position)?.items().first() else { return None };
            Value::decode(&table.columns.get(position)?.column, bytes).ok()
        }));
        Ok(())
    });
}

/// An integer that is not null.
pub(super) fn integer(value: &Option<Value<'_>>) -> Option<i64> {
    match value {
        Some(Value::Int(value)) => Some(*value),
        _ => None,
    }
}

/// A text that is not empty.
pub(super) fn text(value: Option<Value<'_>>) -> Option<String> {
    match value {
        Some(Value::Text(text)) if !text.is_empty() => Some(text.into_owned()),
        _ => None,
    }
}
