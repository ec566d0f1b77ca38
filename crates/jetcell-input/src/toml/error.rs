//! Mistakes in TOML, with their location.

use std::borrow::Cow;
use std::fmt;

use crate::shortened;

/// Maximum number of characters in the list of known keys in an error message.
const MAX_KNOWN: usize = 160;

/// A mistake in TOML text. The message is one line: `a.toml, line 3: unknown key 'sise'`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TomlError {
    pub(super) source: String,
    pub(super) line: Option<usize>,
    pub(super) key: String,
    pub(super) mistake: TomlErrorKind,
}

/// A kind of mistake in TOML text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TomlErrorKind {
    /// The key does not exist in its table.
    UnknownKey {
        /// The most similar known key.
        nearest: Option<Box<NearestKey>>,
        /// All known keys of the table.
        known: Vec<String>,
    },
    /// The key is required.
    MissingKey,
    /// The text is empty.
    Empty,
    /// The text is not TOML, or the value has the wrong type or is out of range.
    InvalidValue {
        /// Reason why the value is invalid.
        reason: String,
        /// Advice from the value's parser, if there is any.
        advice: Option<String>,
    },
}

/// A known key that is similar to an unknown key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NearestKey {
    pub(super) key: String,
    /// Table of the known key if it is not the table of the unknown key. The root table has an empty name.
    pub(super) table: Option<String>,
}

impl TomlError {
    /// Returns the line number of the mistake, starting at 1, if it is known.
    pub fn line(&self) -> Option<usize> {
        self.line
    }

    /// Returns the path of the key, such as `mix.insert`, or an empty string if the text is not TOML.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns what the user can do about the error, for example `the nearest known key is 'size'`.
    pub fn advice(&self) -> Option<Cow<'static, str>> {
        match &self.mistake {
            TomlErrorKind::UnknownKey { nearest: Some(nearest), .. } => Some(nearest.to_string().into()),
            TomlErrorKind::UnknownKey { known, .. } if !known.is_empty() => {
                Some(format!("known keys: {}", shortened(&known.join(", "), MAX_KNOWN)).into())
            }
            TomlErrorKind::InvalidValue { advice: Some(advice), .. } => Some(advice.clone().into()),
            TomlErrorKind::Empty => Some("specify a file with at least one setting".into()),
            _ => self.line.map(|_| "correct this line".into()),
        }
    }

    /// Returns the kind of the mistake.
    pub fn mistake(&self) -> &TomlErrorKind {
        &self.mistake
    }
}

impl std::error::Error for TomlError {}

impl fmt::Display for TomlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (source, key) = (&self.source, &self.key);
        match self.line {
            Some(line) => write!(f, "{source}, line {line}: ")?,
            None => write!(f, "{source}: ")?,
        }
        match &self.mistake {
            TomlErrorKind::UnknownKey { .. } => write!(f, "unknown key '{key}'"),
            TomlErrorKind::MissingKey => write!(f, "missing key '{key}'"),
            TomlErrorKind::Empty => f.write_str("the file is empty"),
            TomlErrorKind::InvalidValue { reason, .. } if key.is_empty() => f.write_str(reason),
            TomlErrorKind::InvalidValue { reason, .. } => write!(f, "{key}: {reason}"),
        }
    }
}

impl fmt::Display for NearestKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the nearest known key is '{}'", self.key)?;
        match self.table.as_deref() {
            None => Ok(()),
            Some("") => f.write_str(", which belongs before the first [table]"),
            Some(table) => write!(f, " in [{table}]"),
        }
    }
}
