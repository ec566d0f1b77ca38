//! Kinds of damage to an operation.

use serde::{Deserialize, Serialize};

/// Damage to an operation that a completed sync had covered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Damage {
    /// The operation and all later operations are missing.
    Lost,
    /// Only a part of the operation is present.
    Torn,
    /// The operation is missing although a later operation is present.
    Reordered,
    /// The location of the operation contains data that no operation wrote there, or cannot be read.
    Unreadable,
}
