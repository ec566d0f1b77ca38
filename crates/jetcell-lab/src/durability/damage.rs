//! What can become of an operation.

use serde::{Deserialize, Serialize};

/// What became of an operation that a completed sync had covered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Damage {
    /// Nothing of it is there, nor of any later operation.
    Lost,
    /// A part of it is there.
    Torn,
    /// It is missing, and a later operation is there.
    Reordered,
    /// Its place has what no operation wrote there, or cannot be read.
    Unreadable,
}
