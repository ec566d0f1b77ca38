//! A time line: one table with all times in all rows of one or several databases, sorted by time.
//!
//! A profile declares what its times mean and which columns describe a row. In other databases, every column of type
//! `DateTime` is a time. Times are sorted in memory, and in temporary files if there are many.

mod columns;
mod event_sorter;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::{io, iter};

use ese_format::catalog::TableSchema;
use ese_format::record::{CodePage, Column, ColumnType};
use ese_format::{PageNumber, PageSize, TreeId};
use jetcell_vfs::{Vfs, create_private_directory, with_path};

use self::columns::EventColumns;
use self::event_sorter::{EventSorter, TimelineEvent};
use crate::additional_rows::AdditionalRows;
use crate::cell::ExportedCell;
use crate::error::ExportError;
use crate::format::{ExportFormat, SqliteFile};
use crate::output::ExportDestination;
use crate::rows::{ExportedRow, PortionEnd, RowCursor, RowReadOptions};
use crate::run::{ExportOptions, ExportProgressFn, ExportSummary, TableWriter, note_other_rows, sync_at_end};
use crate::selected_table::SelectedTable;
use crate::selection::{SelectedTables, Selection, UnmatchedPattern};
use crate::source_database::SourceDatabase;
use crate::table::SourceTable;
use crate::target::check_absent;
use crate::view::ExportView;

/// Name of the table.
const TIMELINE: &str = "timeline";
/// Code page of UTF-8.
const UTF_8: CodePage = CodePage(65001);
/// Maximum size in bytes of the events that are sorted in memory.
const MEMORY: usize = 32 << 20;

/// The table to which an event belongs.
struct EventTable {
    source: String,
    name: String,
}

/// Writes a time line of the databases at these paths.
///
/// # Errors
///
/// Returns an error if a file is not a database, if a pattern matches nothing in any of the databases, or if the
/// output cannot be written.
pub fn export_timeline(
    vfs: &dyn Vfs,
    paths: &[PathBuf],
    options: &ExportOptions,
    progress: ExportProgressFn<'_>,
) -> Result<ExportSummary, ExportError> {
    if !options.format.is_built() {
        return Err(ExportError::NotBuilt(options.format));
    }
    // Report an existing output file before reading the databases, which may take a long time.
    let target = output_file(options)?;
    let mut collector = EventCollector {
        options,
        tables: Vec::new(),
        sorter: EventSorter::new(MEMORY),
        summary: ExportSummary::default(),
    };
    let mut unmatched: Option<Vec<UnmatchedPattern>> = None;
    for path in paths {
        let in_this = collector.add_database(vfs, path, paths.len() > 1, progress)?;
        // A pattern is valid if it matches in at least one of the databases.
        match &mut unmatched {
            Some(in_all) => in_all.retain(|pattern| in_this.contains(pattern)),
            None => unmatched = Some(in_this),
        }
    }
    if let Some(pattern) = unmatched.into_iter().flatten().next() {
        return Err(pattern.into());
    }
    let EventCollector { tables, sorter, mut summary, .. } = collector;
    summary.issues.set_table(None);
    summary.tables = tables.len();
    if let ExportDestination::Directory(directory) = &options.destination {
        create_private_directory(directory).map_err(|error| with_path(directory, error))?;
    }
    let table = timeline_table();
    let mut sqlite = None;
    let mut writer = match target.as_deref() {
        Some(path) if options.format == ExportFormat::Sqlite => {
            let file = sqlite.insert(SqliteFile::new(path, options.force, options.additional.marks())?);
            file.begin(&table)?;
            TableWriter::Sqlite(file)
        }
        path => TableWriter::stream(path, &table, options)?,
    };
    sorter.drain(&mut |event| {
        summary.rows += 1;
        if summary.rows.is_multiple_of(1024) {
            progress(TIMELINE, summary.rows);
        }
        let Some(EventTable { source, name }) = tables.get(event.table as usize) else { return Ok(()) };
        let texts = [source, name, &event.key, &event.what].map(|text| ExportedCell::from(text.as_bytes()));
        let time = ExportedCell::from(event.time.as_slice());
        let cells: Vec<ExportedCell<'_>> = iter::once(time).chain(texts).collect();
        let (page, carved) = event.carved.map_or((table.root, None), |(page, from)| (page, Some(from)));
        let deleted = event.deleted;
        writer.row(&table, &ExportedRow { cells: &cells, deleted, damaged: false, carved, page, index: 0 })
    })?;
    writer.finish(None)?;
    if let Some(file) = sqlite {
        file.finish(None)?;
    }
    sync_at_end(options)?;
    Ok(summary)
}

/// Returns the output file, or `None` for standard output. Fails if the file exists and may not be replaced.
fn output_file(options: &ExportOptions) -> Result<Option<PathBuf>, ExportError> {
    let file = match &options.destination {
        ExportDestination::Stdout if options.format == ExportFormat::Sqlite => {
            return Err(ExportError::SqliteToStdout);
        }
        ExportDestination::Stdout => return Ok(None),
        ExportDestination::File(file) => file.clone(),
        ExportDestination::Directory(directory) => directory.join(format!("{TIMELINE}.{}", options.format)),
    };
    check_absent(&file, options.force)?;
    Ok(Some(file))
}

/// Returns the definition of the output table.
fn timeline_table() -> SourceTable {
    let mut schema = TableSchema::new(TIMELINE, TreeId(0), PageNumber::fixed(1));
    schema.columns.push(Column::new(1, "time", ColumnType::DateTime, 8));
    schema.columns.extend((256..).zip(["source", "table", "key", "what"]).map(|(id, name)| {
        let column = Column::new(id, name, ColumnType::LongText, 0);
        Column { code_page: UTF_8, ..column }
    }));
    SourceTable::new(&schema, PageSize::KIB_4)
}

/// Collects the events of databases.
struct EventCollector<'o> {
    options: &'o ExportOptions,
    tables: Vec<EventTable>,
    sorter: EventSorter,
    summary: ExportSummary,
}

impl EventCollector<'_> {
    /// Adds the events of a database. Returns the patterns that match nothing in it.
    fn add_database(
        &mut self,
        vfs: &dyn Vfs,
        path: &Path,
        is_one_of_several: bool,
        progress: &mut dyn FnMut(&str, u64),
    ) -> Result<Vec<UnmatchedPattern>, ExportError> {
        self.summary.issues.set_table(None);
        let source = SourceDatabase::open(vfs, path, &mut self.summary.issues)?;
        let view = ExportView::new(&source, self.options.rendering)?;
        // Columns are selected later, because events need other columns in addition to the times.
        let selection = Selection { columns: Vec::new(), ..self.options.selection.clone() };
        let SelectedTables { tables, unmatched } = view.select_matches(&source, &selection);
        let shown = path.display().to_string();
        let before = self.tables.len();
        for mut selected in tables {
            let Some(columns) =
                EventColumns::select(&mut selected, view.timeline(), selection.times.is_some())
            else {
                continue;
            };
            let name = selected.table.name.clone();
            let of_file = if is_one_of_several { format!(" of {shown}") } else { String::new() };
            self.summary.issues.set_table(Some(&format!("{name}{of_file}")));
            self.tables.push(EventTable { source: shown.clone(), name });
            self.add_table(&source, selected, &columns, progress)?;
        }
        if self.tables.len() == before {
            self.summary.issues.set_table(None);
            self.summary.issues.add_note(None, format!("{shown}: no selected table has times"));
        }
        Ok(unmatched)
    }

    fn add_table(
        &mut self,
        source: &SourceDatabase,
        selected: SelectedTable,
        columns: &EventColumns,
        progress: &mut dyn FnMut(&str, u64),
    ) -> io::Result<()> {
        let table = u32::try_from(self.tables.len().saturating_sub(1)).unwrap_or(u32::MAX);
        let (condition, shown) = (selected.times.clone(), selected.table.clone());
        let mut reading = RowReadOptions {
            // The time line has no column that marks rows on damaged pages.
            additional: AdditionalRows { damaged: false, ..self.options.additional },
            row_limit: self.options.row_limit,
            ..RowReadOptions::default()
        };
        let (sorter, ExportSummary { issues, implausible_times, .. }) = (&mut self.sorter, &mut self.summary);
        let (mut rows, mut carved_rows) = (0u64, 0);
        progress(&shown.name, rows);
        let mut cursor = RowCursor::new(source, selected);
        let mut visit = |row: ExportedRow<'_>| -> io::Result<ControlFlow<()>> {
            rows += 1;
            if rows.is_multiple_of(1024) {
                progress(&shown.name, rows);
            }
            carved_rows += u64::from(row.carved.is_some());
            let mut texts = None;
            for event in columns.events(&shown, &row, implausible_times) {
                let in_range = condition
                    .as_ref()
                    .is_none_or(|condition| condition.accepts_time(event.column, event.ticks));
                if in_range {
                    // All events of a row have the same texts.
                    let texts = texts.get_or_insert_with(|| columns.texts(&shown, &row));
                    let (key, what) = (texts.key.clone(), event.what(&shown, texts));
                    let (ticks, time, deleted) = (event.ticks, event.time, row.deleted);
                    let carved = row.carved.map(|from| (row.page, from));
                    sorter.add(TimelineEvent { ticks, time, deleted, carved, table, key, what })?;
                }
            }
            Ok(ControlFlow::Continue(()))
        };
        while cursor.read(source, &mut reading, issues, &mut visit)? != PortionEnd::End {}
        note_other_rows(issues, cursor.hidden_deleted_rows(), carved_rows, reading.additional);
        Ok(())
    }
}
