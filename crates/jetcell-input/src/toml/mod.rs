//! TOML from users: one parser, and one form of error.
//!
//! A byte-order mark at the start of the text is ignored. `source` names the text in errors, for example the option
//! and the path: `--config a.toml`.

mod error;

use std::iter;

use ::toml::de::{DeString, DeTable, DeValue, Deserializer, Error};
use ::toml::{Spanned, Table, Value};
use serde::de::DeserializeOwned;

pub use self::error::{NearestKey, TomlError, TomlErrorKind};
use crate::advice::ADVICE_SEPARATOR;
use crate::nearest::nearest_entry;
use crate::{error_line, shortened_name};

/// Parses TOML. Unknown keys are errors only if the type denies unknown fields. An empty text is an error.
pub fn parse<T: DeserializeOwned>(source: &str, text: &str) -> Result<T, TomlError> {
    let text = TomlText::new(source, text);
    text.deserialize(text.document()?)
}

/// Parses TOML like [`parse`], but reports all keys that are not in `example`, which is TOML with every known key.
/// The nearest known key may be in another table.
pub fn parse_with_example<T: DeserializeOwned>(
    source: &str,
    text: &str,
    example: &str,
) -> Result<T, Vec<TomlError>> {
    let text = TomlText::new(source, text);
    let known: Table = parse("example", example).map_err(|error| vec![error])?;
    let document = text.document().map_err(|error| vec![error])?;
    let unknown = text.unknown_keys(document.get_ref(), &known);
    if !unknown.is_empty() {
        return Err(unknown);
    }
    text.deserialize(document).map_err(|error| vec![error])
}

/// A text and the name of its source.
struct TomlText<'a> {
    source: &'a str,
    text: &'a str,
}

impl<'a> TomlText<'a> {
    fn new(source: &'a str, text: &'a str) -> TomlText<'a> {
        TomlText { source, text: text.strip_prefix('\u{feff}').unwrap_or(text) }
    }

    fn document(&self) -> Result<Spanned<DeTable<'a>>, TomlError> {
        DeTable::parse(self.text).map_err(|error| self.error(&error))
    }

    /// Deserializes the document. Fails if the text is empty, even if no key is required, because an interrupted
    /// program may have left an empty file. A text that consists only of comments is valid: it selects all defaults.
    fn deserialize<T: DeserializeOwned>(&self, document: Spanned<DeTable<'_>>) -> Result<T, TomlError> {
        let parsed = T::deserialize(Deserializer::from(document)).map_err(|error| self.error(&error))?;
        if self.text.trim().is_empty() {
            Err(self.mistake(None, "", TomlErrorKind::Empty))
        } else {
            Ok(parsed)
        }
    }

    /// Converts an error of the parser. Serde reports the names of unknown and missing keys, and the advice from a
    /// value's parser, only as text.
    fn error(&self, error: &Error) -> TomlError {
        let (message, offset) = (error.message(), error.span().map(|span| span.start));
        if let Some((key, known)) = unknown_field(message) {
            let near = nearest_entry(&one_line(key), known.iter().map(|name| (*name, ())));
            let nearest = near.map(|(name, ())| Box::new(NearestKey { key: name.into(), table: None }));
            let known = known.into_iter().map(str::to_owned).collect();
            return self.mistake(offset, key, TomlErrorKind::UnknownKey { nearest, known });
        }
        let path = key_path(error);
        match message.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`')) {
            Some(key) if path.is_empty() => self.mistake(offset, key, TomlErrorKind::MissingKey),
            Some(key) => self.mistake(offset, &format!("{path}.{key}"), TomlErrorKind::MissingKey),
            None => {
                let text = plain(&error_line(&message));
                let (reason, advice) = match text.rsplit_once(ADVICE_SEPARATOR) {
                    Some((reason, advice)) => (reason.to_owned(), Some(advice.to_owned())),
                    None => (text, None),
                };
                self.mistake(offset, &path, TomlErrorKind::InvalidValue { reason, advice })
            }
        }
    }

    fn mistake(&self, offset: Option<usize>, key: &str, mistake: TomlErrorKind) -> TomlError {
        let newlines = |end| self.text.bytes().take(end).filter(|byte| *byte == b'\n').count();
        let line = offset.map(|offset| 1 + newlines(offset));
        TomlError { source: self.source.to_owned(), line, key: one_line(key), mistake }
    }

    fn unknown_keys(&self, document: &DeTable<'_>, known: &Table) -> Vec<TomlError> {
        let mut found = Vec::new();
        let mut add =
            |key: &Spanned<DeString<'_>>, table: &str| found.push(self.unknown_key(key, table, known));
        for (key, value) in document {
            let name: &str = key.get_ref();
            match (known.get(name), value.get_ref()) {
                (None, _) => add(key, ""),
                (Some(Value::Table(expected)), DeValue::Table(inner)) => {
                    let unknown = inner.keys().filter(|key| !expected.contains_key(key.get_ref().as_ref()));
                    unknown.for_each(|key| add(key, name));
                }
                _ => {}
            }
        }
        found.sort_by_key(TomlError::line);
        found
    }

    /// Finds the nearest known key. If several keys are equally similar, a key in the same table has precedence.
    fn unknown_key(&self, key: &Spanned<DeString<'_>>, table: &str, known: &Table) -> TomlError {
        let inner = known.iter().filter_map(|(name, value)| Some((name.as_str(), value.as_table()?)));
        let tables = iter::once(("", known)).chain(inner);
        let (same, other): (Vec<_>, Vec<_>) = tables.partition(|(name, _)| *name == table);
        let entries = same.iter().chain(&other);
        let entries = entries.flat_map(|(name, keys)| keys.keys().map(|key| (key.as_str(), *name)));
        let nearest = nearest_entry(&one_line(key.get_ref()), entries).map(|(name, place)| {
            let table = Some(place.to_owned()).filter(|place| place != table);
            Box::new(NearestKey { key: name.into(), table })
        });
        let known = same.iter().flat_map(|(_, keys)| keys.keys().cloned()).collect();
        self.mistake(Some(key.span().start), key.get_ref(), TomlErrorKind::UnknownKey { nearest, known })
    }
}

/// Returns the unknown field and the known fields in a message of serde.
fn unknown_field(message: &str) -> Option<(&str, Vec<&str>)> {
    let rest = message.strip_prefix("unknown field `")?;
    match rest.rsplit_once("`, expected ") {
        Some((key, known)) => Some((key, known.split('`').skip(1).step_by(2).collect())),
        None => Some((rest.strip_suffix("`, there are no fields")?, Vec::new())),
    }
}

/// Returns the path of the key whose value is wrong, such as `mix.insert`. The parser shows it only in the last line of
/// its display form. The path of an error in the root table, or in the syntax, is empty.
fn key_path(error: &Error) -> String {
    let shown = error.to_string();
    let path = shown.trim_end().rsplit_once("\nin `").and_then(|(_, path)| path.strip_suffix('`'));
    path.unwrap_or_default().to_owned()
}

/// Shortens a key, which may contain line breaks.
fn one_line(key: &str) -> String {
    shortened_name(&key.replace('\n', " ")).into_owned()
}

/// Replaces names of Rust types with words that users understand.
fn plain(message: &str) -> String {
    if let Some((before, _)) = message.split_once("expected struct ") {
        return format!("{before}expected a table");
    }
    let words = [
        ("expected a boolean", "expected true or false"),
        ("expected a sequence", "expected a list such as [\"a\", \"b\"]"),
        ("expected path string", "expected a string"),
    ];
    let numbers = ["usize", "u64", "u32", "u16", "u8", "i64", "f64"]
        .map(|kind| (format!("expected {kind}"), "expected a number in its valid range"));
    let words = words.map(|(from, to)| (from.to_owned(), to)).into_iter().chain(numbers);
    words.fold(message.to_owned(), |message, (from, to)| message.replace(&from, to))
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
