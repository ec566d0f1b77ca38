//! Plain text tables, and functions shared by all tables.

use jetcell_disk_simulation::experiment::{ArrayStateResults, LayoutResults, SimulatedState};
use jetcell_report::{ReportCell, ReportTable};

/// A table of text cells for text output.
pub struct PlainTable {
    pub title: String,
    pub header: Vec<String>,
    pub rows: Vec<Vec<String>>,
    /// True if the columns after the first also contain text.
    pub has_text_columns: bool,
    pub notes: Vec<String>,
}

impl From<PlainTable> for ReportTable {
    fn from(plain: PlainTable) -> ReportTable {
        let names: Vec<&str> = plain.header.iter().map(String::as_str).collect();
        let mut table = ReportTable::text_columns(&plain.title, &names);
        table.columns.iter_mut().skip(1).for_each(|column| column.number = !plain.has_text_columns);
        let rows = plain.rows.into_iter().map(|row| row.into_iter().map(ReportCell::from).collect());
        plain.notes.into_iter().fold(table.rows(rows), ReportTable::note)
    }
}

/// Returns the header of a table.
pub fn header(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

/// Returns the figures of a layout in a state.
pub fn figures(layout: &LayoutResults, state: SimulatedState) -> Option<&ArrayStateResults> {
    layout.states.iter().find(|figures| figures.state == state)
}
