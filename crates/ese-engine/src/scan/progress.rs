//! Progress and findings of a scan.

use std::collections::BTreeMap;
use std::fmt;

use ese_format::PageNumber;

use crate::events::PassReport;
use crate::task::{TaskProgress, TaskStatus};

/// Maximum number of pages whose findings are stored. Additional bad pages are only counted.
pub const MAX_FINDINGS: usize = 1000;

/// Kind of damage to a page on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageFlaw {
    /// Single flipped bits, which the checksum identifies. Each bit is given as `8 * byte + bit`. Reading the page
    /// corrects them in memory.
    FlippedBits(Vec<u32>),
    /// The page is valid, but is a different page. ESE: -1118.
    WrongPage(u32),
    /// The checksum is wrong and cannot be corrected. ESE: -1018.
    Checksum,
    /// The device reports an error for the page. ESE: -1022.
    Unreadable(String),
}

impl fmt::Display for PageFlaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PageFlaw::FlippedBits(bits) => {
                let bits: Vec<String> = bits.iter().map(|bit| format!("{}.{}", bit / 8, bit % 8)).collect();
                write!(f, "flipped bits at byte.bit {}", bits.join(", "))
            }
            PageFlaw::WrongPage(stored) => write!(f, "contains page {stored} (-1118)"),
            PageFlaw::Checksum => f.write_str("wrong checksum (-1018)"),
            PageFlaw::Unreadable(why) => write!(f, "cannot be read: {why} (-1022)"),
        }
    }
}

/// Progress of a scan across all its passes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScanProgress {
    /// Whether the scan is running.
    pub running: bool,
    /// Number of passes that reached the end of the file.
    pub passes: u64,
    /// Number of batches read.
    pub reads: u64,
    /// Number of bytes read.
    pub bytes: u64,
    /// Number of pages read.
    pub pages: u64,
    /// Number of pages that were read and are all zeros.
    pub uninitialized: u64,
    /// Number of pages that were reread because they seemed damaged in the first read.
    pub examined_again: u64,
    /// Number of bad pages, including pages with flipped bits. Each page is counted once per pass.
    pub bad: u64,
    /// Number of bad pages that have only flipped bits. The bits are corrected whenever the page is read.
    pub corrected: u64,
    /// Number of pages that were partly or completely overwritten.
    pub zeroed: u64,
    /// Last page read in this pass; `None` before the first read.
    pub position: Option<PageNumber>,
    /// Start time of the pass, in milliseconds since 1970 UTC.
    pub pass_began: Option<i64>,
    /// End time of the previous pass, in milliseconds since 1970 UTC.
    pub last_pass_ended: Option<i64>,
    /// Report on the current pass, or on the last one if no pass is running.
    pub pass: PassReport,
    /// Error from the last step, if it failed. The scan retries the step.
    pub failure: Option<String>,
    /// Damage found on the first 1,000 bad pages.
    pub findings: BTreeMap<PageNumber, PageFlaw>,
}

impl TaskProgress for ScanProgress {
    fn status(&mut self) -> TaskStatus<'_> {
        TaskStatus { running: &mut self.running, failure: &mut self.failure }
    }
}
