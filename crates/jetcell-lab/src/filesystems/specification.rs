//! Specifications for the file systems to make, given as names or as a TOML list.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

use jetcell_input::toml::{self, TomlError};
use jetcell_vfs::read_input;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::kind::FilesystemKind;

/// Maximum number of file systems in a test.
const MAX_FILESYSTEMS: usize = 64;
/// Maximum percentage of the space that other files may use. The databases need the remainder.
const MAX_FILL_PERCENT: u8 = 80;
const MAX_ROUNDS: u16 = 100;
/// Maximum size of a list file in bytes.
const MAX_LIST_BYTES: u64 = 1 << 20;

/// Specifies how to make a file system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FilesystemSpecification {
    /// Kind of the file system.
    pub kind: FilesystemKind,
    /// Name in the results. If empty, the kind's name is used.
    #[serde(default)]
    pub name: String,
    /// Options for the mkfs program, in addition to those that the test always uses.
    #[serde(default)]
    pub mkfs_options: Vec<String>,
    /// Mount options.
    #[serde(default)]
    pub mount_options: Vec<String>,
    /// Percentage of the space used by other files, 0 to 80.
    #[serde(default)]
    pub fill_percent: u8,
    /// Number of aging rounds. Each round writes files until 90 % is in use, then removes files in random order until
    /// `fill_percent` is in use, which fragments the free space.
    #[serde(default)]
    pub aging_rounds: u16,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SpecificationList {
    #[serde(default)]
    filesystem: Vec<FilesystemSpecification>,
}

/// Reason why a list of file systems cannot be used.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages describe the variants and their fields")]
pub enum SpecificationError {
    #[error("{}: cannot be read: {error}", .path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        error: io::Error,
    },
    #[error(transparent)]
    Toml(#[from] TomlError),
    #[error("{file}: {error}")]
    List { file: String, error: Box<SpecificationError> },
    #[error("expected at least one file system")]
    Empty,
    #[error("{0} file systems are too many")]
    TooMany(usize),
    #[error("a name is longer than 100 characters, or contains control characters")]
    InvalidName,
    #[error("\"{0}\" is used twice")]
    DuplicateName(String),
    #[error("{0}: fill_percent must be at most {MAX_FILL_PERCENT}, and aging_rounds at most {MAX_ROUNDS}")]
    TooMuchAging(String),
    #[error("{0}: write each mount option as a separate string")]
    MountOption(String),
}

impl SpecificationError {
    /// Returns what the user can do about the error, for example `correct this value`.
    pub fn advice(&self) -> Option<Cow<'static, str>> {
        Some(Cow::Borrowed(match self {
            SpecificationError::Toml(error) => return error.advice(),
            SpecificationError::List { error, .. } => return error.advice(),
            SpecificationError::Empty => "add a [[filesystem]] section with kind = \"ext4\"",
            SpecificationError::TooMany(_) => {
                return Some(format!("a test can have at most {MAX_FILESYSTEMS}").into());
            }
            SpecificationError::DuplicateName(_) => "give each file system a unique name",
            SpecificationError::TooMuchAging(_) => "correct this value",
            _ => return None,
        }))
    }
}

impl FilesystemSpecification {
    /// Creates a specification for a file system without options.
    pub fn for_kind(kind: FilesystemKind) -> FilesystemSpecification {
        FilesystemSpecification {
            kind,
            name: kind.name().into(),
            mkfs_options: Vec::new(),
            mount_options: Vec::new(),
            fill_percent: 0,
            aging_rounds: 0,
        }
    }

    /// Reads a list with one `[[filesystem]]` table per file system.
    ///
    /// # Errors
    /// The file cannot be read, or contains a mistake.
    pub fn read_list(path: &Path) -> Result<Vec<FilesystemSpecification>, SpecificationError> {
        let text = read_input(path, MAX_LIST_BYTES)
            .map_err(|error| SpecificationError::Unreadable { path: path.into(), error })?;
        FilesystemSpecification::parse_list(&path.display().to_string(), &text)
    }

    fn parse_list(source: &str, text: &str) -> Result<Vec<FilesystemSpecification>, SpecificationError> {
        let in_list = |error| SpecificationError::List { file: source.into(), error: Box::new(error) };
        let SpecificationList { filesystem: mut all } = toml::parse(source, text)?;
        if all.is_empty() {
            return Err(in_list(SpecificationError::Empty));
        }
        for one in &mut all {
            if one.name.is_empty() {
                one.name = one.kind.name().into();
            }
        }
        check(&all).map_err(in_list)?;
        Ok(all)
    }
}

/// Checks that the specifications are valid.
///
/// # Errors
/// There are too many file systems, duplicate names, or settings that are out of range.
pub fn check(all: &[FilesystemSpecification]) -> Result<(), SpecificationError> {
    if all.len() > MAX_FILESYSTEMS {
        return Err(SpecificationError::TooMany(all.len()));
    }
    for (at, one) in all.iter().enumerate() {
        if one.name.chars().any(char::is_control) || one.name.chars().count() > 100 {
            return Err(SpecificationError::InvalidName);
        }
        if all.iter().take(at).any(|other| other.name == one.name) {
            return Err(SpecificationError::DuplicateName(one.name.clone()));
        }
        if one.fill_percent > MAX_FILL_PERCENT || one.aging_rounds > MAX_ROUNDS {
            return Err(SpecificationError::TooMuchAging(one.name.clone()));
        }
        if one.mount_options.iter().any(|option| option.is_empty() || option.contains([',', ' '])) {
            return Err(SpecificationError::MountOption(one.name.clone()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_names_options_and_defaults() {
        let all = FilesystemSpecification::parse_list(
            "a",
            "[[filesystem]]\nkind = \"ext4\"\n[[filesystem]]\nkind = \"ext4\"\nname = \"small blocks\"\n\
             mkfs_options = [\"-b\", \"1024\"]\nmount_options = [\"noatime\"]\nfill_percent = 50\naging_rounds = 2\n",
        )
        .unwrap();
        assert_eq!(all[0], FilesystemSpecification::for_kind(FilesystemKind::Ext4));
        assert_eq!((all[1].name.as_str(), all[1].fill_percent, all[1].aging_rounds), ("small blocks", 50, 2));
        assert_eq!(all[1].mkfs_options, ["-b", "1024"]);
    }

    #[test]
    fn invalid_lists_are_refused_with_the_line_number() {
        for (text, said) in [
            ("", "the file is empty"),
            ("# no file systems\n", "expected at least one file system"),
            ("[[filesystem]]\n", "kind"),
            ("[[filesystem]]\nkind = \"fat\"\n", "line 2: "),
            ("[[filesystem]]\nkind = \"xfs\"\nfil = 3\n", "a, line 3: unknown key 'fil'"),
            ("[[filesystem]]\nkind = \"xfs\"\nfill_percent = 81\n", "xfs: fill_percent must be at most 80"),
            ("[[filesystem]]\nkind = \"xfs\"\nfill_percent = 300\n", "line 3: "),
            ("[[filesystem]]\nkind = \"xfs\"\n[[filesystem]]\nkind = \"xfs\"\n", "\"xfs\" is used twice"),
            ("[[filesystem]]\nkind = \"xfs\"\nmount_options = [\"a,b\"]\n", "each mount option"),
            ("[[filesystem]]\nkind = \"xfs\"\nname = \"a\\u0007\"\n", "control characters"),
            ("filesystem = 3\n", "line 1: "),
        ] {
            let found = FilesystemSpecification::parse_list("a", text).unwrap_err().to_string();
            assert!(found.contains(said) && !found.contains('\n'), "{text:?}: {found}");
        }
    }
}
