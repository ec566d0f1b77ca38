//! Named values in the order in which the file has them; the same for text and for JSON.

use std::fmt::{self, Write};

use ese_format::attachment::Attachment;
use ese_format::fields::{FieldValue, Fields};
use ese_format::log::record::decode_path;
use ese_format::{LogTime, Signature};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

/// Longest run of bytes that a line of text shows.
const SHOWN_BYTES: usize = 24;
/// Longer runs of zeros are called that.
const SPELLED_ZEROS: usize = 16;
/// Width of a column of names.
const NAME_WIDTH: usize = 30;

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub enum Fact {
    /// Not there.
    None,
    /// A number.
    Number(u64),
    /// A number that may be negative.
    Signed(i64),
    /// A log generation; text shows it in hexadecimal too, as file names do.
    Generation(u64),
    /// A text, time or log position.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// One of several choices: its name, or the number that has none.
    Choice(u64, Option<String>),
    /// Bits, and the names of those that have one.
    Flags(u64, Vec<&'static str>),
    /// Several values.
    List(Vec<Fact>),
    /// Named values.
    Group(Facts),
}

/// Named values in file order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts(pub Vec<(String, Fact)>);

impl Facts {
    /// What `fields` say, with paths and lists decoded.
    pub fn of(fields: Fields) -> Facts {
        Facts(fields.into_iter().map(|(name, value)| (name.to_owned(), fact(name, value))).collect())
    }

    /// The value of this name.
    pub fn get(&self, name: &str) -> Option<&Fact> {
        self.0.iter().find(|(found, _)| found == name).map(|(_, value)| value)
    }

    /// Names of the values in which `self` and `other` differ.
    pub fn differences(&self, other: &Facts) -> Vec<String> {
        let differs = |(name, value): &&(String, Fact)| other.get(name) != Some(value);
        self.0.iter().filter(differs).map(|(name, _)| name.clone()).collect()
    }

    /// One line of `name=value`.
    pub(crate) fn line(&self, f: &mut impl fmt::Write) -> fmt::Result {
        for (index, (name, value)) in self.0.iter().enumerate() {
            let space = if index > 0 { " " } else { "" };
            match value {
                Fact::Group(group) => {
                    write!(f, "{space}{name}={{")?;
                    group.line(f)?;
                    f.write_char('}')?;
                }
                value => write!(f, "{space}{name}={value}")?,
            }
        }
        Ok(())
    }

    /// A line for each value, those of groups further right.
    pub(crate) fn table(&self, f: &mut impl fmt::Write, indent: usize) -> fmt::Result {
        for (name, value) in &self.0 {
            let label = name.replace('_', " ");
            let width = NAME_WIDTH.saturating_sub(indent);
            match value {
                Fact::Group(group) => {
                    writeln!(f, "{:indent$}{label}", "")?;
                    group.table(f, indent + 2)?;
                }
                Fact::List(list) if list.iter().any(|entry| matches!(entry, Fact::Group(_))) => {
                    for (number, entry) in list.iter().enumerate() {
                        writeln!(f, "{:indent$}{label} {}", "", number + 1)?;
                        match entry {
                            Fact::Group(group) => group.table(f, indent + 2)?,
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

fn fact(name: &str, value: FieldValue) -> Fact {
    match value {
        FieldValue::Number(number) if is_generation(name) => Fact::Generation(number),
        FieldValue::Number(number) => Fact::Number(number),
        FieldValue::Signed(number) => Fact::Signed(number),
        FieldValue::Time(time) => time_fact(time),
        FieldValue::Position(position) => Fact::Text(position.to_string()),
        FieldValue::Signature(signature) => signature_fact(signature),
        FieldValue::Choice { value, name } => Fact::Choice(value, name),
        FieldValue::Flags { value, names } => Fact::Flags(value, names),
        FieldValue::List(list) => Fact::List(list.into_iter().map(|value| fact(name, value)).collect()),
        FieldValue::Group(fields) => Fact::Group(Facts::of(fields)),
        FieldValue::Bytes(bytes) => match name {
            "path" => Fact::Text(path_text(&bytes)),
            "system_path" | "log_path" | "text" => Fact::Text(narrow_text(&bytes)),
            "attachment_list" => {
                let entries = Attachment::fields_of_list(&bytes).into_iter();
                Fact::List(entries.map(|entry| Fact::Group(Facts::of(entry))).collect())
            }
            _ => Fact::Bytes(bytes),
        },
    }
}

fn is_generation(name: &str) -> bool {
    name == "generation" || name.starts_with("gen_") || name.starts_with("before_redo_")
}

fn time_fact(time: LogTime) -> Fact {
    match time {
        LogTime::NONE => Fact::None,
        time => Fact::Text(time.to_string()),
    }
}

fn signature_fact(signature: Signature) -> Fact {
    if signature == Signature::default() {
        return Fact::None;
    }
    let computer = match narrow_text(&signature.computer) {
        name if name.is_empty() => Fact::None,
        name => Fact::Text(name),
    };
    let fields = [
        ("random", Fact::Number(signature.random.into())),
        ("created", time_fact(signature.created)),
        ("computer", computer),
    ];
    Fact::Group(Facts(fields.map(|(name, value)| (name.to_owned(), value)).into()))
}

/// Paths are UTF-16 in all files of this format; older records have one byte per character. Every path starts with a
/// drive letter or a separator, which tells them apart.
fn path_text(bytes: &[u8]) -> String {
    match bytes {
        [_, 0, ..] => decode_path(bytes),
        _ => narrow_text(bytes),
    }
}

/// Text of one byte per character, up to its NUL.
fn narrow_text(bytes: &[u8]) -> String {
    let text = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
    text.iter().map(|&byte| char::from(byte)).collect()
}

/// Bytes as digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Bytes as digits, cut when long.
pub(crate) fn short_hex(bytes: &[u8]) -> String {
    match bytes.get(..SHOWN_BYTES) {
        Some(head) if bytes.len() > SHOWN_BYTES => format!("{}..({} bytes)", hex(head), bytes.len()),
        _ => hex(bytes),
    }
}

/// A key, cut when long; the empty one stands behind all others.
pub(crate) fn short_key(key: &[u8]) -> String {
    if key.is_empty() { "(end)".to_owned() } else { short_hex(key) }
}

impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fact::None => f.write_str("-"),
            // No dbtime, or no version.
            Fact::Number(u64::MAX) => f.write_str("all-ones"),
            Fact::Number(number) => write!(f, "{number}"),
            Fact::Signed(number) => write!(f, "{number}"),
            Fact::Generation(0) => f.write_str("0"),
            Fact::Generation(number) => write!(f, "{number} ({number:#X})"),
            Fact::Text(text) if text.is_empty() => f.write_str("-"),
            Fact::Text(text) => text.chars().try_for_each(|char| match char.is_control() {
                true => write!(f, "{}", char.escape_default()),
                false => f.write_char(char),
            }),
            Fact::Bytes(bytes) if is_zeros(bytes) => write!(f, "zeros({})", bytes.len()),
            Fact::Bytes(bytes) if bytes.is_empty() => f.write_str("\"\""),
            Fact::Bytes(bytes) => f.write_str(&short_hex(bytes)),
            Fact::Choice(_, Some(name)) => f.write_str(name),
            Fact::Choice(value, None) => write!(f, "{value} (unknown)"),
            Fact::Flags(value, names) => write!(f, "{value:#x}{}", Names(names)),
            Fact::List(list) => {
                f.write_str("[")?;
                for (index, value) in list.iter().enumerate() {
                    write!(f, "{}{value}", if index > 0 { "," } else { "" })?;
                }
                f.write_str("]")
            }
            Fact::Group(group) => group.line(f),
        }
    }
}

/// Names of flags in text.
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

impl Serialize for Fact {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Fact::None => serializer.serialize_none(),
            Fact::Number(number) | Fact::Generation(number) => serializer.serialize_u64(*number),
            Fact::Signed(number) => serializer.serialize_i64(*number),
            Fact::Text(text) => serializer.serialize_str(text),
            Fact::Bytes(bytes) if is_zeros(bytes) => serializer.serialize_none(),
            Fact::Bytes(bytes) => serializer.serialize_str(&hex(bytes)),
            Fact::Choice(_, Some(name)) => serializer.serialize_str(name),
            Fact::Choice(value, None) => serializer.serialize_u64(*value),
            Fact::Flags(value, names) => {
                let mut map = serializer.serialize_map(Some(2))?;
                map.serialize_entry("value", value)?;
                map.serialize_entry("names", names)?;
                map.end()
            }
            Fact::List(list) => list.serialize(serializer),
            Fact::Group(group) => group.serialize(serializer),
        }
    }
}

impl Serialize for Facts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}
