//! Parquet output: typed columns, with lists for multi-valued columns. Each batch of rows becomes a row group.
//!
//! A value that is unreadable or in a separate file is written as null, and its marker is written to the column
//! `_unreadable`. If a cell has several values but its column is not declared multi-valued, the values are also
//! written to `_unreadable`.

use std::io;
use std::sync::Arc;

use ese_format::record::{Column, ColumnFlags, ColumnType};
use parquet::basic::{LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::{ByteArray, FixedLenByteArray};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{Type, TypePtr};

use crate::additional_rows::RowMark;
use crate::cell::ExportedCell;
use crate::format::{item_value, json};
use crate::output::OutputStream;
use crate::rows::ExportedRow;
use crate::table::{SourceTable, TableColumn, unique_name};
use crate::value::ExportedValue;
use crate::value_files::ValueFiles;

/// Approximate size in bytes of the values in a row group.
const GROUP_BYTES: usize = 8 << 20;
/// Maximum number of cells in a row group.
const GROUP_CELLS: usize = 1 << 20;

/// Writes a single table as a Parquet file.
pub(crate) struct ParquetTable {
    writer: SerializedFileWriter<OutputStream>,
    columns: Vec<ColumnBatch>,
    marks: Vec<(RowMark, ColumnBatch)>,
    unreadable: ColumnBatch,
    bytes: usize,
    cells: usize,
}

enum ParquetValues {
    Bool(Vec<bool>),
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Single(Vec<f32>),
    Double(Vec<f64>),
    Bytes(Vec<ByteArray>),
    Fixed(Vec<FixedLenByteArray>),
}

/// Values of a column that have not been written yet.
struct ColumnBatch {
    list: bool,
    values: ParquetValues,
    definition: Vec<i16>,
    repetition: Vec<i16>,
}

impl ParquetTable {
    pub(crate) fn new(
        stream: OutputStream,
        table: &SourceTable,
        marks: Vec<RowMark>,
    ) -> io::Result<ParquetTable> {
        let mut names = table.columns.iter().map(|column| column.column.name.to_lowercase()).collect();
        let mut fields = Vec::new();
        let mut columns = Vec::new();
        for column in table.columns.iter().map(|column| &column.column) {
            fields.push(field(column).map_err(error)?);
            columns.push(ColumnBatch::new(column.kind, column.flags.contains(ColumnFlags::MULTI_VALUED)));
        }
        let mut extra =
            |name: &str, kind| field(&Column::new(1, &unique_name(name, &mut names), kind, 0)).map_err(error);
        for mark in &marks {
            fields.push(extra(mark.name(), mark.kind())?);
        }
        fields.push(extra("_unreadable", ColumnType::Text)?);
        let schema = Type::group_type_builder("row").with_fields(fields).build().map_err(error)?;
        let properties = WriterProperties::builder()
            .set_compression(parquet::basic::Compression::SNAPPY)
            .set_created_by(concat!("jetcell ", env!("CARGO_PKG_VERSION")).to_owned())
            .build();
        let writer =
            SerializedFileWriter::new(stream, Arc::new(schema), Arc::new(properties)).map_err(error)?;
        let unreadable = ColumnBatch::new(ColumnType::Text, false);
        let batch = |mark: RowMark| (mark, ColumnBatch::new(mark.kind(), false));
        let marks = marks.into_iter().map(batch).collect();
        Ok(ParquetTable { writer, columns, marks, unreadable, bytes: 0, cells: 0 })
    }

    pub(crate) fn row(&mut self, table: &SourceTable, row: &ExportedRow<'_>) -> io::Result<()> {
        let mut notes = Vec::new();
        for ((column, cell), batch) in table.columns.iter().zip(row.cells).zip(&mut self.columns) {
            self.bytes += batch.cell(column, cell, &mut notes);
        }
        for (mark, batch) in &mut self.marks {
            match row.mark(*mark) {
                Some(value) => self.bytes += batch.value(value, 0, 1),
                None => batch.absent(0, 0),
            }
        }
        if notes.is_empty() {
            self.unreadable.absent(0, 0);
        } else {
            self.bytes += notes.len();
            let text = String::from_utf8_lossy(&notes).into_owned();
            self.unreadable.value(ExportedValue::Text(text.into()), 0, 1);
        }
        self.cells += table.columns.len() + 1;
        if self.bytes >= GROUP_BYTES || self.cells >= GROUP_CELLS { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut group = self.writer.next_row_group().map_err(error)?;
        let batches = self
            .columns
            .iter_mut()
            .chain(self.marks.iter_mut().map(|(_, batch)| batch))
            .chain([&mut self.unreadable]);
        for batch in batches {
            let mut column = group
                .next_column()
                .map_err(error)?
                .ok_or_else(|| io::Error::other("the Parquet schema has too few columns"))?;
            batch.write(column.untyped()).map_err(error)?;
            column.close().map_err(error)?;
        }
        group.close().map_err(error)?;
        (self.bytes, self.cells) = (0, 0);
        Ok(())
    }

    pub(crate) fn finish(mut self, values: Option<ValueFiles>) -> io::Result<()> {
        if self.cells > 0 {
            self.flush()?;
        }
        self.writer.into_inner().map_err(error)?.finish(values)
    }
}

fn error(error: ParquetError) -> io::Error {
    match error {
        // The error from the stream names the file, so return it unchanged.
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(source) => io::Error::other(source),
        },
        error => io::Error::other(error),
    }
}

fn field(column: &Column) -> Result<TypePtr, ParquetError> {
    if !column.flags.contains(ColumnFlags::MULTI_VALUED) {
        return Ok(Arc::new(element(&column.name, column.kind)?));
    }
    let element = Arc::new(element("element", column.kind)?);
    let list = Type::group_type_builder("list")
        .with_repetition(Repetition::REPEATED)
        .with_fields(vec![element])
        .build()?;
    let outer = Type::group_type_builder(&column.name)
        .with_repetition(Repetition::OPTIONAL)
        .with_logical_type(Some(LogicalType::List))
        .with_fields(vec![Arc::new(list)]);
    Ok(Arc::new(outer.build()?))
}

/// Length in bytes of a Currency value, stored as a decimal with 19 digits.
const CURRENCY_LEN: usize = 9;

fn element(name: &str, kind: ColumnType) -> Result<Type, ParquetError> {
    let integer = |bit_width, is_signed| Some(LogicalType::integer(bit_width, is_signed));
    let (physical, logical, len) = match kind {
        ColumnType::Bit => (Physical::BOOLEAN, None, 0),
        ColumnType::UnsignedByte => (Physical::INT32, integer(8, false), 0),
        ColumnType::Short => (Physical::INT32, integer(16, true), 0),
        ColumnType::UnsignedShort => (Physical::INT32, integer(16, false), 0),
        ColumnType::Long => (Physical::INT32, None, 0),
        ColumnType::UnsignedLong => (Physical::INT32, integer(32, false), 0),
        ColumnType::LongLong => (Physical::INT64, None, 0),
        ColumnType::UnsignedLongLong => (Physical::INT64, integer(64, false), 0),
        ColumnType::Currency => {
            (Physical::FIXED_LEN_BYTE_ARRAY, Some(LogicalType::decimal(4, 19)), CURRENCY_LEN)
        }
        ColumnType::Single => (Physical::FLOAT, None, 0),
        ColumnType::Double => (Physical::DOUBLE, None, 0),
        ColumnType::DateTime => (Physical::INT64, Some(LogicalType::timestamp(false, TimeUnit::MICROS)), 0),
        ColumnType::Guid => (Physical::FIXED_LEN_BYTE_ARRAY, Some(LogicalType::Uuid), 16),
        ColumnType::Binary | ColumnType::LongBinary => (Physical::BYTE_ARRAY, None, 0),
        ColumnType::Text | ColumnType::LongText => (Physical::BYTE_ARRAY, Some(LogicalType::String), 0),
    };
    let mut builder = Type::primitive_type_builder(name, physical)
        .with_repetition(Repetition::OPTIONAL)
        .with_logical_type(logical)
        .with_length(if len > 0 { len as i32 } else { -1 });
    if kind == ColumnType::Currency {
        builder = builder.with_precision(19).with_scale(4);
    }
    builder.build()
}

impl ColumnBatch {
    fn new(kind: ColumnType, list: bool) -> ColumnBatch {
        let values = match kind {
            ColumnType::Bit => ParquetValues::Bool(Vec::new()),
            ColumnType::UnsignedByte
            | ColumnType::Short
            | ColumnType::UnsignedShort
            | ColumnType::Long
            | ColumnType::UnsignedLong => ParquetValues::Int32(Vec::new()),
            ColumnType::LongLong | ColumnType::UnsignedLongLong | ColumnType::DateTime => {
                ParquetValues::Int64(Vec::new())
            }
            ColumnType::Single => ParquetValues::Single(Vec::new()),
            ColumnType::Double => ParquetValues::Double(Vec::new()),
            ColumnType::Currency | ColumnType::Guid => ParquetValues::Fixed(Vec::new()),
            ColumnType::Binary | ColumnType::LongBinary | ColumnType::Text | ColumnType::LongText => {
                ParquetValues::Bytes(Vec::new())
            }
        };
        ColumnBatch { list, values, definition: Vec::new(), repetition: Vec::new() }
    }

    /// Adds a cell. Returns its approximate size in bytes.
    fn cell(&mut self, column: &TableColumn, cell: &ExportedCell<'_>, notes: &mut Vec<u8>) -> usize {
        // Definition levels for lists: 0 null, 1 empty, 2 null element, 3 element.
        let (missing, present) = if self.list { (2, 3) } else { (0, 1) };
        let mut len = 0;
        match cell {
            ExportedCell::Null => self.absent(0, 0),
            ExportedCell::Multi(items) if self.list && items.is_empty() => self.absent(0, 1),
            ExportedCell::Multi(_) if !self.list => {
                note(&column.column, notes);
                json::write_cell(column, cell, notes);
                self.absent(0, 0);
            }
            ExportedCell::One(_) | ExportedCell::Multi(_) => {
                for (index, item) in cell.items().iter().enumerate() {
                    let repetition = i16::from(index > 0);
                    match item_value(column, item) {
                        Ok(value) => len += self.value(value, repetition, present),
                        Err(marker) => {
                            note(&column.column, notes);
                            marker.write_text(notes);
                            self.absent(repetition, missing);
                        }
                    }
                }
            }
        }
        len
    }

    fn absent(&mut self, repetition: i16, definition: i16) {
        self.repetition.push(repetition);
        self.definition.push(definition);
    }

    fn value(&mut self, value: ExportedValue<'_>, repetition: i16, definition: i16) -> usize {
        self.absent(repetition, definition);
        let mut len = 8;
        // A decoded value always has the type of its column.
        match (&mut self.values, value) {
            (ParquetValues::Bool(values), ExportedValue::Bit(value)) => values.push(value),
            // Parquet stores unsigned values as the signed value with the same bits.
            (ParquetValues::Int32(values), ExportedValue::Int(value)) => values.push(value as i32),
            (ParquetValues::Int64(values), ExportedValue::Int(value)) => values.push(value),
            (ParquetValues::Int64(values), ExportedValue::UInt(value)) => values.push(value as i64),
            (ParquetValues::Int64(values), ExportedValue::Time(time)) => {
                values.push(time.ticks.div_euclid(10));
            }
            (ParquetValues::Single(values), ExportedValue::Single(value)) => values.push(value),
            (ParquetValues::Double(values), ExportedValue::Double(value)) => values.push(value),
            (ParquetValues::Fixed(values), ExportedValue::Currency(value)) => {
                let sign = if value < 0 { 0xff } else { 0 };
                values.push(ByteArray::from([&[sign][..], &value.to_be_bytes()].concat()).into());
            }
            (
                ParquetValues::Fixed(values),
                ExportedValue::Guid([a0, a1, a2, a3, b0, b1, c0, c1, rest @ ..]),
            ) => {
                let bytes = [&[a3, a2, a1, a0, b1, b0, c1, c0][..], &rest].concat();
                values.push(ByteArray::from(bytes).into());
            }
            (
                ParquetValues::Bytes(values),
                ExportedValue::Binary(bytes) | ExportedValue::DirectorySid(bytes),
            ) => {
                len += bytes.len();
                values.push(bytes.to_vec().into());
            }
            (ParquetValues::Bytes(values), ExportedValue::Text(text)) => {
                len += text.len();
                values.push(text.into_owned().into_bytes().into());
            }
            _ => unreachable!("decoded by the column's type"),
        }
        len
    }

    fn write(&mut self, writer: &mut ColumnWriter<'_>) -> Result<(), ParquetError> {
        let levels = Some(self.definition.as_slice());
        let repeats = self.list.then_some(self.repetition.as_slice());
        match (&mut self.values, writer) {
            (ParquetValues::Bool(v), ColumnWriter::BoolColumnWriter(w)) => {
                w.write_batch(v, levels, repeats)?
            }
            (ParquetValues::Int32(v), ColumnWriter::Int32ColumnWriter(w)) => {
                w.write_batch(v, levels, repeats)?
            }
            (ParquetValues::Int64(v), ColumnWriter::Int64ColumnWriter(w)) => {
                w.write_batch(v, levels, repeats)?
            }
            (ParquetValues::Single(v), ColumnWriter::FloatColumnWriter(w)) => {
                w.write_batch(v, levels, repeats)?
            }
            (ParquetValues::Double(v), ColumnWriter::DoubleColumnWriter(w)) => {
                w.write_batch(v, levels, repeats)?
            }
            (ParquetValues::Bytes(v), ColumnWriter::ByteArrayColumnWriter(w)) => {
                w.write_batch(v, levels, repeats)?
            }
            (ParquetValues::Fixed(v), ColumnWriter::FixedLenByteArrayColumnWriter(w)) => {
                w.write_batch(v, levels, repeats)?
            }
            _ => return Err(ParquetError::General("the type of the column is different".to_owned())),
        };
        match &mut self.values {
            ParquetValues::Bool(v) => v.clear(),
            ParquetValues::Int32(v) => v.clear(),
            ParquetValues::Int64(v) => v.clear(),
            ParquetValues::Single(v) => v.clear(),
            ParquetValues::Double(v) => v.clear(),
            ParquetValues::Bytes(v) => v.clear(),
            ParquetValues::Fixed(v) => v.clear(),
        }
        self.definition.clear();
        self.repetition.clear();
        Ok(())
    }
}

/// Starts a column's entry in `_unreadable`.
fn note(column: &Column, notes: &mut Vec<u8>) {
    if !notes.is_empty() {
        notes.push(b'\n');
    }
    notes.extend_from_slice(column.name.as_bytes());
    notes.extend_from_slice(b": ");
}
