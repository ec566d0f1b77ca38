//! Named values in file order, shared by the text and JSON forms.

use std::fmt::{self, Write};

use ese_format::attachment::Attachment;
use ese_format::fields::{FieldValue, Fields};
use ese_format::log::record::decode_path;
use ese_format::{LogTime, Signature};
use jetcell_input::printable;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

/// Maximum number of bytes of a value to show on a line of text.
const SHOWN_BYTES: usize = 24;
/// Maximum number of zero bytes to write out as digits.
const SPELLED_ZEROS: usize = 16;
/// Width of the name column.
const NAME_WIDTH: usize = 30;

/// A value in a dump.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// An absent value.
    None,
    /// An unsigned number.
    Number(u64),
    /// A signed number.
    Signed(i64),
    /// A log generation. The text form also shows it in hexadecimal, as in file names.
    Generation(u64),
    /// A text, a time, or a log position.
    Text(String),
    /// Uninterpreted bytes.
    Bytes(Vec<u8>),
    /// A value of an enumeration: its number, and its name if it has one.
    Choice(u64, Option<String>),
    /// A set of bits, and the names of those bits that are set and defined.
    Flags(u64, Vec<&'static str>),
    /// Several values.
    List(Vec<Value>),
    /// Nested named values.
    Group(NamedValues),
}

/// Named values in file order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NamedValues(pub Vec<(String, Value)>);

impl NamedValues {
    /// Converts `fields`, decoding paths and lists.
    pub fn of(fields: Fields) -> NamedValues {
        NamedValues(
            fields.into_iter().map(|(name, value)| (name.to_owned(), value_of(name, value))).collect(),
        )
    }

    /// Returns the value with this name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(found, _)| found == name).map(|(_, value)| value)
    }

    /// Returns the names of the values that differ between `self` and `other`.
    pub fn differences(&self, other: &NamedValues) -> Vec<String> {
        let differs = |(name, value): &&(String, Value)| other.get(name) != Some(value);
        self.0.iter().filter(differs).map(|(name, _)| name.clone()).collect()
    }

    /// Writes one line of `name=value`.
    pub(crate) fn line(&self, f: &mut impl fmt::Write) -> fmt::Result {
        for (index, (name, value)) in self.0.iter().enumerate() {
            let space = if index > 0 { " " } else { "" };
            match value {
                Value::Group(group) => {
                    write!(f, "{space}{name}={{")?;
                    group.line(f)?;
                    f.write_char('}')?;
                }
                value => write!(f, "{space}{name}={value}")?,
            }
        }
        Ok(())
    }

    /// Writes one line per value. The values of groups are indented.
    pub(crate) fn table(&self, f: &mut impl fmt::Write, indent: usize) -> fmt::Result {
        for (name, value) in &self.0 {
            let label = name.replace('_', " ");
            let width = NAME_WIDTH.saturating_sub(indent);
            match value {
                Value::Group(group) => {
                    writeln!(f, "{:indent$}{label}", "")?;
                    group.table(f, indent + 2)?;
                }
                Value::List(list) if list.iter().any(|entry| matches!(entry, Value::Group(_))) => {
                    for (number, entry) in list.iter().enumerate() {
                        writeln!(f, "{:indent$}{label} {}", "", number + 1)?;
                        match entry {
                            Value::Group(group) => group.table(f, indent + 2)?,
                            other => writeln!(f, "{:indent$}  {other}", "")?,
                        }
                    }
                }
                value => writeln!(f, "{:indent$}{label:<width$} {value}", "")?,
            }
        }
        Ok(())
    }
}

fn value_of(name: &str, value: FieldValue) -> Value {
    match value {
        FieldValue::Number(number) if is_generation(name) => Value::Generation(number),
        FieldValue::Number(number) => Value::Number(number),
        FieldValue::Signed(number) => Value::Signed(number),
        FieldValue::Time(time) => time_value(time),
        FieldValue::Position(position) => Value::Text(position.to_string()),
        FieldValue::Signature(signature) => signature_value(signature),
        FieldValue::Choice { value, name } => Value::Choice(value, name),
        FieldValue::Flags { value, names } => Value::Flags(value, names),
        FieldValue::List(list) => Value::List(list.into_iter().map(|value| value_of(name, value)).collect()),
        FieldValue::Group(fields) => Value::Group(NamedValues::of(fields)),
        FieldValue::Bytes(bytes) => match name {
            "path" => Value::Text(path_text(&bytes)),
            "system_path" | "log_path" | "text" => Value::Text(narrow_text(&bytes)),
            "attachment_list" => {
                let entries = Attachment::fields_of_list(&bytes).into_iter();
                Value::List(entries.map(|entry| Value::Group(NamedValues::of(entry))).collect())
            }
            _ => Value::Bytes(bytes),
        },
    }
}

fn is_generation(name: &str) -> bool {
    name == "generation" || name.starts_with("gen_") || name.starts_with("before_redo_")
}

fn time_value(time: LogTime) -> Value {
    match time {
        LogTime::NONE => Value::None,
        time => Value::Text(time.to_string()),
    }
}

fn signature_value(signature: Signature) -> Value {
    if signature == Signature::default() {
        return Value::None;
    }
    let computer = match narrow_text(&signature.computer) {
        name if name.is_empty() => Value::None,
        name => Value::Text(name),
    };
    let fields = [
        ("random", Value::Number(signature.random.into())),
        ("created", time_value(signature.created)),
        ("computer", computer),
    ];
    Value::Group(NamedValues(fields.map(|(name, value)| (name.to_owned(), value)).into()))
}

/// Decodes a path. Paths are UTF-16 in all files of this format, except that older records use one byte per
/// character. The second byte distinguishes the two forms, because every path starts with a drive letter or a
/// separator.
fn path_text(bytes: &[u8]) -> String {
    match bytes {
        [_, 0, ..] => decode_path(bytes),
        _ => narrow_text(bytes),
    }
}

/// Decodes text that uses one byte per character, up to its NUL.
fn narrow_text(bytes: &[u8]) -> String {
    let text = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
    text.iter().map(|&byte| char::from(byte)).collect()
}

/// Returns the bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Returns the bytes as hexadecimal digits, truncated if they are long.
pub(crate) fn short_hex(bytes: &[u8]) -> String {
    match bytes.get(..SHOWN_BYTES) {
        Some(head) if bytes.len() > SHOWN_BYTES => format!("{}..({} bytes)", hex(head), bytes.len()),
        _ => hex(bytes),
    }
}

/// Returns a key as text, truncated if it is long. The empty key of the last entry on an internal page sorts after
/// all other keys.
pub(crate) fn short_key(key: &[u8]) -> String {
    if key.is_empty() { "(end)".to_owned() } else { short_hex(key) }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::None => f.write_str("-"),
            // ESE uses this value for "no dbtime" and "no version".
            Value::Number(u64::MAX) => f.write_str("all-ones"),
            Value::Number(number) => write!(f, "{number}"),
            Value::Signed(number) => write!(f, "{number}"),
            Value::Generation(0) => f.write_str("0"),
            Value::Generation(number) => write!(f, "{number} ({number:#X})"),
            Value::Text(text) if text.is_empty() => f.write_str("-"),
            Value::Text(text) => f.write_str(&printable(text)),
            Value::Bytes(bytes) if is_zeros(bytes) => write!(f, "zeros({})", bytes.len()),
            Value::Bytes(bytes) if bytes.is_empty() => f.write_str("\"\""),
            Value::Bytes(bytes) => f.write_str(&short_hex(bytes)),
            Value::Choice(_, Some(name)) => f.write_str(name),
            Value::Choice(value, None) => write!(f, "{value} (unknown)"),
            Value::Flags(value, names) => write!(f, "{value:#x}{}", Names(names)),
            Value::List(list) => {
                f.write_str("[")?;
                for (index, value) in list.iter().enumerate() {
                    write!(f, "{}{value}", if index > 0 { "," } else { "" })?;
                }
                f.write_str("]")
            }
            Value::Group(group) => group.line(f),
        }
    }
}

/// Formats the names of flags as text.
pub(crate) struct Names<'a>(pub(crate) &'a [&'static str]);

impl fmt::Display for Names<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.0.iter().map(|name| name.to_lowercase().replace('_', "-")).collect();
        if names.is_empty() { Ok(()) } else { write!(f, "({})", names.join("|")) }
    }
}

fn is_zeros(bytes: &[u8]) -> bool {
    bytes.len() > SPELLED_ZEROS && bytes.iter().all(|&byte| byte == 0)
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Value::None => serializer.serialize_none(),
            Value::Number(number) | Value::Generation(number) => serializer.serialize_u64(*number),
            Value::Signed(number) => serializer.serialize_i64(*number),
            Value::Text(text) => serializer.serialize_str(text),
            Value::Bytes(bytes) if is_zeros(bytes) => serializer.serialize_none(),
            Value::Bytes(bytes) => serializer.serialize_str(&hex(bytes)),
            Value::Choice(_, Some(name)) => serializer.serialize_str(name),
            Value::Choice(value, None) => serializer.serialize_u64(*value),
            Value::Flags(value, names) => {
                let mut map = serializer.serialize_map(Some(2))?;
                map.serialize_entry("value", value)?;
                map.serialize_entry("names", names)?;
                map.end()
            }
            Value::List(list) => list.serialize(serializer),
            Value::Group(group) => group.serialize(serializer),
        }
    }
}

impl Serialize for NamedValues {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}
