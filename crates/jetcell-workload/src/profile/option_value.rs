//! Types of option values, and how each is parsed and displayed.

use std::ffi::OsStr;
use std::path::PathBuf;

use super::skew::Skew;
use super::{CopyMode, EventNumbers, Maintenance, MaintenanceWindowSetting, Mix, RecoveryMode, ResetMethod};

use crate::parse_error::ParseError;
use crate::units::{ByteSize, DatabaseSize, TimeSpan};

/// The kind of value that a command-line option takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionKind {
    /// Any other text.
    Value,
    /// `true` or `false`. The option without a value means `true`.
    Flag,
    /// The path of a file or directory.
    Path,
}

/// A type that an option's value can have. Text returned by [`show`](OptionValue::show) is accepted by
/// [`read`](OptionValue::read).
pub(super) trait OptionValue: Sized {
    /// Kind of the value type.
    const KIND: OptionKind = OptionKind::Value;

    fn read(text: &OsStr) -> Result<Self, ParseError>;

    fn show(&self) -> String;
}

fn utf8(text: &OsStr) -> Result<&str, ParseError> {
    text.to_str().ok_or(ParseError::NotUtf8)
}

macro_rules! numbers {
    ($($type:ident, $what:literal;)*) => {$(
        impl OptionValue for $type {
            fn read(text: &OsStr) -> Result<$type, ParseError> {
                utf8(text)?.trim().parse().map_err(|_| ParseError::Expected($what))
            }

            fn show(&self) -> String {
                self.to_string()
            }
        }
    )*};
}

numbers! {
    u8, "a whole number from 0 to 255";
    u32, "a whole number from 0 to 4294967295";
    u64, "a whole number from 0 to 18446744073709551615";
    usize, "a whole number from 0 to 18446744073709551615";
    f64, "a number";
}

macro_rules! parsed {
    ($($type:ident)*) => {$(
        impl OptionValue for $type {
            fn read(text: &OsStr) -> Result<$type, ParseError> {
                let value = utf8(text)?.parse()?;
                Ok(value)
            }

            fn show(&self) -> String {
                self.to_string()
            }
        }
    )*};
}

parsed! { CopyMode EventNumbers Maintenance Mix RecoveryMode ResetMethod Skew MaintenanceWindowSetting ByteSize DatabaseSize TimeSpan }

impl OptionValue for bool {
    const KIND: OptionKind = OptionKind::Flag;

    fn read(text: &OsStr) -> Result<bool, ParseError> {
        utf8(text)?.parse().map_err(|_| ParseError::Expected("true or false"))
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl OptionValue for String {
    fn read(text: &OsStr) -> Result<String, ParseError> {
        utf8(text).map(str::to_string)
    }

    fn show(&self) -> String {
        self.clone()
    }
}

impl OptionValue for PathBuf {
    const KIND: OptionKind = OptionKind::Path;

    // Paths are checked for valid UTF-8 later, when the options are resolved. The message can then include the path.
    fn read(text: &OsStr) -> Result<PathBuf, ParseError> {
        Ok(PathBuf::from(text))
    }

    fn show(&self) -> String {
        self.to_string_lossy().into_owned()
    }
}
