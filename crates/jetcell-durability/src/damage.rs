//! Ways in which an operation can be damaged.

use serde::{Deserialize, Serialize};

/// Kind of damage to an operation that should have been durable after a completed sync.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OperationDamage {
    /// The operation and all later operations are missing.
    Lost,
    /// Only part of the operation is present.
    Torn,
    /// The operation is missing although a later operation is present.
    Reordered,
    /// The location that the operation wrote cannot be read, or contains data that no operation wrote there.
    Unreadable,
}
