//! The tables of a database as they are shown: with the names and forms that a profile gives them.

use crate::error::ExportError;
use crate::profile::Knowledge;
use crate::rendering::Rendering;
use crate::selected_table::SelectedTable;
use crate::selection::Selection;
use crate::source::Source;
use crate::table::Table;

/// The tables of a database as they are shown, in the order of [`Source::tables`].
#[derive(Debug)]
pub struct View {
    tables: Vec<Table>,
}

impl View {
    /// Reads what the profile needs to know and applies it.
    ///
    /// # Errors
    /// The database has not the tables of the profile.
    pub fn new(source: &Source, rendering: Rendering) -> Result<View, ExportError> {
        let known = Knowledge::read(source, rendering.profile)?;
        Ok(View { tables: source.tables().iter().map(|table| rendering.of(table, &known)).collect() })
    }

    /// All tables.
    pub fn tables(&self) -> &[Table] {
        &self.tables
    }

    /// The selected tables.
    ///
    /// # Errors
    /// A pattern that matches nothing.
    pub fn select(&self, source: &Source, selection: &Selection) -> Result<Vec<SelectedTable>, ExportError> {
        selection.apply(source.tables().iter().zip(self.tables.iter().cloned()))
    }

    /// Columns and rows of the table with this position; `None` if there is none. Patterns of tables have no effect.
    ///
    /// # Errors
    /// A pattern that matches nothing.
    pub fn select_from(
        &self,
        source: &Source,
        position: usize,
        selection: &Selection,
    ) -> Result<Option<SelectedTable>, ExportError> {
        let selection = Selection { tables: Vec::new(), ..selection.clone() };
        let pair = source.tables().get(position).zip(self.tables.get(position).cloned());
        Ok(selection.apply(pair.into_iter())?.pop())
    }
}
