//! A database's tables as they are exported, with a profile's names and formats applied.

use crate::error::ExportError;
use crate::profile::{ProfileData, TimelineColumns};
use crate::rendering::RenderingOptions;
use crate::selected_table::SelectedTable;
use crate::selection::{SelectedTables, Selection};
use crate::source_database::SourceDatabase;
use crate::table::SourceTable;

/// A view of a database's tables as exported, in the order of [`SourceDatabase::tables`].
#[derive(Debug)]
pub struct ExportView {
    tables: Vec<SourceTable>,
    timeline: TimelineColumns,
}

impl ExportView {
    /// Reads the rows that the profile needs and applies the profile.
    ///
    /// # Errors
    ///
    /// Returns an error if the database does not contain the profile's tables.
    pub fn new(source: &SourceDatabase, rendering: RenderingOptions) -> Result<ExportView, ExportError> {
        let known = ProfileData::read(source, rendering.profile)?;
        Ok(ExportView {
            tables: source.tables().iter().map(|table| rendering.apply_to(table, &known)).collect(),
            timeline: known.timeline(),
        })
    }

    /// Returns all tables.
    pub fn tables(&self) -> &[SourceTable] {
        &self.tables
    }

    /// Returns the profile's declarations about times and about the rows that contain them.
    pub(crate) fn timeline(&self) -> TimelineColumns {
        self.timeline
    }

    /// Returns the selected tables.
    ///
    /// # Errors
    ///
    /// Returns an error if a pattern matches nothing.
    pub fn select(
        &self,
        source: &SourceDatabase,
        selection: &Selection,
    ) -> Result<Vec<SelectedTable>, ExportError> {
        self.select_matches(source, selection).all_matched()
    }

    /// Returns the selected tables, and the patterns that match nothing.
    pub(crate) fn select_matches(&self, source: &SourceDatabase, selection: &Selection) -> SelectedTables {
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
        source: &SourceDatabase,
        position: usize,
        selection: &Selection,
    ) -> Result<Option<SelectedTable>, ExportError> {
        let selection = Selection { tables: Vec::new(), ..selection.clone() };
        let pair = source.tables().get(position).zip(self.tables.get(position).cloned());
        Ok(selection.apply(pair.into_iter()).all_matched()?.pop())
    }
}
