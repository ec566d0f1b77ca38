//! The scope of a meter: the equipment whose power it measures.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The equipment that a power meter measures. The energy covers the whole scope and cannot be attributed to a part of
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MeterScope {
    /// A single drive.
    Drive,
    /// An enclosure or array of drives.
    Enclosure,
    /// A complete machine including its drives.
    Server,
    /// Processor packages and memory, without drives.
    Processor,
}

impl MeterScope {
    const ALL: [MeterScope; 4] =
        [MeterScope::Drive, MeterScope::Enclosure, MeterScope::Server, MeterScope::Processor];

    /// Returns the name used in logs and options.
    pub fn name(self) -> &'static str {
        match self {
            MeterScope::Drive => "drive",
            MeterScope::Enclosure => "enclosure",
            MeterScope::Server => "server",
            MeterScope::Processor => "processor",
        }
    }

    /// Returns true if this scope includes only drives.
    pub fn is_storage(self) -> bool {
        matches!(self, MeterScope::Drive | MeterScope::Enclosure)
    }
}

impl fmt::Display for MeterScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MeterScope::Drive => "the drive",
            MeterScope::Enclosure => "the enclosure of the drives",
            MeterScope::Server => "the whole server",
            MeterScope::Processor => "processor and memory, without drives",
        })
    }
}

/// Error for text that is not the name of a scope.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("\"{name}\" is not a valid scope")]
pub struct UnknownScope {
    /// The text.
    pub name: String,
}

/// Advice for text that is not the name of a scope.
pub(crate) const SCOPE_ADVICE: &str = "use drive, enclosure, server or processor";

impl UnknownScope {
    /// Returns what the user can do about the error.
    pub fn advice(&self) -> Option<Cow<'static, str>> {
        Some(SCOPE_ADVICE.into())
    }
}

impl FromStr for MeterScope {
    type Err = UnknownScope;

    fn from_str(text: &str) -> Result<MeterScope, UnknownScope> {
        let found = MeterScope::ALL.into_iter().find(|scope| scope.name() == text);
        found.ok_or_else(|| UnknownScope { name: text.into() })
    }
}
