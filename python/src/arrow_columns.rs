//! Builds Arrow arrays from the values of columns.
//!
//! An Arrow column has one type. Values of other types and unreadable values become null. The column `_unreadable`
//! holds the content of such cells as text, as in the Parquet files of an export.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::builder::{
    BinaryBuilder, BooleanBuilder, Decimal128Builder, FixedSizeBinaryBuilder, PrimitiveBuilder, StringBuilder,
};
use arrow_array::types::{
    Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{ArrayRef, ListArray};
use arrow_buffer::{NullBufferBuilder, OffsetBuffer};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, TimeUnit};
use ese_format::record::{ColumnFlags, ColumnType};
use jetcell_export::{
    CellItem, ColumnMeaning, ExportedCell, ExportedValue, RowMark, TableColumn, ValueMarker, item_value,
    write_cell_text,
};

/// Precision and scale of a Currency value in decimal digits.
const CURRENCY: (u8, i8) = (19, 4);
const GUID_LEN: i32 = 16;

/// Builders for values of one type.
enum ValueBuilders {
    Bool(BooleanBuilder),
    Byte(PrimitiveBuilder<UInt8Type>),
    Short(PrimitiveBuilder<Int16Type>),
    UnsignedShort(PrimitiveBuilder<UInt16Type>),
    Long(PrimitiveBuilder<Int32Type>),
    UnsignedLong(PrimitiveBuilder<UInt32Type>),
    LongLong(PrimitiveBuilder<Int64Type>),
    UnsignedLongLong(PrimitiveBuilder<UInt64Type>),
    Currency(Decimal128Builder),
    Single(PrimitiveBuilder<Float32Type>),
    Double(PrimitiveBuilder<Float64Type>),
    /// Times, and whether they are known to be UTC.
    Time(PrimitiveBuilder<TimestampMicrosecondType>, bool),
    Guid(FixedSizeBinaryBuilder),
    Binary(BinaryBuilder),
    /// Text. Values of other types are converted to text.
    Text(StringBuilder),
}

/// Values of a row that do not fit into its columns.
#[derive(Default)]
pub struct RowNotes {
    /// The cells as text.
    pub text: String,
    /// Name of the first column with an unreadable value, and the reason.
    pub unreadable: Option<(String, String)>,
}

/// Builds the array of one column for the next batch.
pub struct ColumnBuilder {
    values: ValueBuilders,
    list: Option<ListOffsets>,
    field: FieldRef,
}

/// List offsets of a multi-valued column.
struct ListOffsets {
    element: FieldRef,
    offsets: Vec<i32>,
    valid: NullBufferBuilder,
    elements: i32,
}

impl ValueBuilders {
    /// Creates a builder for the values of a column, in the form that the profile selects.
    fn for_column(column: &TableColumn) -> ValueBuilders {
        use ColumnMeaning::*;
        if column.has_names() {
            return ValueBuilders::Text(StringBuilder::new());
        }
        match column.format.meaning {
            DirectorySid | SidOrText | Utf16 | Ascii | Address | DurationBytes | Utf16List | IntegerList
            | SecurityDescriptor => ValueBuilders::Text(StringBuilder::new()),
            GuidBytes => ValueBuilders::Guid(FixedSizeBinaryBuilder::new(GUID_LEN)),
            LocalFiletimeBytes => ValueBuilders::Time(PrimitiveBuilder::new(), false),
            Unsigned => ValueBuilders::UnsignedLongLong(PrimitiveBuilder::new()),
            Filetime | FiletimeBytes | FiletimeBigEndian | SecondsSince1601 => {
                ValueBuilders::Time(PrimitiveBuilder::new().with_timezone("UTC"), true)
            }
            Stored => ValueBuilders::for_type(column.column.kind),
        }
    }

    fn for_type(kind: ColumnType) -> ValueBuilders {
        match kind {
            ColumnType::Bit => ValueBuilders::Bool(BooleanBuilder::new()),
            ColumnType::UnsignedByte => ValueBuilders::Byte(PrimitiveBuilder::new()),
            ColumnType::Short => ValueBuilders::Short(PrimitiveBuilder::new()),
            ColumnType::UnsignedShort => ValueBuilders::UnsignedShort(PrimitiveBuilder::new()),
            ColumnType::Long => ValueBuilders::Long(PrimitiveBuilder::new()),
            ColumnType::UnsignedLong => ValueBuilders::UnsignedLong(PrimitiveBuilder::new()),
            ColumnType::LongLong => ValueBuilders::LongLong(PrimitiveBuilder::new()),
            ColumnType::UnsignedLongLong => ValueBuilders::UnsignedLongLong(PrimitiveBuilder::new()),
            ColumnType::Currency => {
                let decimal = DataType::Decimal128(CURRENCY.0, CURRENCY.1);
                ValueBuilders::Currency(Decimal128Builder::new().with_data_type(decimal))
            }
            ColumnType::Single => ValueBuilders::Single(PrimitiveBuilder::new()),
            ColumnType::Double => ValueBuilders::Double(PrimitiveBuilder::new()),
            ColumnType::DateTime => ValueBuilders::Time(PrimitiveBuilder::new(), false),
            ColumnType::Guid => ValueBuilders::Guid(FixedSizeBinaryBuilder::new(GUID_LEN)),
            ColumnType::Binary | ColumnType::LongBinary => ValueBuilders::Binary(BinaryBuilder::new()),
            ColumnType::Text | ColumnType::LongText => ValueBuilders::Text(StringBuilder::new()),
        }
    }

    fn data_type(&self) -> DataType {
        match self {
            ValueBuilders::Bool(_) => DataType::Boolean,
            ValueBuilders::Byte(_) => DataType::UInt8,
            ValueBuilders::Short(_) => DataType::Int16,
            ValueBuilders::UnsignedShort(_) => DataType::UInt16,
            ValueBuilders::Long(_) => DataType::Int32,
            ValueBuilders::UnsignedLong(_) => DataType::UInt32,
            ValueBuilders::LongLong(_) => DataType::Int64,
            ValueBuilders::UnsignedLongLong(_) => DataType::UInt64,
            ValueBuilders::Currency(_) => DataType::Decimal128(CURRENCY.0, CURRENCY.1),
            ValueBuilders::Single(_) => DataType::Float32,
            ValueBuilders::Double(_) => DataType::Float64,
            ValueBuilders::Time(_, utc) => {
                DataType::Timestamp(TimeUnit::Microsecond, utc.then(|| "UTC".into()))
            }
            ValueBuilders::Guid(_) => DataType::FixedSizeBinary(GUID_LEN),
            ValueBuilders::Binary(_) => DataType::Binary,
            ValueBuilders::Text(_) => DataType::Utf8,
        }
    }

    /// Returns the schema field for these values.
    fn field(&self, name: &str) -> Field {
        let field = Field::new(name, self.data_type(), true);
        match self {
            ValueBuilders::Guid(_) => field
                .with_metadata(HashMap::from([("ARROW:extension:name".to_owned(), "arrow.uuid".to_owned())])),
            _ => field,
        }
    }

    fn append_null(&mut self) {
        match self {
            ValueBuilders::Bool(to) => to.append_null(),
            ValueBuilders::Byte(to) => to.append_null(),
            ValueBuilders::Short(to) => to.append_null(),
            ValueBuilders::UnsignedShort(to) => to.append_null(),
            ValueBuilders::Long(to) => to.append_null(),
            ValueBuilders::UnsignedLong(to) => to.append_null(),
            ValueBuilders::LongLong(to) => to.append_null(),
            ValueBuilders::UnsignedLongLong(to) => to.append_null(),
            ValueBuilders::Currency(to) => to.append_null(),
            ValueBuilders::Single(to) => to.append_null(),
            ValueBuilders::Double(to) => to.append_null(),
            ValueBuilders::Time(to, _) => to.append_null(),
            ValueBuilders::Guid(to) => to.append_null(),
            ValueBuilders::Binary(to) => to.append_null(),
            ValueBuilders::Text(to) => to.append_null(),
        }
    }

    /// Appends a value and returns its approximate size. Returns `None` and appends nothing if the value has another
    /// type.
    fn append(&mut self, value: ExportedValue<'_>) -> Option<usize> {
        match (self, value) {
            (ValueBuilders::Bool(to), ExportedValue::Bit(value)) => to.append_value(value),
            (ValueBuilders::Byte(to), ExportedValue::Int(value)) => to.append_value(value.try_into().ok()?),
            (ValueBuilders::Short(to), ExportedValue::Int(value)) => to.append_value(value.try_into().ok()?),
            (ValueBuilders::UnsignedShort(to), ExportedValue::Int(value)) => {
                to.append_value(value.try_into().ok()?);
            }
            (ValueBuilders::Long(to), ExportedValue::Int(value)) => to.append_value(value.try_into().ok()?),
            (ValueBuilders::UnsignedLong(to), ExportedValue::Int(value)) => {
                to.append_value(value.try_into().ok()?);
            }
            (ValueBuilders::LongLong(to), ExportedValue::Int(value)) => to.append_value(value),
            (ValueBuilders::UnsignedLongLong(to), ExportedValue::UInt(value)) => to.append_value(value),
            (ValueBuilders::Currency(to), ExportedValue::Currency(value)) => to.append_value(value.into()),
            (ValueBuilders::Single(to), ExportedValue::Single(value)) => to.append_value(value),
            (ValueBuilders::Double(to), ExportedValue::Double(value)) => to.append_value(value),
            (ValueBuilders::Time(to, _), ExportedValue::Time(time)) => {
                to.append_value(time.ticks.div_euclid(10));
            }
            (ValueBuilders::Guid(to), ExportedValue::Guid([a0, a1, a2, a3, b0, b1, c0, c1, rest @ ..])) => {
                let bytes = [&[a3, a2, a1, a0, b1, b0, c1, c0][..], &rest].concat();
                to.append_value(bytes).ok()?;
            }
            (
                ValueBuilders::Binary(to),
                ExportedValue::Binary(bytes) | ExportedValue::DirectorySid(bytes),
            ) => {
                to.append_value(bytes);
                return Some(bytes.len());
            }
            (ValueBuilders::Text(to), ExportedValue::Text(text)) => {
                to.append_value(&text);
                return Some(text.len());
            }
            (ValueBuilders::Text(to), value) => {
                let mut text = Vec::new();
                value.write_text(&mut text);
                to.append_value(String::from_utf8_lossy(&text));
                return Some(text.len());
            }
            _ => return None,
        }
        Some(0)
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            ValueBuilders::Bool(from) => Arc::new(from.finish()),
            ValueBuilders::Byte(from) => Arc::new(from.finish()),
            ValueBuilders::Short(from) => Arc::new(from.finish()),
            ValueBuilders::UnsignedShort(from) => Arc::new(from.finish()),
            ValueBuilders::Long(from) => Arc::new(from.finish()),
            ValueBuilders::UnsignedLong(from) => Arc::new(from.finish()),
            ValueBuilders::LongLong(from) => Arc::new(from.finish()),
            ValueBuilders::UnsignedLongLong(from) => Arc::new(from.finish()),
            ValueBuilders::Currency(from) => Arc::new(from.finish()),
            ValueBuilders::Single(from) => Arc::new(from.finish()),
            ValueBuilders::Double(from) => Arc::new(from.finish()),
            ValueBuilders::Time(from, _) => Arc::new(from.finish()),
            ValueBuilders::Guid(from) => Arc::new(from.finish()),
            ValueBuilders::Binary(from) => Arc::new(from.finish()),
            ValueBuilders::Text(from) => Arc::new(from.finish()),
        }
    }
}

impl ColumnBuilder {
    /// Creates a builder for the cells of a column.
    pub fn new(column: &TableColumn) -> ColumnBuilder {
        let values = ValueBuilders::for_column(column);
        let list = column.column.flags.contains(ColumnFlags::MULTI_VALUED)
            && !column.format.application_single_valued;
        ColumnBuilder::from_values(values, &column.column.name, list)
    }

    /// Creates a builder for text.
    pub fn text(name: &str) -> ColumnBuilder {
        ColumnBuilder::from_values(ValueBuilders::for_type(ColumnType::Text), name, false)
    }

    /// Creates a builder for a column that describes rows.
    pub fn mark(mark: RowMark) -> ColumnBuilder {
        ColumnBuilder::from_values(ValueBuilders::for_type(mark.kind()), mark.name(), false)
    }

    fn from_values(values: ValueBuilders, name: &str, list: bool) -> ColumnBuilder {
        let list = list.then(|| ListOffsets {
            element: Arc::new(values.field("item")),
            offsets: vec![0],
            valid: NullBufferBuilder::new(0),
            elements: 0,
        });
        let field = match &list {
            Some(list) => Field::new(name, DataType::List(list.element.clone()), true),
            None => values.field(name),
        };
        ColumnBuilder { values, list, field: Arc::new(field) }
    }

    /// Returns the column's field in the schema.
    pub fn field(&self) -> FieldRef {
        self.field.clone()
    }

    /// Appends one value, or null if it has another type.
    pub fn value(&mut self, value: Option<ExportedValue<'_>>) {
        if value.and_then(|value| self.values.append(value)).is_none() {
            self.values.append_null();
        }
    }

    /// Appends a cell and returns its approximate size.
    pub fn cell(&mut self, column: &TableColumn, cell: &ExportedCell<'_>, notes: &mut RowNotes) -> usize {
        let mut size = 8;
        let mut fits = true;
        let items = cell.items();
        match &mut self.list {
            Some(list) => {
                for item in items {
                    let appended = append(&mut self.values, column, item, notes);
                    size += 8 + appended.unwrap_or(0);
                    fits &= appended.is_some();
                    list.elements += 1;
                }
                list.offsets.push(list.elements);
                list.valid.append(*cell != ExportedCell::Null);
            }
            None => match items {
                [item] => {
                    let appended = append(&mut self.values, column, item, notes);
                    size += appended.unwrap_or(0);
                    fits = appended.is_some();
                }
                _ => {
                    self.values.append_null();
                    fits = items.is_empty();
                }
            },
        }
        if !fits {
            notes.add(column, cell);
        }
        size
    }

    /// Returns an array of the values since the previous call.
    pub fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        let values = self.values.finish();
        let Some(list) = &mut self.list else { return Ok(values) };
        let offsets = OffsetBuffer::new(std::mem::replace(&mut list.offsets, vec![0]).into());
        list.elements = 0;
        let lists = ListArray::try_new(list.element.clone(), offsets, values, list.valid.finish())?;
        Ok(Arc::new(lists))
    }
}

/// Appends one value of a cell and returns its approximate size. Returns `None` if the value must be replaced with
/// null.
fn append(
    values: &mut ValueBuilders,
    column: &TableColumn,
    item: &CellItem<'_>,
    notes: &mut RowNotes,
) -> Option<usize> {
    let appended = match item_value(column, item) {
        Ok(value) => values.append(value),
        Err(marker) => {
            if let (ValueMarker::Unreadable(unreadable), None) = (marker, &notes.unreadable) {
                notes.unreadable = Some((column.column.name.clone(), unreadable.reason.clone()));
            }
            None
        }
    };
    if appended.is_none() {
        values.append_null();
    }
    appended
}

impl RowNotes {
    fn add(&mut self, column: &TableColumn, cell: &ExportedCell<'_>) {
        let mut text = Vec::new();
        write_cell_text(column, cell, &mut text);
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text.push_str(&column.column.name);
        self.text.push_str(": ");
        self.text.push_str(&String::from_utf8_lossy(&text));
    }
}
