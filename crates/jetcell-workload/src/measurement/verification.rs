//! Results of a verification.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Result of verifying databases and logs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VerificationResult {
    /// Results for each database and log directory.
    pub files: Vec<FileVerification>,
    /// Duration of the verification in seconds.
    pub seconds: f64,
}

/// Result of verifying one file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FileVerification {
    /// Path of the file.
    #[serde(serialize_with = "jetcell_input::serialize_path")]
    pub path: PathBuf,
    /// Number of pages or log segments read.
    pub blocks: u64,
    /// Number of damaged pages or segments.
    pub bad: u64,
    /// Number of pages with flipped bits, which were corrected in memory.
    pub repaired: u64,
    /// Number of pages whose last write never reached the device, according to the flush map.
    #[serde(default)]
    pub lost_writes: u64,
    /// First findings, one line each.
    pub findings: Vec<String>,
}
