//! File names that come from data: manifests, states, registrations, messages from other hosts.
//!
//! Invariant: every [`FileStem`] and [`FileName`] has been validated. Joined to a directory, each leads to an entry
//! in that directory. A string from a file or from the network becomes part of a path only through one of these
//! types.

use std::fmt;
use std::ops::Deref;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// Base name of an instance's logs: three ASCII letters or digits, such as `E00`. ESE: `JET_paramBaseName`.
#[doc(alias = "JET_paramBaseName")]
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FileStem([u8; FileStem::LEN]);

impl FileStem {
    /// The default base name of an instance.
    pub const E00: FileStem = FileStem(*b"E00");
    /// Length of every base name in bytes. ESE's file name format does not allow longer ones.
    pub const LEN: usize = 3;

    /// Validates a base name.
    ///
    /// # Errors
    /// Returns [`NameError::BaseName`] unless the text is three ASCII letters or digits.
    pub fn new(text: &str) -> Result<FileStem, NameError> {
        match <[u8; FileStem::LEN]>::try_from(text.as_bytes()) {
            Ok(bytes) if bytes.iter().all(u8::is_ascii_alphanumeric) => Ok(FileStem(bytes)),
            _ => Err(NameError::BaseName { text: excerpt(text) }),
        }
    }

    /// Returns the base name as text.
    pub fn as_str(&self) -> &str {
        // The bytes are ASCII, so the conversion always succeeds.
        str::from_utf8(&self.0).unwrap_or("E00")
    }
}

impl Default for FileStem {
    fn default() -> FileStem {
        FileStem::E00
    }
}

/// A single path component that is not empty, is not `.` or `..`, has at most [`FileName::MAX_BYTES`] bytes, and does
/// not contain `/`, `\` or NUL. A backslash is refused because the same data may be read on Windows, where it
/// separates components.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FileName(String);

impl FileName {
    /// Maximum length of a file name in bytes. Linux: `NAME_MAX`.
    pub const MAX_BYTES: usize = 255;

    /// Validates a name.
    ///
    /// # Errors
    /// Returns an error if the text is not a single path component.
    pub fn new(text: impl Into<String>) -> Result<FileName, NameError> {
        let text = text.into();
        match text.as_str() {
            "" => Err(NameError::Empty),
            "." | ".." => Err(NameError::Dots { text }),
            long if long.len() > FileName::MAX_BYTES => Err(NameError::TooLong { bytes: long.len() }),
            other if other.contains(['/', '\\', '\0']) => Err(NameError::Separator { text: excerpt(other) }),
            _ => Ok(FileName(text)),
        }
    }

    /// Returns the last component of a path as a file name.
    ///
    /// # Errors
    /// Returns an error if the last component of the path is not a valid name or not valid UTF-8.
    pub fn from_path(path: &Path) -> Result<FileName, NameError> {
        FileName::new(path.file_name().unwrap_or_default().to_string_lossy())
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Error returned when a string is not a valid file name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NameError {
    /// A log base name does not consist of three ASCII letters or digits.
    BaseName {
        /// The first characters of the text.
        text: String,
    },
    /// The name is empty.
    Empty,
    /// The name is `.` or `..`, which refer to other directories.
    Dots {
        /// The invalid name.
        text: String,
    },
    /// The name contains a path separator or a NUL.
    Separator {
        /// The first characters of the text.
        text: String,
    },
    /// The name has more than [`FileName::MAX_BYTES`] bytes.
    TooLong {
        /// Length of the name in bytes.
        bytes: usize,
    },
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NameError::BaseName { text } => {
                write!(
                    f,
                    "{text:?} is not a base name of logs; use three ASCII letters or digits, such as E00"
                )
            }
            NameError::Empty => f.write_str("the file name is empty; specify the name of a file"),
            NameError::Dots { text } => {
                write!(f, "{text:?} is a directory, not a file name; specify the name of a file")
            }
            NameError::Separator { text } => {
                write!(f, "{text:?} contains a separator; use a file name without '/', '\\' and NUL")
            }
            NameError::TooLong { bytes } => {
                write!(f, "the file name is {bytes} bytes long; the maximum is {}", FileName::MAX_BYTES)
            }
        }
    }
}

impl std::error::Error for NameError {}

/// Returns the first characters of a string, short enough for a message.
fn excerpt(text: &str) -> String {
    text.chars().take(80).collect()
}

/// Implements the usual traits of a string type: dereferencing to `str`, use as a path component, display, and
/// conversion from and to strings.
macro_rules! text_type {
    ($type:ty, $from_string:expr) => {
        impl Deref for $type {
            type Target = str;

            fn deref(&self) -> &str {
                self.as_str()
            }
        }

        impl AsRef<Path> for $type {
            fn as_ref(&self) -> &Path {
                Path::new(self.as_str())
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self)
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(self.as_str(), f)
            }
        }

        impl From<$type> for String {
            fn from(name: $type) -> String {
                name.as_str().to_owned()
            }
        }

        impl TryFrom<String> for $type {
            type Error = NameError;

            fn try_from(text: String) -> Result<Self, NameError> {
                $from_string(text)
            }
        }
    };
}

text_type!(FileStem, |text: String| FileStem::new(&text));
text_type!(FileName, FileName::new);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_name_is_three_ascii_letters_or_digits() {
        for valid in ["E00", "edb", "SRU", "u00", "000"] {
            assert_eq!(FileStem::new(valid).unwrap().as_str(), valid);
        }
        for invalid in
            ["", "E0", "E000", "../victim/E00", "/E0", "E/0", "E\\0", "E.0", "..E", "E0\0", "Eé", "E0 "]
        {
            let error = FileStem::new(invalid).unwrap_err();
            assert!(matches!(error, NameError::BaseName { .. }), "{invalid:?}: {error}");
        }
        assert_eq!(FileStem::default().as_str(), "E00");
    }

    #[test]
    fn a_file_name_is_one_component_of_a_path() {
        let longest = "x".repeat(FileName::MAX_BYTES);
        for valid in ["a", "E00.log", "mail box.edb", "...", ".hidden", "é", longest.as_str()] {
            let name = FileName::new(valid).unwrap();
            assert_eq!(Path::new("/d").join(&name).parent(), Some(Path::new("/d")), "{valid}");
            assert_eq!(FileName::from_path(&Path::new("/d").join(&name)), Ok(name));
        }
        let too_long = "x".repeat(FileName::MAX_BYTES + 1);
        for (invalid, error) in [
            ("", NameError::Empty),
            (".", NameError::Dots { text: ".".into() }),
            ("..", NameError::Dots { text: "..".into() }),
            ("/etc", NameError::Separator { text: "/etc".into() }),
            ("a/b", NameError::Separator { text: "a/b".into() }),
            ("a/", NameError::Separator { text: "a/".into() }),
            ("..\\b", NameError::Separator { text: "..\\b".into() }),
            ("a\0", NameError::Separator { text: "a\0".into() }),
            (too_long.as_str(), NameError::TooLong { bytes: 256 }),
        ] {
            assert_eq!(FileName::new(invalid), Err(error), "{invalid:?}");
        }
        assert_eq!(FileName::from_path(Path::new("/")), Err(NameError::Empty));
    }

    #[test]
    fn messages_truncate_hostile_text() {
        let hostile = format!("{}/E00", "../".repeat(10_000));
        for error in [FileStem::new(&hostile).unwrap_err(), FileName::new(hostile.clone()).unwrap_err()] {
            assert!(error.to_string().len() < 300, "{}", error.to_string().len());
        }
    }
}
