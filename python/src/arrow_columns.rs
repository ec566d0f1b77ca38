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
use jetcell_export::{Cell, Item, Marker, Meaning, TableColumn, Value, item_value, write_cell_text};

/// Precision and scale of a Currency value in decimal digits.
const CURRENCY: (u8, i8) = (19, 4);
const GUID_LEN: i32 = 16;

/// Builders for values of one type.
enum Values {
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
pub struct Notes {
    /// The cells as text.
    pub text: String,
    /// Name of the first column with an unreadable value, and the reason.
    pub unreadable: Option<(String, String)>,
}

/// Builds the array of one column for the next batch.
pub struct ColumnBuilder {
    values: Values,
    list: Option<List>,
    field: FieldRef,
}

/// List offsets of a multi-valued column.
struct List {
    element: FieldRef,
    offsets: Vec<i32>,
    valid: NullBufferBuilder,
    elements: i32,
}

impl Values {
    /// Creates a builder for the values of a column, in the form that the profile selects.
    fn of_column(column: &TableColumn) -> Values {
        use Meaning::*;
        if column.has_names() {
            return Values::Text(StringBuilder::new());
        }
        match column.form.meaning {
            DirectorySid | SidOrText | Utf16 | Ascii | Address => Values::Text(StringBuilder::new()),
            Unsigned => Values::UnsignedLongLong(PrimitiveBuilder::new()),
            Filetime | FiletimeBytes | FiletimeBigEndian | SecondsSince1601 => {
                Values::Time(PrimitiveBuilder::new().with_timezone("UTC"), true)
            }
            Stored => Values::of_type(column.column.kind),
        }
    }

    fn of_type(kind: ColumnType) -> Values {
        match kind {
            ColumnType::Bit => Values::Bool(BooleanBuilder::new()),
            ColumnType::UnsignedByte => Values::Byte(PrimitiveBuilder::new()),
            ColumnType::Short => Values::Short(PrimitiveBuilder::new()),
            ColumnType::UnsignedShort => Values::UnsignedShort(PrimitiveBuilder::new()),
            ColumnType::Long => Values::Long(PrimitiveBuilder::new()),
            ColumnType::UnsignedLong => Values::UnsignedLong(PrimitiveBuilder::new()),
            ColumnType::LongLong => Values::LongLong(PrimitiveBuilder::new()),
            ColumnType::UnsignedLongLong => Values::UnsignedLongLong(PrimitiveBuilder::new()),
            ColumnType::Currency => {
                let decimal = DataType::Decimal128(CURRENCY.0, CURRENCY.1);
                Values::Currency(Decimal128Builder::new().with_data_type(decimal))
            }
            ColumnType::Single => Values::Single(PrimitiveBuilder::new()),
            ColumnType::Double => Values::Double(PrimitiveBuilder::new()),
            ColumnType::DateTime => Values::Time(PrimitiveBuilder::new(), false),
            ColumnType::Guid => Values::Guid(FixedSizeBinaryBuilder::new(GUID_LEN)),
            ColumnType::Binary | ColumnType::LongBinary => Values::Binary(BinaryBuilder::new()),
            ColumnType::Text | ColumnType::LongText => Values::Text(StringBuilder::new()),
        }
    }

    fn data_type(&self) -> DataType {
        match self {
            Values::Bool(_) => DataType::Boolean,
            Values::Byte(_) => DataType::UInt8,
            Values::Short(_) => DataType::Int16,
            Values::UnsignedShort(_) => DataType::UInt16,
            Values::Long(_) => DataType::Int32,
            Values::UnsignedLong(_) => DataType::UInt32,
            Values::LongLong(_) => DataType::Int64,
            Values::UnsignedLongLong(_) => DataType::UInt64,
            Values::Currency(_) => DataType::Decimal128(CURRENCY.0, CURRENCY.1),
            Values::Single(_) => DataType::Float32,
            Values::Double(_) => DataType::Float64,
            Values::Time(_, utc) => DataType::Timestamp(TimeUnit::Microsecond, utc.then(|| "UTC".into())),
            Values::Guid(_) => DataType::FixedSizeBinary(GUID_LEN),
            Values::Binary(_) => DataType::Binary,
            Values::Text(_) => DataType::Utf8,
        }
    }

    /// Returns the schema field for these values.
    fn field(&self, name: &str) -> Field {
        let field = Field::new(name, self.data_type(), true);
        match self {
            Values::Guid(_) => field
                .with_metadata(HashMap::from([("ARROW:extension:name".to_owned(), "arrow.uuid".to_owned())])),
            _ => field,
        }
    }

    fn append_null(&mut self) {
        match self {
            Values::Bool(to) => to.append_null(),
            Values::Byte(to) => to.append_null(),
            Values::Short(to) => to.append_null(),
            Values::UnsignedShort(to) => to.append_null(),
            Values::Long(to) => to.append_null(),
            Values::UnsignedLong(to) => to.append_null(),
            Values::LongLong(to) => to.append_null(),
            Values::UnsignedLongLong(to) => to.append_null(),
            Values::Currency(to) => to.append_null(),
            Values::Single(to) => to.append_null(),
            Values::Double(to) => to.append_null(),
            Values::Time(to, _) => to.append_null(),
            Values::Guid(to) => to.append_null(),
            Values::Binary(to) => to.append_null(),
            Values::Text(to) => to.append_null(),
        }
    }

    /// Appends a value and returns its approximate size. Returns `None` and appends nothing if the value has another
    /// type.
    fn append(&mut self, value: Value<'_>) -> Option<usize> {
        match (self, value) {
            (Values::Bool(to), Value::Bit(value)) => to.append_value(value),
            (Values::Byte(to), Value::Int(value)) => to.append_value(value.try_into().ok()?),
            (Values::Short(to), Value::Int(value)) => to.append_value(value.try_into().ok()?),
            (Values::UnsignedShort(to), Value::Int(value)) => to.append_value(value.try_into().ok()?),
            (Values::Long(to), Value::Int(value)) => to.append_value(value.try_into().ok()?),
            (Values::UnsignedLong(to), Value::Int(value)) => to.append_value(value.try_into().ok()?),
            (Values::LongLong(to), Value::Int(value)) => to.append_value(value),
            (Values::UnsignedLongLong(to), Value::UInt(value)) => to.append_value(value),
            (Values::Currency(to), Value::Currency(value)) => to.append_value(value.into()),
            (Values::Single(to), Value::Single(value)) => to.append_value(value),
            (Values::Double(to), Value::Double(value)) => to.append_value(value),
            (Values::Time(to, _), Value::Time(time)) => to.append_value(time.ticks.div_euclid(10)),
            (Values::Guid(to), Value::Guid([a0, a1, a2, a3, b0, b1, c0, c1, rest @ ..])) => {
                let bytes = [&[a3, a2, a1, a0, b1, b0, c1, c0][..], &rest].concat();
                to.append_value(bytes).ok()?;
            }
            (Values::Binary(to), Value::Binary(bytes) | Value::DirectorySid(bytes)) => {
                to.append_value(bytes);
                return Some(bytes.len());
            }
            (Values::Text(to), Value::Text(text)) => {
                to.append_value(&text);
                return Some(text.len());
            }
            (Values::Text(to), value) => {
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
            Values::Bool(from) => Arc::new(from.finish()),
            Values::Byte(from) => Arc::new(from.finish()),
            Values::Short(from) => Arc::new(from.finish()),
            Values::UnsignedShort(from) => Arc::new(from.finish()),
            Values::Long(from) => Arc::new(from.finish()),
            Values::UnsignedLong(from) => Arc::new(from.finish()),
            Values::LongLong(from) => Arc::new(from.finish()),
            Values::UnsignedLongLong(from) => Arc::new(from.finish()),
            Values::Currency(from) => Arc::new(from.finish()),
            Values::Single(from) => Arc::new(from.finish()),
            Values::Double(from) => Arc::new(from.finish()),
            Values::Time(from, _) => Arc::new(from.finish()),
            Values::Guid(from) => Arc::new(from.finish()),
            Values::Binary(from) => Arc::new(from.finish()),
            Values::Text(from) => Arc::new(from.finish()),
        }
    }
}

impl ColumnBuilder {
    /// Creates a builder for the cells of a column.
    pub fn new(column: &TableColumn) -> ColumnBuilder {
        let values = Values::of_column(column);
        let list = column.column.flags.contains(ColumnFlags::MULTI_VALUED) && !column.form.single_of_list;
        ColumnBuilder::of_values(values, &column.column.name, list)
    }

    /// Creates a builder for text.
    pub fn text(name: &str) -> ColumnBuilder {
        ColumnBuilder::of_values(Values::of_type(ColumnType::Text), name, false)
    }

    /// Creates a builder for Boolean values.
    pub fn bool(name: &str) -> ColumnBuilder {
        ColumnBuilder::of_values(Values::of_type(ColumnType::Bit), name, false)
    }

    fn of_values(values: Values, name: &str, list: bool) -> ColumnBuilder {
        let list = list.then(|| List {
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
    pub fn value(&mut self, value: Option<Value<'_>>) {
        if value.and_then(|value| self.values.append(value)).is_none() {
            self.values.append_null();
        }
    }

    /// Appends a cell and returns its approximate size.
    pub fn cell(&mut self, column: &TableColumn, cell: &Cell<'_>, notes: &mut Notes) -> usize {
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
                list.valid.append(*cell != Cell::Null);
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
fn append(values: &mut Values, column: &TableColumn, item: &Item<'_>, notes: &mut Notes) -> Option<usize> {
    let appended = match item_value(column, item) {
        Ok(value) => values.append(value),
        Err(marker) => {
            if let (Marker::Unreadable(unreadable), None) = (marker, &notes.unreadable) {
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

impl Notes {
    fn add(&mut self, column: &TableColumn, cell: &Cell<'_>) {
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
