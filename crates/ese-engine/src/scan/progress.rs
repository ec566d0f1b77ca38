//! What a scan has done and found.

use std::collections::BTreeMap;
use std::fmt;

use ese_format::PageNumber;

use crate::events::PassReport;

/// Maximum number of findings kept, one per page. Further bad pages are only counted.
pub const FINDINGS_KEPT: usize = 1000;

/// What is wrong with a page on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageFlaw {
    /// Single flipped bits, which the checksum locates: `8 * byte + bit`. Reading the page corrects them in memory.
    FlippedBits(Vec<u32>),
    /// A valid page, but another one. ESE: -1118.
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
            PageFlaw::WrongPage(stored) => write!(f, "holds page {stored} (-1118)"),
            PageFlaw::Checksum => f.write_str("wrong checksum (-1018)"),
            PageFlaw::Unreadable(why) => write!(f, "cannot be read: {why} (-1022)"),
        }
    }
}

/// Progress of a scan, in all its passes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScanProgress {
    /// Whether the scan is running.
    pub running: bool,
    /// Passes that reached the end of the file.
    pub passes: u64,
    /// Number of batches read.
    pub reads: u64,
    /// Number of bytes read.
    pub bytes: u64,
    /// Number of pages read.
    pub pages: u64,
    /// Number of pages of zeros among them.
    pub uninitialized: u64,
    /// Number of pages that were read again because they looked wrong at first.
    pub examined_again: u64,
    /// Number of bad pages, counted once per pass, including pages with flipped bits.
    pub bad: u64,
    /// Of these, pages with flipped bits only, which are corrected whenever the page is read.
    pub corrected: u64,
    /// Number of pages that were overwritten in part or whole.
    pub zeroed: u64,
    /// The last page read in this pass; `None` before the first read.
    pub position: Option<PageNumber>,
    /// Start of the pass, in milliseconds since 1970 UTC.
    pub pass_began: Option<i64>,
    /// End of the previous pass.
    pub last_pass_ended: Option<i64>,
    /// The pass that is running, or the last one.
    pub pass: PassReport,
    /// Why the last step failed, if it did. The scan tries again.
    pub failure: Option<String>,
    /// Findings by page; the first [`FINDINGS_KEPT`].
    pub findings: BTreeMap<PageNumber, PageFlaw>,
}
