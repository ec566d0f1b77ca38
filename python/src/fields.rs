//! Values of rows, decoded without holding the interpreter lock, and their conversion to Python objects.

use chrono::{DateTime, Datelike, Timelike};
use jetcell_export::{Cell, Item, TableColumn, Time, Value};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyList, PyString};

use crate::unreadable::PyUnreadable;

/// A decoded, owned value.
#[derive(Clone, PartialEq, Debug)]
pub enum Field {
    Null,
    Bool(bool),
    Int(i64),
    UInt(u64),
    /// Decimal in units of 1/10,000.
    Decimal(i64),
    Float(f64),
    Time(Time),
    Guid([u8; 16]),
    Bytes(Vec<u8>),
    Text(String),
    List(Vec<Field>),
    Unreadable {
        reason: String,
        stored: Vec<u8>,
    },
}

impl Field {
    /// Decodes the value of a cell.
    pub fn of_cell(column: &TableColumn, cell: &Cell<'_>) -> Field {
        if column.is_list(cell) {
            return Field::List(cell.items().iter().map(|item| Field::of_item(column, item)).collect());
        }
        cell.items().first().map_or(Field::Null, |item| Field::of_item(column, item))
    }

    fn of_item(column: &TableColumn, item: &Item<'_>) -> Field {
        match item {
            Item::Inline(bytes) => match column.value(bytes) {
                Ok(value) => Field::of_value(value),
                Err(error) => Field::Unreadable { reason: error.to_string(), stored: bytes.to_vec() },
            },
            Item::Unreadable(unreadable) => {
                Field::Unreadable { reason: unreadable.reason.clone(), stored: unreadable.stored.clone() }
            }
            // The reader is not given any files, so this does not occur.
            Item::File(file) => {
                Field::Unreadable { reason: format!("in the file {}", file.path), stored: Vec::new() }
            }
        }
    }

    fn of_value(value: Value<'_>) -> Field {
        match value {
            Value::Bit(value) => Field::Bool(value),
            Value::Int(value) => Field::Int(value),
            Value::UInt(value) => Field::UInt(value),
            Value::Currency(value) => Field::Decimal(value),
            Value::Single(value) => Field::Float(value.into()),
            Value::Double(value) => Field::Float(value),
            Value::Time(time) => Field::Time(time),
            Value::Guid(bytes) => Field::Guid(bytes),
            Value::Binary(bytes) => Field::Bytes(bytes.to_vec()),
            Value::DirectorySid(bytes) => {
                let mut text = Vec::new();
                value.write_text(&mut text);
                // Bytes that do not form an identifier are in hexadecimal, which contains no S.
                match String::from_utf8(text) {
                    Ok(text) if text.starts_with("S-") => Field::Text(text),
                    _ => Field::Bytes(bytes.to_vec()),
                }
            }
            Value::Text(text) => Field::Text(text.into_owned()),
        }
    }

    /// Returns the reason why the value, or one of several values, is unreadable.
    pub fn unreadable(&self) -> Option<&str> {
        match self {
            Field::Unreadable { reason, .. } => Some(reason),
            Field::List(items) => items.iter().find_map(Field::unreadable),
            _ => None,
        }
    }

    /// Returns the approximate size in memory, in bytes.
    pub fn size(&self) -> usize {
        let heap = match self {
            Field::Bytes(bytes) => bytes.len(),
            Field::Text(text) => text.len(),
            Field::List(items) => items.iter().map(Field::size).sum(),
            Field::Unreadable { reason, stored } => reason.len() + stored.len(),
            _ => 0,
        };
        size_of::<Field>() + heap
    }

    /// Converts the value to a Python object.
    pub fn into_python<'py>(self, py: Python<'py>, classes: &Classes) -> PyResult<Bound<'py, PyAny>> {
        Ok(match self {
            Field::Null => py.None().into_bound(py),
            Field::Bool(value) => value.into_pyobject(py)?.to_owned().into_any(),
            Field::Int(value) => value.into_pyobject(py)?.into_any(),
            Field::UInt(value) => value.into_pyobject(py)?.into_any(),
            Field::Decimal(value) => {
                let mut text = Vec::new();
                Value::Currency(value).write_text(&mut text);
                classes.decimal.bind(py).call1((String::from_utf8_lossy(&text).as_ref(),))?
            }
            Field::Float(value) => value.into_pyobject(py)?.into_any(),
            Field::Time(time) => classes.time(py, time)?,
            Field::Guid(bytes) => {
                classes.uuid.bind(py).call1((py.None(), py.None(), PyBytes::new(py, &bytes)))?
            }
            Field::Bytes(bytes) => PyBytes::new(py, &bytes).into_any(),
            Field::Text(text) => PyString::new(py, &text).into_any(),
            Field::List(items) => {
                let list = PyList::empty(py);
                for item in items {
                    list.append(item.into_python(py, classes)?)?;
                }
                list.into_any()
            }
            Field::Unreadable { reason, stored } => {
                Bound::new(py, PyUnreadable::new(py, reason, &stored))?.into_any()
            }
        })
    }
}

/// Classes of the Python standard library.
pub struct Classes {
    datetime: Py<PyAny>,
    utc: Py<PyAny>,
    decimal: Py<PyAny>,
    uuid: Py<PyAny>,
}

static CLASSES: PyOnceLock<Classes> = PyOnceLock::new();

impl Classes {
    /// Returns the classes, which are imported only once.
    pub fn get(py: Python<'_>) -> PyResult<&Classes> {
        CLASSES.get_or_try_init(py, || {
            let datetime = py.import("datetime")?;
            Ok(Classes {
                datetime: datetime.getattr("datetime")?.unbind(),
                utc: datetime.getattr("timezone")?.getattr("utc")?.unbind(),
                decimal: py.import("decimal")?.getattr("Decimal")?.unbind(),
                uuid: py.import("uuid")?.getattr("UUID")?.unbind(),
            })
        })
    }

    /// Creates a datetime with microseconds. Fractions of a microsecond are truncated.
    fn time<'py>(&self, py: Python<'py>, time: Time) -> PyResult<Bound<'py, PyAny>> {
        let micros = time.ticks.div_euclid(10);
        let Some(parts) = DateTime::from_timestamp_micros(micros) else {
            return Ok(time.ticks.into_pyobject(py)?.into_any());
        };
        let (date, clock) = (parts.date_naive(), parts.time());
        let zone = if time.utc { self.utc.clone_ref(py) } else { py.None() };
        self.datetime.bind(py).call1((
            date.year(),
            date.month(),
            date.day(),
            clock.hour(),
            clock.minute(),
            clock.second(),
            clock.nanosecond() / 1000,
            zone,
        ))
    }
}
