//! Paths in JSON.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};

/// A path as JSON. Bytes that are not UTF-8 become replacement characters. A [`Path`] itself would make the whole
/// output fail.
#[derive(Clone, Copy, Debug)]
pub struct JsonPath<'p>(&'p Path);

impl Serialize for JsonPath<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0.display())
    }
}

/// Returns a path in its JSON form.
pub fn json_path(path: &(impl AsRef<Path> + ?Sized)) -> JsonPath<'_> {
    JsonPath(path.as_ref())
}

/// Returns paths in their JSON form.
pub fn json_paths<'p, P: AsRef<Path> + ?Sized + 'p>(
    paths: impl IntoIterator<Item = &'p P>,
) -> Vec<JsonPath<'p>> {
    paths.into_iter().map(json_path).collect()
}

/// Serializes a value as the text that it displays.
///
/// # Errors
/// Returns the error of the serializer, if any.
pub fn serialize_display<S: Serializer>(value: &impl Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

/// Serializes a path like [`json_path`].
///
/// # Errors
/// Returns the error of the serializer, if any.
pub fn serialize_path<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    json_path(path).serialize(serializer)
}

/// Serializes a path like [`json_path`], or null.
///
/// # Errors
/// Returns the error of the serializer, if any.
pub fn serialize_optional_path<S: Serializer>(
    path: &Option<PathBuf>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    path.as_ref().map(json_path).serialize(serializer)
}

/// Serializes paths like [`json_paths`].
///
/// # Errors
/// Returns the error of the serializer, if any.
pub fn serialize_paths<S: Serializer>(paths: &[PathBuf], serializer: S) -> Result<S::Ok, S::Error> {
    json_paths(paths).serialize(serializer)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;
    use crate::json_line;

    #[derive(Serialize)]
    struct Places {
        #[serde(serialize_with = "serialize_path")]
        one: PathBuf,
        #[serde(serialize_with = "serialize_optional_path")]
        maybe: Option<PathBuf>,
        #[serde(serialize_with = "serialize_optional_path")]
        none: Option<PathBuf>,
        #[serde(serialize_with = "serialize_paths")]
        several: Vec<PathBuf>,
    }

    #[test]
    fn json_contains_paths_that_are_not_utf_8() {
        let path = PathBuf::from(OsStr::from_bytes(b"a\xff/b"));
        let places =
            Places { one: path.clone(), maybe: Some(path.clone()), none: None, several: vec![path.clone()] };
        let shown = "\"a\u{fffd}/b\"";
        let expected = format!("{{\"one\":{shown},\"maybe\":{shown},\"none\":null,\"several\":[{shown}]}}");
        assert_eq!(json_line(&places).unwrap(), expected);
        assert_eq!(json_line(&json_paths([&path])).unwrap(), format!("[{shown}]"));
    }
}
