//! Selects rows by time.

use std::ops::RangeInclusive;

use ese_format::record::{Column, ColumnFlags, ColumnId, ColumnType, ColumnValue, MultiValue, Record};

use crate::table::TableColumn;
use crate::value::ExportedValue;

/// A time condition, applied to the rows of one table.
#[derive(Clone, Debug)]
pub(crate) struct TimeFilter {
    /// Time columns to check. There is at least one.
    columns: Vec<TableColumn>,
    range: RangeInclusive<i64>,
}

impl TimeFilter {
    /// Creates a condition that is met if at least one of these columns contains a time in the range. Returns `None`
    /// if there are no columns.
    pub(crate) fn new(columns: Vec<TableColumn>, range: RangeInclusive<i64>) -> Option<TimeFilter> {
        (!columns.is_empty()).then_some(TimeFilter { columns, range })
    }

    /// Returns true if the row meets the condition.
    pub(crate) fn accepts(&self, record: &Record<'_>) -> bool {
        self.columns.iter().any(|column| match record.get(&column.column) {
            Ok(ColumnValue::Null) => false,
            Ok(ColumnValue::Absent) => {
                stored_default(&column.column).is_some_and(|bytes| self.matches(column, bytes))
            }
            Ok(ColumnValue::Bytes(bytes)) => self.matches(column, bytes),
            Ok(ColumnValue::Multi(values)) => values.iter().any(|value| match value {
                MultiValue::Bytes(bytes) => self.matches(column, bytes),
                _ => true,
            }),
            // A row whose time cannot be read is always exported.
            Ok(_) | Err(_) => true,
        })
    }

    /// Returns true if a time in the given column meets the condition.
    pub(crate) fn accepts_time(&self, column: ColumnId, ticks: i64) -> bool {
        let mut columns = self.columns.iter();
        columns.any(|checked| checked.column.id == column) && self.range.contains(&ticks)
    }

    fn matches(&self, column: &TableColumn, bytes: &[u8]) -> bool {
        match column.value(bytes) {
            Ok(ExportedValue::Time(time)) => self.range.contains(&time.ticks),
            // The value means "never", or is a number that is not a time.
            Ok(_) => false,
            Err(_) => true,
        }
    }
}

/// Returns true if a column's values are times.
pub(crate) fn has_times(column: &TableColumn) -> bool {
    column.column.kind == ColumnType::DateTime || column.format.meaning.is_time()
}

/// Returns the default value for a row that does not store the column.
pub(crate) fn stored_default(column: &Column) -> Option<&[u8]> {
    // If the default comes from a callback, the stored bytes are the callback's parameters, not a value.
    if !column.flags.contains(ColumnFlags::HAS_DEFAULT)
        || column.flags.contains(ColumnFlags::USER_DEFINED_DEFAULT)
    {
        return None;
    }
    column.default.as_deref()
}
