//! Named values in file order, shared by the text and JSON forms.

use std::fmt;

use ese_format::attachment::Attachment;
use ese_format::fields::{FieldValue, Fields};
use ese_format::log::record::decode_path;
use ese_format::{LogTime, Signature};
use jetcell_input::hex::hex;
use jetcell_input::printable;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

/// Maximum number of bytes of a value to show on a line of text.
const MAX_SHOWN_BYTES: usize = 24;
/// Maximum number of zero bytes to write out as digits.
const MAX_WRITTEN_ZEROS: usize = 16;
/// Width of the name column.
const NAME_WIDTH: usize = 30;

/// The value of a dumped field.
#[derive(Clone, Debug, PartialEq)]
pub enum DumpedValue {
    /// An absent value.
    None,
    /// An unsigned number.
    Number(u64),
    /// A signed number.
    Signed(i64),
    /// A log generation. The text form also shows it in hexadecimal, as in file names.
    Generation(u64),
    /// A string, a time, or a log position.
    Text(String),
    /// Uninterpreted bytes.
    Bytes(Vec<u8>),
    /// A value of an enumeration: its number, and its name if it has one.
    Choice(u64, Option<String>),
    /// A set of bits, and the names of those bits that are set and defined.
    Flags(u64, Vec<&'static str>),
    /// Several values.
    List(Vec<DumpedValue>),
    /// Nested named values.
    Group(NamedValues),
}

/// The fields of a dumped structure, as (name, value) pairs in file order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NamedValues(pub Vec<(String, DumpedValue)>);

impl NamedValues {
    /// Converts `fields`, decoding paths and lists.
    pub fn from_fields(fields: Fields) -> NamedValues {
        NamedValues(
            fields.into_iter().map(|(name, value)| (name.to_owned(), convert_field(name, value))).collect(),
        )
    }

    /// Returns the value with this name.
    pub fn get(&self, name: &str) -> Option<&DumpedValue> {
        self.0.iter().find(|(found, _)| found == name).map(|(_, value)| value)
    }

    /// Returns the names of the values that differ between `self` and `other`.
    pub fn differences(&self, other: &NamedValues) -> Vec<String> {
        let differs = |(name, value): &&(String, DumpedValue)| other.get(name) != Some(value);
        self.0.iter().filter(differs).map(|(name, _)| name.clone()).collect()
    }

    /// Writes one line of `name=value`.
    pub(crate) fn write_line(&self, f: &mut impl fmt::Write) -> fmt::Result {
        for (index, (name, value)) in self.0.iter().enumerate() {
            let space = if index > 0 { " " } else { "" };
            match value {
                DumpedValue::Group(group) => {
                    write!(f, "{space}{name}={{")?;
                    group.write_line(f)?;
                    f.write_char('}')?;
                }
                value => write!(f, "{space}{name}={value}")?,
            }
        }
        Ok(())
    }

    /// Writes one line per value. The values of groups are indented.
    pub(crate) fn write_table(&self, f: &mut impl fmt::Write, indent: usize) -> fmt::Result {
        for (name, value) in &self.0 {
            let label = name.replace('_', " ");
            let width = NAME_WIDTH.saturating_sub(indent);
            match value {
                DumpedValue::Group(group) => {
                    writeln!(f, "{:indent$}{label}", "")?;
                    group.write_table(f, indent + 2)?;
                }
                DumpedValue::List(list)
                    if list.iter().any(|entry| matches!(entry, DumpedValue::Group(_))) =>
                {
                    for (number, entry) in list.iter().enumerate() {
                        writeln!(f, "{:indent$}{label} {}", "", number + 1)?;
                        match entry {
                            DumpedValue::Group(group) => group.write_table(f, indent + 2)?,
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

fn convert_field(name: &str, value: FieldValue) -> DumpedValue {
    match value {
        FieldValue::Number(number) if is_generation(name) => DumpedValue::Generation(number),
        FieldValue::Number(number) => DumpedValue::Number(number),
        FieldValue::Signed(number) => DumpedValue::Signed(number),
        FieldValue::Time(time) => time_value(time),
        FieldValue::Position(position) => DumpedValue::Text(position.to_string()),
        FieldValue::Signature(signature) => signature_value(signature),
        FieldValue::Choice { value, name } => DumpedValue::Choice(value, name),
        FieldValue::Flags { value, names } => DumpedValue::Flags(value, names),
        FieldValue::List(list) => {
            DumpedValue::List(list.into_iter().map(|value| convert_field(name, value)).collect())
        }
        FieldValue::Group(fields) => DumpedValue::Group(NamedValues::from_fields(fields)),
        FieldValue::Bytes(bytes) => match name {
            "path" => DumpedValue::Text(path_text(&bytes)),
            "system_path" | "log_path" | "text" => DumpedValue::Text(narrow_text(&bytes)),
            "attachment_list" => {
                let entries = Attachment::fields_of_list(&bytes).into_iter();
                DumpedValue::List(
                    entries.map(|entry| DumpedValue::Group(NamedValues::from_fields(entry))).collect(),
                )
            }
            _ => DumpedValue::Bytes(bytes),
        },
    }
}

fn is_generation(name: &str) -> bool {
    name == "generation" || name.starts_with("gen_") || name.starts_with("before_redo_")
}

fn time_value(time: LogTime) -> DumpedValue {
    match time {
        LogTime::NONE => DumpedValue::None,
        time => DumpedValue::Text(time.to_string()),
    }
}

fn signature_value(signature: Signature) -> DumpedValue {
    if signature == Signature::default() {
        return DumpedValue::None;
    }
    let computer = match narrow_text(&signature.computer) {
        name if name.is_empty() => DumpedValue::None,
        name => DumpedValue::Text(name),
    };
    let fields = [
        ("random", DumpedValue::Number(signature.random.into())),
        ("created", time_value(signature.created)),
        ("computer", computer),
    ];
    DumpedValue::Group(NamedValues(fields.map(|(name, value)| (name.to_owned(), value)).into()))
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

/// Returns the bytes as hexadecimal digits, truncated if they are long.
pub(crate) fn short_hex(bytes: &[u8]) -> String {
    match bytes.get(..MAX_SHOWN_BYTES) {
        Some(head) if bytes.len() > MAX_SHOWN_BYTES => format!("{}..({} bytes)", hex(head), bytes.len()),
        _ => hex(bytes),
    }
}

/// Returns a key as text, truncated if it is long. The empty key of the last entry on an internal page sorts after
/// all other keys.
pub(crate) fn short_key(key: &[u8]) -> String {
    if key.is_empty() { "(end)".to_owned() } else { short_hex(key) }
}

impl fmt::Display for DumpedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DumpedValue::None => f.write_str("-"),
            // ESE uses this value for "no dbtime" and "no version".
            DumpedValue::Number(u64::MAX) => f.write_str("all-ones"),
            DumpedValue::Number(number) => write!(f, "{number}"),
            DumpedValue::Signed(number) => write!(f, "{number}"),
            DumpedValue::Generation(0) => f.write_str("0"),
            DumpedValue::Generation(number) => write!(f, "{number} ({number:#X})"),
            DumpedValue::Text(text) if text.is_empty() => f.write_str("-"),
            DumpedValue::Text(text) => f.write_str(&printable(text)),
            DumpedValue::Bytes(bytes) if is_zeros(bytes) => write!(f, "zeros({})", bytes.len()),
            DumpedValue::Bytes(bytes) if bytes.is_empty() => f.write_str("\"\""),
            DumpedValue::Bytes(bytes) => f.write_str(&short_hex(bytes)),
            DumpedValue::Choice(_, Some(name)) => f.write_str(name),
            DumpedValue::Choice(value, None) => write!(f, "{value} (unknown)"),
            DumpedValue::Flags(value, names) => write!(f, "{value:#x}{}", FlagNames(names)),
            DumpedValue::List(list) => {
                f.write_str("[")?;
                for (index, value) in list.iter().enumerate() {
                    write!(f, "{}{value}", if index > 0 { "," } else { "" })?;
                }
                f.write_str("]")
            }
            DumpedValue::Group(group) => group.write_line(f),
        }
    }
}

/// Formats flag names as text.
pub(crate) struct FlagNames<'a>(pub(crate) &'a [&'static str]);

impl fmt::Display for FlagNames<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.0.iter().map(|name| name.to_lowercase().replace('_', "-")).collect();
        if names.is_empty() { Ok(()) } else { write!(f, "({})", names.join("|")) }
    }
}

fn is_zeros(bytes: &[u8]) -> bool {
    bytes.len() > MAX_WRITTEN_ZEROS && bytes.iter().all(|&byte| byte == 0)
}

impl Serialize for DumpedValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            DumpedValue::None => serializer.serialize_none(),
            DumpedValue::Number(number) | DumpedValue::Generation(number) => {
                serializer.serialize_u64(*number)
            }
            DumpedValue::Signed(number) => serializer.serialize_i64(*number),
            DumpedValue::Text(text) => serializer.serialize_str(text),
            DumpedValue::Bytes(bytes) if is_zeros(bytes) => serializer.serialize_none(),
            DumpedValue::Bytes(bytes) => serializer.serialize_str(&hex(bytes)),
            DumpedValue::Choice(_, Some(name)) => serializer.serialize_str(name),
            DumpedValue::Choice(value, None) => serializer.serialize_u64(*value),
            DumpedValue::Flags(value, names) => {
                let mut map = serializer.serialize_map(Some(2))?;
                map.serialize_entry("value", value)?;
                map.serialize_entry("names", names)?;
                map.end()
            }
            DumpedValue::List(list) => list.serialize(serializer),
            DumpedValue::Group(group) => group.serialize(serializer),
        }
    }
}

impl Serialize for NamedValues {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}
