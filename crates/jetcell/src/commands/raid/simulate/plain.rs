//! Plain text tables, and functions shared by all tables.

use jetcell_disk_simulation::experiment::{LayoutFigures, State, StateFigures};
use jetcell_report::{Cell, Table};

/// A table of text cells.
pub struct Plain {
    pub title: String,
    pub head: Vec<String>,
    pub rows: Vec<Vec<String>>,
    /// True if the columns after the first also contain text.
    pub has_text: bool,
    pub note: Vec<String>,
}

impl From<Plain> for Table {
    fn from(plain: Plain) -> Table {
        let names: Vec<&str> = plain.head.iter().map(String::as_str).collect();
        let mut table = Table::words(&plain.title, &names);
        table.columns.iter_mut().skip(1).for_each(|column| column.number = !plain.has_text);
        let rows = plain.rows.into_iter().map(|row| row.into_iter().map(Cell::from).collect());
        plain.note.into_iter().fold(table.rows(rows), Table::note)
    }
}

/// Returns the header of a table.
pub fn head(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

/// Returns the figures of a layout in a state.
pub fn figures(layout: &LayoutFigures, state: State) -> Option<&StateFigures> {
    layout.states.iter().find(|figures| figures.state == state)
}
