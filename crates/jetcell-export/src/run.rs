//! A whole export: chosen tables of one database to one destination.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use ese_check::CheckError;
use jetcell_vfs::Vfs;

use crate::format::{CsvTable, Format, JsonTable, ParquetTable, SqliteFile};
use crate::issue::Issues;
use crate::output::{Destination, Stream, file_name};
use crate::rows::{Reading, Row, read_rows};
use crate::source::Source;
use crate::table::{Table, unique};
use crate::value_files::{ValueFiles, stem};

/// What to export, and where to.
#[derive(Clone, Debug)]
pub struct Options {
    /// Names of tables; all when empty.
    pub tables: Vec<String>,
    /// What to write.
    pub format: Format,
    /// Where to.
    pub destination: Destination,
    /// Rows flagged deleted, too, with a column that tells.
    pub deleted: bool,
    /// Replace files that exist.
    pub force: bool,
    /// Bytes of long values in memory for one row; longer ones go to files of their own. [`ROW_LIMIT`] as a rule.
    ///
    /// [`ROW_LIMIT`]: crate::ROW_LIMIT
    pub row_limit: usize,
}

/// What was exported.
#[derive(Debug, Default)]
pub struct Exported {
    /// Tables.
    pub tables: usize,
    /// Rows of all of them.
    pub rows: u64,
    /// Long values that went to files of their own.
    pub value_files: u64,
    /// What is missing or worth knowing.
    pub issues: Issues,
}

/// Why nothing (more) could be exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The database cannot be opened.
    #[error(transparent)]
    Open(#[from] CheckError),
    /// There is no such table.
    #[error("there is no table {name}; jetcell dump schema lists them")]
    NoTable {
        /// The name asked for.
        name: String,
    },
    /// More than one table to a place for one.
    #[error("{format} of {tables} tables needs a directory as --output; or choose one with --table")]
    OneTable {
        /// The format.
        format: Format,
        /// How many tables.
        tables: usize,
    },
    /// SQLite cannot be streamed.
    #[error("an SQLite database cannot go to standard output; give --output a file name")]
    SqliteToStdout,
    /// Output failed.
    #[error("cannot write: {0}")]
    Write(#[from] io::Error),
}

/// Told of each table and of rows done in it, often.
pub type Progress<'p> = &'p mut dyn FnMut(&str, u64);

/// Exports tables of the database at `path`.
pub fn export(
    vfs: &dyn Vfs,
    path: &Path,
    options: &Options,
    progress: Progress<'_>,
) -> Result<Exported, ExportError> {
    let mut exported = Exported::default();
    let source = Source::open(vfs, path, &mut exported.issues)?;
    let tables = choose(&source, &options.tables)?;
    exported.tables = tables.len();
    let one_stream =
        options.format != Format::Sqlite && !matches!(options.destination, Destination::Directory(_));
    if one_stream && tables.len() != 1 {
        return Err(ExportError::OneTable { format: options.format, tables: tables.len() });
    }
    // All tables go to one file, and so do the long values of all.
    let (mut sqlite, mut shared) = (None, None);
    if options.format == Format::Sqlite {
        let target = match &options.destination {
            Destination::Stdout => return Err(ExportError::SqliteToStdout),
            Destination::File(file) => file.clone(),
            Destination::Directory(directory) => {
                std::fs::create_dir_all(directory)?;
                let stem = path.file_name().unwrap_or_default().to_string_lossy();
                directory.join(format!("{stem}.sqlite"))
            }
        };
        sqlite = Some(SqliteFile::new(&target, options.force, options.deleted)?);
        shared = Some(value_files(&target, options)?);
    }
    let targets = targets(&tables, options)?;
    let mut stems = HashSet::new();
    for (table, target) in tables.into_iter().zip(targets) {
        exported.issues.set_table(Some(&table.name));
        let mut writer = match &mut sqlite {
            Some(file) => {
                file.begin(table)?;
                Writer::Sqlite(file)
            }
            None => Writer::stream(target.as_deref(), table, options)?,
        };
        let mut own = target.map(|target| value_files(&target, options)).transpose()?;
        let mut files = own.as_mut().or(shared.as_mut());
        if let Some(files) = &mut files {
            files.begin(&unique(&stem(&file_name(&table.name)), &mut stems));
        }
        let reading = Reading { deleted: options.deleted, row_limit: options.row_limit, files };
        let mut rows = 0;
        progress(&table.name, rows);
        read_rows(&source, table, reading, &mut exported.issues, |row| {
            rows += 1;
            if rows % 1024 == 0 {
                progress(&table.name, rows);
            }
            writer.row(table, &row)
        })?;
        exported.rows += rows;
        exported.value_files += own.as_ref().map_or(0, ValueFiles::count);
        writer.finish(own)?;
    }
    exported.issues.set_table(None);
    exported.value_files += shared.as_ref().map_or(0, ValueFiles::count);
    if let Some(file) = sqlite {
        file.finish(shared)?;
    }
    Ok(exported)
}

/// The place for the long values of the output `target`.
fn value_files(target: &Path, options: &Options) -> io::Result<ValueFiles> {
    match &options.destination {
        Destination::Directory(_) => ValueFiles::new(target, "values", options.force),
        Destination::File(_) | Destination::Stdout => {
            let name = target.file_name().unwrap_or_default().to_string_lossy();
            ValueFiles::new(target, &format!("{name}.values"), options.force)
        }
    }
}

fn choose<'s>(source: &'s Source, names: &[String]) -> Result<Vec<&'s Table>, ExportError> {
    if names.is_empty() {
        return Ok(source.tables().iter().collect());
    }
    let mut chosen: Vec<&Table> = Vec::new();
    for name in names {
        let table = source.table(name).ok_or_else(|| ExportError::NoTable { name: name.clone() })?;
        if !chosen.iter().any(|other| other.name == table.name) {
            chosen.push(table);
        }
    }
    Ok(chosen)
}

/// The file of each table; none for standard output. Nothing is begun while one of them is in the way.
fn targets(tables: &[&Table], options: &Options) -> io::Result<Vec<Option<PathBuf>>> {
    let targets: Vec<Option<PathBuf>> = match &options.destination {
        _ if options.format == Format::Sqlite => vec![None; tables.len()],
        Destination::Stdout => vec![None; tables.len()],
        Destination::File(file) => vec![Some(file.clone()); tables.len()],
        Destination::Directory(directory) => {
            std::fs::create_dir_all(directory)?;
            let mut names = HashSet::new();
            let extension = options.format.extension();
            tables
                .iter()
                .map(|table| {
                    let name = unique(&file_name(&table.name), &mut names);
                    Some(directory.join(format!("{name}.{extension}")))
                })
                .collect()
        }
    };
    match targets.iter().flatten().find(|target| !options.force && target.symlink_metadata().is_ok()) {
        Some(target) => {
            let what = format!("{} exists; use --force to replace it", target.display());
            Err(io::Error::new(io::ErrorKind::AlreadyExists, what))
        }
        None => Ok(targets),
    }
}

enum Writer<'s> {
    Csv(Box<CsvTable>),
    Json(JsonTable),
    Parquet(Box<ParquetTable>),
    Sqlite(&'s mut SqliteFile),
}

impl Writer<'_> {
    fn stream(target: Option<&Path>, table: &Table, options: &Options) -> io::Result<Writer<'static>> {
        let stream = match target {
            Some(target) => Stream::file(target, options.force)?,
            None => Stream::stdout(),
        };
        Ok(match options.format {
            Format::JsonLines => Writer::Json(JsonTable::new(stream, table, options.deleted)),
            Format::Parquet => Writer::Parquet(Box::new(ParquetTable::new(stream, table, options.deleted)?)),
            Format::Csv | Format::Sqlite => {
                Writer::Csv(Box::new(CsvTable::new(stream, table, options.deleted)?))
            }
        })
    }

    fn row(&mut self, table: &Table, row: &Row<'_>) -> io::Result<()> {
        match self {
            Writer::Csv(writer) => writer.row(table, row),
            Writer::Json(writer) => writer.row(table, row),
            Writer::Parquet(writer) => writer.row(table, row),
            Writer::Sqlite(writer) => writer.row(table, row),
        }
    }

    fn finish(self, values: Option<ValueFiles>) -> io::Result<()> {
        match self {
            Writer::Csv(writer) => writer.finish(values),
            Writer::Json(writer) => writer.finish(values),
            Writer::Parquet(writer) => writer.finish(values),
            // All tables are finished together.
            Writer::Sqlite(_) => Ok(()),
        }
    }
}
