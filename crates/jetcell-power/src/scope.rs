//! The scope of a meter: the equipment whose power it measures.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Equipment that a meter measures. The energy covers the whole scope and cannot be attributed to a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// A single drive.
    Drive,
    /// An enclosure or array of drives.
    Enclosure,
    /// A complete machine including its drives.
    Server,
    /// Processor packages and memory, without drives.
    Processor,
}

impl Scope {
    const ALL: [Scope; 4] = [Scope::Drive, Scope::Enclosure, Scope::Server, Scope::Processor];

    /// Returns the name used in logs and options.
    pub fn name(self) -> &'static str {
        match self {
            Scope::Drive => "drive",
            Scope::Enclosure => "enclosure",
            Scope::Server => "server",
            Scope::Processor => "processor",
        }
    }

    /// Returns true if this scope includes only drives.
    pub fn is_storage(self) -> bool {
        matches!(self, Scope::Drive | Scope::Enclosure)
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Scope::Drive => "the drive",
            Scope::Enclosure => "the enclosure of the drives",
            Scope::Server => "the whole server",
            Scope::Processor => "processor and memory, without drives",
        })
    }
}

impl FromStr for Scope {
    type Err = String;

    fn from_str(text: &str) -> Result<Scope, String> {
        let found = Scope::ALL.into_iter().find(|scope| scope.name() == text);
        found.ok_or_else(|| format!("\"{text}\" is not a scope; write drive, enclosure, server or processor"))
    }
}
