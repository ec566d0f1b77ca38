//! An export: selected tables of one database to one destination.

use std::collections::HashSet;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use jetcell_input::TextFormat;
use jetcell_vfs::{Vfs, create_private_directory, sync_file_system, with_path};

use crate::additional_rows::AdditionalRows;
use crate::error::ExportError;
use crate::format::{CsvTable, ExportFormat, JsonTable, ParquetTable, SqliteFile};
use crate::issue::ExportIssues;
use crate::output::{ExportDestination, OutputStream, file_name};
use crate::rendering::RenderingOptions;
use crate::rows::{ExportedRow, PortionEnd, RowCursor, RowReadOptions};
use crate::selection::Selection;
use crate::source_database::SourceDatabase;
use crate::table::{SourceTable, TableColumn, unique_name};
use crate::target::{OutputSync, check_absent};
use crate::value_files::{ValueFiles, file_stem};
use crate::view::ExportView;

/// Options for an export.
#[derive(Clone, Debug)]
pub struct ExportOptions {
    /// Tables, columns and rows to export.
    pub selection: Selection,
    /// Format of the output.
    pub format: ExportFormat,
    /// Destination of the output.
    pub destination: ExportDestination,
    /// Rows to export in addition to the current rows on intact pages, with columns that mark them.
    pub additional: AdditionalRows,
    /// Whether to replace existing files.
    pub force: bool,
    /// Maximum number of bytes of long values to keep in memory for one row, usually [`ROW_LIMIT`]. Values that
    /// exceed it are written to separate files.
    ///
    /// [`ROW_LIMIT`]: crate::ROW_LIMIT
    pub row_limit: usize,
    /// Format of the values.
    pub rendering: RenderingOptions,
}

impl ExportOptions {
    /// Returns the time at which the output files become durable.
    fn sync(&self) -> OutputSync {
        match self.destination {
            ExportDestination::Directory(_) if self.format != ExportFormat::Sqlite => OutputSync::AtEnd,
            _ => OutputSync::EachFile,
        }
    }
}

/// Summary of an export.
#[derive(Debug, Default)]
pub struct ExportSummary {
    /// Number of exported tables.
    pub tables: usize,
    /// Total number of exported rows in all tables.
    pub rows: u64,
    /// Number of long values that were written to separate files.
    pub value_files: u64,
    /// Number of times that a time line does not contain, because they mean "never" or are before 1970 or after 2099.
    pub implausible_times: u64,
    /// Issues found by the export: missing data and notes.
    pub issues: ExportIssues,
}

/// Callback that receives an export's progress. It is called often, with the name of the current table and the number
/// of rows exported from it so far.
pub type ExportProgressFn<'p> = &'p mut dyn FnMut(&str, u64);

/// Exports tables of the database at `path`.
pub fn export(
    vfs: &dyn Vfs,
    path: &Path,
    options: &ExportOptions,
    progress: ExportProgressFn<'_>,
) -> Result<ExportSummary, ExportError> {
    if !options.format.is_built() {
        return Err(ExportError::NotBuilt(options.format));
    }
    let mut exported = ExportSummary::default();
    let source = SourceDatabase::open(vfs, path, &mut exported.issues)?;
    let mut selected = ExportView::new(&source, options.rendering)?.select(&source, &options.selection)?;
    // A Parquet column has a single type, but not all of these integers are times.
    if options.format == ExportFormat::Parquet {
        let columns = selected.iter_mut().flat_map(|selected| &mut selected.table.columns);
        columns.for_each(TableColumn::use_stored_values);
    }
    let tables: Vec<&SourceTable> = selected.iter().map(|selected| &selected.table).collect();
    exported.tables = tables.len();
    let one_stream = options.format != ExportFormat::Sqlite
        && !matches!(options.destination, ExportDestination::Directory(_));
    if one_stream && tables.len() != 1 {
        return Err(ExportError::OneTable { format: options.format, tables: tables.len() });
    }
    // In SQLite output, all tables share one file and one directory for long values.
    let (mut sqlite, mut shared) = (None, None);
    if options.format == ExportFormat::Sqlite {
        let target = match &options.destination {
            ExportDestination::Stdout => return Err(ExportError::SqliteToStdout),
            ExportDestination::File(file) => file.clone(),
            ExportDestination::Directory(directory) => {
                create_private_directory(directory).map_err(|error| with_path(directory, error))?;
                let stem = path.file_name().unwrap_or_default().to_string_lossy();
                directory.join(format!("{stem}.sqlite"))
            }
        };
        sqlite = Some(SqliteFile::new(&target, options.force, options.additional.marks())?);
        shared = Some(value_files(&target, options)?);
    }
    let targets = targets(&tables, options)?;
    let mut stems = HashSet::new();
    for (one, target) in selected.iter().zip(targets) {
        let table = &one.table;
        exported.issues.set_table(Some(&table.name));
        if options.selection.times.is_some() && !one.has_condition() {
            exported.issues.add_note(None, "none of the columns contains times, so all rows are exported");
        }
        let mut writer = match &mut sqlite {
            Some(file) => {
                file.begin(table)?;
                TableWriter::Sqlite(file)
            }
            None => TableWriter::stream(target.as_deref(), table, options)?,
        };
        let mut own = target.map(|target| value_files(&target, options)).transpose()?;
        let mut files = own.as_mut().or(shared.as_mut());
        if let Some(files) = &mut files {
            files.begin(&unique_name(&file_stem(&file_name(&table.name)), &mut stems));
        }
        let mut reading = RowReadOptions {
            additional: options.additional,
            row_limit: options.row_limit,
            files,
            limit_advice: "standard output does not have a directory for a separate file; specify a \
             directory or a file with --output",
            stop_at_missing: false,
        };
        let (mut rows, mut carved) = (0, 0);
        progress(&table.name, rows);
        let mut cursor = RowCursor::new(&source, one.clone());
        let mut write = |row: ExportedRow<'_>| {
            rows += 1;
            carved += u64::from(row.carved.is_some());
            if rows % 1024 == 0 {
                progress(&table.name, rows);
            }
            writer.row(table, &row).map(ControlFlow::Continue)
        };
        while cursor.read(&source, &mut reading, &mut exported.issues, &mut write)? != PortionEnd::End {}
        note_other_rows(&mut exported.issues, cursor.hidden_deleted_rows(), carved, options.additional);
        exported.rows += rows;
        exported.value_files += own.as_ref().map_or(0, ValueFiles::count);
        writer.finish(own)?;
    }
    exported.issues.set_table(None);
    exported.value_files += shared.as_ref().map_or(0, ValueFiles::count);
    if let Some(file) = sqlite {
        file.finish(shared)?;
    }
    sync_at_end(options)?;
    Ok(exported)
}

/// Makes the output files durable unless each of them already is.
pub(crate) fn sync_at_end(options: &ExportOptions) -> io::Result<()> {
    match (options.sync(), &options.destination) {
        (OutputSync::AtEnd, ExportDestination::Directory(directory)) => {
            sync_file_system(directory).map_err(|error| with_path(directory, error))
        }
        _ => Ok(()),
    }
}

/// Reports the rows flagged as deleted that were skipped, and the rows that were carved.
pub(crate) fn note_other_rows(
    issues: &mut ExportIssues,
    hidden: u64,
    carved: u64,
    additional: AdditionalRows,
) {
    if hidden > 0 {
        let carve = if additional.carved { "" } else { ", and --carve finds rows that were removed" };
        let what = format!("{hidden} rows are flagged deleted; --deleted exports them{carve}");
        issues.add_note(None, what);
    }
    if carved > 0 {
        issues.add_note(None, format!("{carved} rows were carved; they are not part of the table"));
    }
}

/// Creates the files for the long values in the output `target`.
fn value_files(target: &Path, options: &ExportOptions) -> io::Result<ValueFiles> {
    match &options.destination {
        ExportDestination::Directory(_) => ValueFiles::new(target, "values", options.force),
        ExportDestination::File(_) | ExportDestination::Stdout => {
            let name = target.file_name().unwrap_or_default().to_string_lossy();
            ValueFiles::new(target, &format!("{name}.values"), options.force)
        }
    }
}

/// Returns the output file for each table, or `None` for standard output and SQLite. Fails, before any output is
/// written, if one of the files already exists.
fn targets(tables: &[&SourceTable], options: &ExportOptions) -> io::Result<Vec<Option<PathBuf>>> {
    let targets: Vec<Option<PathBuf>> = match &options.destination {
        _ if options.format == ExportFormat::Sqlite => vec![None; tables.len()],
        ExportDestination::Stdout => vec![None; tables.len()],
        ExportDestination::File(file) => vec![Some(file.clone()); tables.len()],
        ExportDestination::Directory(directory) => {
            create_private_directory(directory).map_err(|error| with_path(directory, error))?;
            let mut names = HashSet::new();
            let extension = options.format.extension();
            tables
                .iter()
                .map(|table| {
                    let name = unique_name(&file_name(&table.name), &mut names);
                    Some(directory.join(format!("{name}.{extension}")))
                })
                .collect()
        }
    };
    targets.iter().flatten().try_for_each(|target| check_absent(target, options.force))?;
    Ok(targets)
}

/// Writer of one table in one of the formats.
pub(crate) enum TableWriter<'s> {
    Csv(Box<CsvTable>),
    Json(JsonTable),
    Parquet(Box<ParquetTable>),
    Sqlite(&'s mut SqliteFile),
}

impl TableWriter<'_> {
    pub(crate) fn stream(
        target: Option<&Path>,
        table: &SourceTable,
        options: &ExportOptions,
    ) -> io::Result<TableWriter<'static>> {
        let stream = match target {
            Some(target) => OutputStream::file(target, options.force, options.sync())?,
            None if options.format == ExportFormat::JsonLines => OutputStream::stdout(TextFormat::Json),
            None => OutputStream::stdout(TextFormat::Lines),
        };
        let marks = options.additional.marks();
        Ok(match options.format {
            ExportFormat::JsonLines => {
                TableWriter::Json(JsonTable::new(stream, table, marks, options.rendering.omit_nulls))
            }
            ExportFormat::Parquet => TableWriter::Parquet(Box::new(ParquetTable::new(stream, table, marks)?)),
            ExportFormat::Csv | ExportFormat::Sqlite => {
                let safe = options.rendering.csv_safe;
                TableWriter::Csv(Box::new(CsvTable::new(stream, table, marks, safe)?))
            }
        })
    }

    pub(crate) fn row(&mut self, table: &SourceTable, row: &ExportedRow<'_>) -> io::Result<()> {
        match self {
            TableWriter::Csv(writer) => writer.row(table, row),
            TableWriter::Json(writer) => writer.row(table, row),
            TableWriter::Parquet(writer) => writer.row(table, row),
            TableWriter::Sqlite(writer) => writer.row(table, row),
        }
    }

    pub(crate) fn finish(self, values: Option<ValueFiles>) -> io::Result<()> {
        match self {
            TableWriter::Csv(writer) => writer.finish(values),
            TableWriter::Json(writer) => writer.finish(values),
            TableWriter::Parquet(writer) => writer.finish(values),
            // SQLite finishes all tables together at the end.
            TableWriter::Sqlite(_) => Ok(()),
        }
    }
}
