//! Reasons why a configuration cannot be sized.

use std::borrow::Cow;

use jetcell_input::toml::TomlError;
use thiserror::Error;

use crate::units::{DurationQuantity, Share};

/// A mistake in a sizing configuration or a disk catalogue, or a design that does not fit the limits.
#[derive(Clone, Debug, PartialEq, Error)]
#[expect(missing_docs, reason = "the messages describe the variants and their fields")]
pub enum SizingError {
    #[error(transparent)]
    Toml(#[from] TomlError),
    #[error("{file}: {mistake}")]
    File { file: String, mistake: Box<SizingError> },
    #[error("{key} = {value} must be between {min} and {max}")]
    Range { key: String, value: f64, min: f64, max: f64 },
    #[error("{key} = {share} must be {rule}")]
    Share { key: &'static str, share: Share, rule: &'static str },
    #[error("{key} must be {rule}")]
    Value { key: &'static str, rule: &'static str },
    #[error("{key} must contain {content}")]
    Empty { key: &'static str, content: &'static str },
    #[error("servers.copies = {copies} on {servers} servers: each copy must be on a separate server")]
    Copies { copies: u32, servers: u32 },
    #[error("servers.lost = {lost} of {servers}: at least one server must remain")]
    ServersLost { lost: u32, servers: u32 },
    #[error("disk \"{disk}\": {key} = {value} must be {rule}")]
    Disk { disk: String, key: &'static str, value: f64, rule: &'static str },
    #[error("unknown disk \"{name}\"")]
    UnknownDisk { name: String, known: Vec<String> },
    #[error("unknown platform \"{name}\"")]
    UnknownPlatform { name: String, nearest: Option<String>, known: Vec<String> },
    #[error("platform_changes.{name} = {value} is out of range")]
    Platform { name: &'static str, value: f64 },
    #[error("{raid}: data_disks applies only to parity groups")]
    DataDisksOfMirror { raid: String },
    #[error("{layout} of {disk} would need more than ten million disks")]
    TooManyDisks { layout: String, disk: String },
    #[error("disk \"{disk}\" does not respond within {latency} on average even at minimal load")]
    SlowDisk { disk: String, latency: DurationQuantity },
    #[error("a test supports at most {max} databases but a server would have {databases}")]
    TooManyDatabases { databases: f64, max: f64 },
    #[error("the server has no database I/O to test")]
    NoIo,
    #[error("a mailbox requires {mailbox_gib:.1} GiB, but a database may be at most {largest_gib:.1} GiB")]
    LargeMailbox { mailbox_gib: f64, largest_gib: f64 },
    #[error("{name} is out of range")]
    NotFinite { name: String },
}

impl SizingError {
    /// Returns what the user can do about the error, for example `correct this value`.
    pub fn advice(&self) -> Option<Cow<'static, str>> {
        Some(Cow::Borrowed(match self {
            SizingError::Toml(error) => return error.advice(),
            SizingError::File { mistake, .. } => return mistake.advice(),
            SizingError::UnknownDisk { known, .. } => {
                return Some(format!("disks in the catalogue: \"{}\"", known.join("\", \"")).into());
            }
            SizingError::UnknownPlatform { nearest, known, .. } => {
                let known = known.join(", ");
                return Some(match nearest {
                    Some(nearest) => format!("did you mean \"{nearest}\"? (known: {known})").into(),
                    None => format!("known platforms: {known}").into(),
                });
            }
            SizingError::Range { .. }
            | SizingError::Share { .. }
            | SizingError::Value { .. }
            | SizingError::Copies { .. }
            | SizingError::Disk { .. } => "correct this value",
            SizingError::DataDisksOfMirror { .. } => "remove it",
            SizingError::TooManyDisks { .. } => "check the mailboxes and the disk",
            SizingError::LargeMailbox { .. } => "raise databases.largest or lower mailboxes.quota",
            SizingError::SlowDisk { .. } => "use a faster disk or raise the latency",
            SizingError::TooManyDatabases { .. } => "use larger databases",
            SizingError::NoIo => "raise mailboxes.messages_per_day",
            SizingError::NotFinite { .. } => "check the configuration for errors",
            _ => return None,
        }))
    }
}
