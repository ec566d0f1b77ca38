//! A table to read, with its columns and its row condition.

use crate::table::SourceTable;
use crate::time_filter::TimeFilter;

/// A table selected for export, with its selected columns and its row condition.
#[derive(Clone, Debug)]
pub struct SelectedTable {
    /// Table to read, with only its selected columns.
    pub table: SourceTable,
    pub(crate) times: Option<TimeFilter>,
}

impl SelectedTable {
    /// Returns true if rows are selected by time.
    pub fn has_condition(&self) -> bool {
        self.times.is_some()
    }
}
