//! A table to read: its columns and the condition for its rows.

use crate::table::Table;
use crate::time_filter::TimeFilter;

/// A table that is read, with its selected columns and the condition for its rows.
#[derive(Clone, Debug)]
pub struct SelectedTable {
    /// The table.
    pub table: Table,
    pub(crate) times: Option<TimeFilter>,
}

impl SelectedTable {
    /// Whether rows are selected by their times.
    pub fn has_condition(&self) -> bool {
        self.times.is_some()
    }
}
