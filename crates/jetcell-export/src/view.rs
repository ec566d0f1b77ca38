//! A database's tables as they are exported, with a profile's names and formats applied.

use crate::error::ExportError;
use crate::profile::Knowledge;
use crate::rendering::Rendering;
use crate::selected_table::SelectedTable;
use crate::selection::Selection;
use crate::source::Source;
use crate::table::Table;

/// A database's tables as they are exported, in the order of [`Source::tables`].
#[derive(Debug)]
pub struct View {
    tables: Vec<Table>,
}

impl View {
    /// Reads the rows that the profile needs and applies the profile.
    ///
    /// # Errors
    ///
    /// Returns an error if the database does not contain the profile's tables.
    pub fn new(source: &Source, rendering: Rendering) -> Result<View, ExportError> {
        let known = Knowledge::read(source, rendering.profile)?;
        Ok(View { tables: source.tables().iter().map(|table| rendering.of(table, &known)).collect() })
    }

    /// Returns all tables.
    pub fn tables(&self) -> &[Table] {
        &self.tables
    }

    /// Returns the selected tables.
    ///
    /// # Errors
    ///
    /// Returns an error if a pattern matches nothing.
    pub fn select(&self, source: &Source, selection: &Selection) -> Result<Vec<SelectedTable>, ExportError> {
        selection.apply(source.tables().iter().zip(self.tables.iter().cloned()))
    }

    /// Applies the column and row selection to the table at this position. Returns `None` if there is no such table.
    /// Table patterns are ignored.
    ///
    /// # Errors
    ///
    /// Returns an error if a pattern matches nothing.
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
