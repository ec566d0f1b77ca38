//! Counters of a running backup.

use serde::{Deserialize, Serialize};

/// Backup progress for one database.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BackupCounters {
    /// Bytes of pages that were read and verified.
    pub bytes: u64,
    /// Number of pages read.
    pub pages: u64,
    /// Number of pages that were read again, because a write was in progress or the page appeared damaged.
    pub read_again: u64,
    /// Number of pages with flipped bits. The flipped bits are corrected in the backup.
    pub corrected: u64,
    /// Number of damaged pages.
    pub bad: u64,
    /// First findings, one line each.
    pub findings: Vec<String>,
}
