//! What a backup has read so far.

use serde::{Deserialize, Serialize};

/// What the backup of one database has done so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BackupCounters {
    /// Bytes of pages that were read and verified.
    pub bytes: u64,
    /// Pages read.
    pub pages: u64,
    /// Pages that were read again, because they were being written or looked wrong.
    pub read_again: u64,
    /// Pages with flipped bits, which are corrected in the backup.
    pub corrected: u64,
    /// Bad pages.
    pub bad: u64,
    /// The first findings, one line each.
    pub findings: Vec<String>,
}
