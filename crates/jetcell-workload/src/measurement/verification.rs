//! What the verification after the load found.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What reading everything again has found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Verification {
    /// Databases and logs.
    pub files: Vec<FileVerification>,
    /// How long it took.
    pub seconds: f64,
}

/// One verified file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FileVerification {
    /// The file.
    pub path: PathBuf,
    /// Pages or log segments read.
    pub blocks: u64,
    /// Those that are damaged.
    pub bad: u64,
    /// Those with one wrong bit, which was corrected in memory.
    pub repaired: u64,
    /// What is wrong, one line each; only the first ones of many.
    pub findings: Vec<String>,
}
