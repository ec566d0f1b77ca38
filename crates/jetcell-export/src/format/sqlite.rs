//! SQLite output: one database with all tables.

use std::collections::HashSet;
use std::io;
use std::path::Path;

use ese_format::record::{Column, ColumnType};
use jetcell_vfs::{UnfinishedFile, with_path};
use rusqlite::Connection;
use rusqlite::types::{ToSqlOutput, ValueRef};

use crate::additional_rows::RowMark;
use crate::cell::ExportedCell;
use crate::format::{item_value, json};
use crate::output;
use crate::rows::ExportedRow;
use crate::table::{SourceTable, TableColumn, unique_name};
use crate::target::OutputSync;
use crate::value::{ExportedValue, write_sid};
use crate::value_files::ValueFiles;

/// Maximum number of columns, below the SQLite limit of 2000. If a table has more, the remaining columns are combined
/// into one column as a JSON object.
const MAX_COLUMNS: usize = 1990;

/// Writes all tables to a SQLite database.
pub(crate) struct SqliteFile {
    connection: Connection,
    file: UnfinishedFile,
    names: HashSet<String>,
    insert: String,
    marks: Vec<RowMark>,
    /// Mark columns of the current table.
    table_marks: Vec<RowMark>,
    buffer: Vec<u8>,
}

impl SqliteFile {
    pub(crate) fn new(target: &Path, force: bool, marks: Vec<RowMark>) -> io::Result<SqliteFile> {
        let file = output::create(target, force)?;
        let connection = Connection::open(file.temporary_path()).map_err(|error| failed(&file, error))?;
        // No rollback journal is needed, because the file is removed unless it is completed.
        connection
            .execute_batch(
                "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -16384; BEGIN",
            )
            .map_err(|error| failed(&file, error))?;
        connection.set_prepared_statement_cache_capacity(1);
        let (names, insert, buffer) = (HashSet::new(), String::new(), Vec::new());
        Ok(SqliteFile { connection, file, names, insert, marks, table_marks: Vec::new(), buffer })
    }

    /// Creates a table for the rows that follow.
    pub(crate) fn begin(&mut self, table: &SourceTable) -> io::Result<()> {
        // SQLite reserves names with this prefix.
        let reserved = table.name.to_lowercase().starts_with("sqlite_");
        let name = if reserved { format!("_{}", table.name) } else { table.name.clone() };
        let name = quoted(&unique_name(&name, &mut self.names));
        let mut taken: HashSet<String> =
            table.columns.iter().map(|column| column.column.name.to_lowercase()).collect();
        let mut columns: Vec<String> = table
            .columns
            .iter()
            .take(MAX_COLUMNS)
            .map(|column| format!("{} {}", quoted(&column.column.name), affinity(&column.column)))
            .collect();
        if table.columns.len() > MAX_COLUMNS {
            columns.push(format!("{} TEXT", quoted(&unique_name("_more", &mut taken))));
        }
        // SQLite does not accept a table without columns.
        self.table_marks.clone_from(&self.marks);
        if columns.is_empty() && self.marks.is_empty() {
            self.table_marks.push(RowMark::Deleted);
        }
        for mark in &self.table_marks {
            let name = unique_name(mark.name(), &mut taken);
            let kind = if mark.kind() == ColumnType::Text { "TEXT" } else { "INTEGER" };
            columns.push(format!("{} {kind}", quoted(&name)));
        }
        let marks = vec!["?"; columns.len()].join(",");
        self.insert = format!("INSERT INTO {name} VALUES ({marks})");
        self.connection
            .execute_batch(&format!("CREATE TABLE {name} ({})", columns.join(", ")))
            .map_err(|error| failed(&self.file, error))
    }

    pub(crate) fn row(&mut self, table: &SourceTable, row: &ExportedRow<'_>) -> io::Result<()> {
        let mut statement =
            self.connection.prepare_cached(&self.insert).map_err(|error| failed(&self.file, error))?;
        let mut parameter = 0;
        for (column, cell) in table.columns.iter().zip(row.cells).take(MAX_COLUMNS) {
            parameter += 1;
            self.buffer.clear();
            let value = sql_value(column, cell, &mut self.buffer);
            statement.raw_bind_parameter(parameter, value).map_err(|error| failed(&self.file, error))?;
        }
        if table.columns.len() > MAX_COLUMNS {
            self.buffer.clear();
            self.buffer.push(b'{');
            for (column, cell) in table.columns.iter().zip(row.cells).skip(MAX_COLUMNS) {
                if *cell != ExportedCell::Null {
                    if self.buffer.len() > 1 {
                        self.buffer.push(b',');
                    }
                    // The result can be ignored, because writing to memory cannot fail.
                    let _ = serde_json::to_writer(&mut self.buffer, &column.column.name);
                    self.buffer.push(b':');
                    json::write_cell(column, cell, &mut self.buffer);
                }
            }
            self.buffer.push(b'}');
            parameter += 1;
            let value = ToSqlOutput::Borrowed(ValueRef::Text(&self.buffer));
            statement.raw_bind_parameter(parameter, value).map_err(|error| failed(&self.file, error))?;
        }
        for mark in &self.table_marks {
            parameter += 1;
            let value = row.mark(*mark).map(|value| match value {
                ExportedValue::Bit(value) => ToSqlOutput::from(value),
                ExportedValue::Int(value) => ToSqlOutput::from(value),
                value => {
                    let mut text = Vec::new();
                    value.write_text(&mut text);
                    ToSqlOutput::from(String::from_utf8_lossy(&text).into_owned())
                }
            });
            statement.raw_bind_parameter(parameter, value).map_err(|error| failed(&self.file, error))?;
        }
        statement.raw_execute().map_err(|error| failed(&self.file, error))?;
        self.buffer.shrink_to(1 << 16);
        Ok(())
    }

    pub(crate) fn finish(self, values: Option<ValueFiles>) -> io::Result<()> {
        self.connection.execute_batch("COMMIT").map_err(|error| failed(&self.file, error))?;
        self.connection.close().map_err(|(_, error)| failed(&self.file, error))?;
        output::finish(self.file, values, OutputSync::EachFile)
    }
}

/// Linux error number `ENOSPC`.
const FULL: i32 = 28;

/// Converts an SQLite error. The result contains the path and, if the volume is full, the system's error message.
fn failed(file: &UnfinishedFile, error: rusqlite::Error) -> io::Error {
    let full = error.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull);
    with_path(
        file.temporary_path(),
        if full { io::Error::from_raw_os_error(FULL) } else { io::Error::other(error) },
    )
}

fn sql_value<'b>(
    column: &TableColumn,
    cell: &'b ExportedCell<'_>,
    buffer: &'b mut Vec<u8>,
) -> ToSqlOutput<'b> {
    let item = match cell {
        ExportedCell::Null => return ToSqlOutput::Borrowed(ValueRef::Null),
        ExportedCell::One(item) if !column.is_list(cell) => item,
        ExportedCell::One(_) | ExportedCell::Multi(_) => {
            json::write_cell(column, cell, buffer);
            return ToSqlOutput::Borrowed(ValueRef::Text(buffer));
        }
    };
    let value = match item_value(column, item) {
        Ok(ExportedValue::Bit(value)) => ValueRef::Integer(value.into()),
        Ok(ExportedValue::Int(value)) => ValueRef::Integer(value),
        Ok(ExportedValue::Single(value)) if value.is_finite() => ValueRef::Real(value.into()),
        Ok(ExportedValue::Double(value)) if value.is_finite() => ValueRef::Real(value),
        Ok(ExportedValue::Binary(bytes)) => {
            if write_sid(bytes, buffer) {
                ValueRef::Text(buffer)
            } else {
                ValueRef::Blob(bytes)
            }
        }
        Ok(ExportedValue::UInt(value)) if i64::try_from(value).is_ok() => ValueRef::Integer(value as i64),
        Ok(value) => {
            value.write_text(buffer);
            // SQL functions such as length() treat the first NUL as the end of a text.
            if buffer.contains(&0) { ValueRef::Blob(buffer) } else { ValueRef::Text(buffer) }
        }
        Err(marker) => {
            marker.write_text(buffer);
            ValueRef::Text(buffer)
        }
    };
    ToSqlOutput::Borrowed(value)
}

/// Returns the declared type of a column. SQLite would round Currency values and large integers, so Currency columns
/// are declared as text and integer columns as BLOB, which does not convert values.
fn affinity(column: &Column) -> &'static str {
    if column.flags.contains(ese_format::record::ColumnFlags::MULTI_VALUED) {
        return "TEXT";
    }
    match column.kind {
        ColumnType::Bit
        | ColumnType::UnsignedByte
        | ColumnType::Short
        | ColumnType::Long
        | ColumnType::UnsignedLong
        | ColumnType::UnsignedShort
        | ColumnType::LongLong => "INTEGER",
        ColumnType::Single | ColumnType::Double => "REAL",
        ColumnType::Binary | ColumnType::LongBinary | ColumnType::UnsignedLongLong => "BLOB",
        ColumnType::Currency
        | ColumnType::DateTime
        | ColumnType::Guid
        | ColumnType::Text
        | ColumnType::LongText => "TEXT",
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\"").replace('\0', "\u{fffd}"))
}
