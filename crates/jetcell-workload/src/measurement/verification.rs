//! The results of a verification.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The verification of databases and logs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Verification {
    /// Databases and logs.
    pub files: Vec<FileVerification>,
    /// Time of the verification in seconds.
    pub seconds: f64,
}

/// One verified file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FileVerification {
    /// The file.
    pub path: PathBuf,
    /// Pages or log segments read.
    pub blocks: u64,
    /// Damaged pages or segments.
    pub bad: u64,
    /// Pages or segments with one wrong bit, which was corrected in memory.
    pub repaired: u64,
    /// The first findings, one line each.
    pub findings: Vec<String>,
}
