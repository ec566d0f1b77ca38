//! Values of rows, decoded without holding the interpreter lock, and their conversion to Python objects.

use chrono::{DateTime, Datelike, Timelike};
use jetcell_export::{CellItem, ExportedCell, ExportedValue, TableColumn, Timestamp};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};

use crate::unreadable::PyUnreadable;

/// A decoded, owned value.
#[derive(Clone, PartialEq, Debug)]
pub enum OwnedValue {
    Null,
    Bool(bool),
    Int(i64),
    UInt(u64),
    /// Decimal in units of 1/10,000.
    Decimal(i64),
    Float(f64),
    Time(Timestamp),
    Guid([u8; 16]),
    Bytes(Vec<u8>),
    Text(String),
    /// Duration in units of 100 nanoseconds.
    Duration(u64),
    List(Vec<OwnedValue>),
    Object(Vec<(&'static str, OwnedValue)>),
    Unreadable {
        reason: String,
        stored: Vec<u8>,
    },
}

impl OwnedValue {
    /// Decodes the value of a cell.
    pub fn from_cell(column: &TableColumn, cell: &ExportedCell<'_>) -> OwnedValue {
        if column.is_list(cell) {
            return OwnedValue::List(
                cell.items().iter().map(|item| OwnedValue::from_item(column, item)).collect(),
            );
        }
        cell.items().first().map_or(OwnedValue::Null, |item| OwnedValue::from_item(column, item))
    }

    fn from_item(column: &TableColumn, item: &CellItem<'_>) -> OwnedValue {
        match item {
            CellItem::Inline(bytes) => match column.value(bytes) {
                Ok(value) => OwnedValue::from_value(value),
                Err(error) => OwnedValue::Unreadable { reason: error.to_string(), stored: bytes.to_vec() },
            },
            CellItem::Unreadable(unreadable) => OwnedValue::Unreadable {
                reason: unreadable.reason.clone(),
                stored: unreadable.stored.clone(),
            },
            // The reader is not given any files, so this does not occur.
            CellItem::File(file) => {
                OwnedValue::Unreadable { reason: format!("in the file {}", file.path), stored: Vec::new() }
            }
        }
    }

    /// Copies a decoded value.
    pub fn from_value(value: ExportedValue<'_>) -> OwnedValue {
        match value {
            ExportedValue::Bit(value) => OwnedValue::Bool(value),
            ExportedValue::Int(value) => OwnedValue::Int(value),
            ExportedValue::UInt(value) => OwnedValue::UInt(value),
            ExportedValue::Currency(value) => OwnedValue::Decimal(value),
            ExportedValue::Single(value) => OwnedValue::Float(value.into()),
            ExportedValue::Double(value) => OwnedValue::Float(value),
            ExportedValue::Time(time) => OwnedValue::Time(time),
            ExportedValue::Guid(bytes) => OwnedValue::Guid(bytes),
            ExportedValue::Binary(bytes) => OwnedValue::Bytes(bytes.to_vec()),
            ExportedValue::DirectorySid(bytes) => {
                let mut text = Vec::new();
                value.write_text(&mut text);
                // Bytes that do not form an identifier are in hexadecimal, which contains no S.
                match String::from_utf8(text) {
                    Ok(text) if text.starts_with("S-") => OwnedValue::Text(text),
                    _ => OwnedValue::Bytes(bytes.to_vec()),
                }
            }
            ExportedValue::Text(text) => OwnedValue::Text(text.into_owned()),
            ExportedValue::Duration(ticks) => OwnedValue::Duration(ticks),
            ExportedValue::List(values) => {
                OwnedValue::List(values.into_iter().map(OwnedValue::from_value).collect())
            }
            ExportedValue::Object(fields) => OwnedValue::Object(
                fields.into_iter().map(|(name, value)| (name, OwnedValue::from_value(value))).collect(),
            ),
        }
    }

    /// Returns the reason why the value, or one of several values, is unreadable.
    pub fn unreadable(&self) -> Option<&str> {
        match self {
            OwnedValue::Unreadable { reason, .. } => Some(reason),
            OwnedValue::List(items) => items.iter().find_map(OwnedValue::unreadable),
            _ => None,
        }
    }

    /// Returns the approximate size in memory, in bytes.
    pub fn size(&self) -> usize {
        let heap = match self {
            OwnedValue::Bytes(bytes) => bytes.len(),
            OwnedValue::Text(text) => text.len(),
            OwnedValue::List(items) => items.iter().map(OwnedValue::size).sum(),
            OwnedValue::Object(fields) => fields.iter().map(|(_, value)| value.size()).sum(),
            OwnedValue::Unreadable { reason, stored } => reason.len() + stored.len(),
            _ => 0,
        };
        size_of::<OwnedValue>() + heap
    }

    /// Converts the value to a Python object.
    pub fn into_python<'py>(self, py: Python<'py>, classes: &PythonClasses) -> PyResult<Bound<'py, PyAny>> {
        Ok(match self {
            OwnedValue::Null => py.None().into_bound(py),
            OwnedValue::Bool(value) => value.into_pyobject(py)?.to_owned().into_any(),
            OwnedValue::Int(value) => value.into_pyobject(py)?.into_any(),
            OwnedValue::UInt(value) => value.into_pyobject(py)?.into_any(),
            OwnedValue::Decimal(value) => {
                let mut text = Vec::new();
                ExportedValue::Currency(value).write_text(&mut text);
                classes.decimal.bind(py).call1((String::from_utf8_lossy(&text).as_ref(),))?
            }
            OwnedValue::Float(value) => value.into_pyobject(py)?.into_any(),
            OwnedValue::Time(time) => classes.time(py, time)?,
            OwnedValue::Guid(bytes) => {
                classes.uuid.bind(py).call1((py.None(), py.None(), PyBytes::new(py, &bytes)))?
            }
            OwnedValue::Bytes(bytes) => PyBytes::new(py, &bytes).into_any(),
            OwnedValue::Text(text) => PyString::new(py, &text).into_any(),
            OwnedValue::List(items) => {
                let list = PyList::empty(py);
                for item in items {
                    list.append(item.into_python(py, classes)?)?;
                }
                list.into_any()
            }
            OwnedValue::Duration(ticks) => classes.timedelta.bind(py).call1((0, 0, ticks / 10))?,
            OwnedValue::Object(fields) => {
                let dict = PyDict::new(py);
                for (name, value) in fields {
                    dict.set_item(name, value.into_python(py, classes)?)?;
                }
                dict.into_any()
            }
            OwnedValue::Unreadable { reason, stored } => {
                Bound::new(py, PyUnreadable::new(py, reason, &stored))?.into_any()
            }
        })
    }
}

/// Classes of the Python standard library.
pub struct PythonClasses {
    datetime: Py<PyAny>,
    timedelta: Py<PyAny>,
    utc: Py<PyAny>,
    decimal: Py<PyAny>,
    uuid: Py<PyAny>,
}

static CLASSES: PyOnceLock<PythonClasses> = PyOnceLock::new();

impl PythonClasses {
    /// Returns the classes, which are imported only once.
    pub fn get(py: Python<'_>) -> PyResult<&PythonClasses> {
        CLASSES.get_or_try_init(py, || {
            let datetime = py.import("datetime")?;
            Ok(PythonClasses {
                datetime: datetime.getattr("datetime")?.unbind(),
                timedelta: datetime.getattr("timedelta")?.unbind(),
                utc: datetime.getattr("timezone")?.getattr("utc")?.unbind(),
                decimal: py.import("decimal")?.getattr("Decimal")?.unbind(),
                uuid: py.import("uuid")?.getattr("UUID")?.unbind(),
            })
        })
    }

    /// Creates a datetime with microseconds. Fractions of a microsecond are truncated.
    fn time<'py>(&self, py: Python<'py>, time: Timestamp) -> PyResult<Bound<'py, PyAny>> {
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
