//! Bad pages that a manifest lists.

use serde::{Deserialize, Serialize};

/// A page in a backup that could not be read or whose checksum is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredBadPage {
    /// Page number.
    pub page: u32,
    /// Description of the damage.
    pub flaw: String,
}
