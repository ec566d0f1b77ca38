//! Events and reports for operations that return space to the file system.

/// Result of shrinking a database file ([`Instance::shrink`](crate::Instance::shrink)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShrinkReport {
    /// Number of pages that trees returned to the database root before the operation.
    pub released: u64,
    /// File length in pages before the operation.
    pub pages_before: u64,
    /// File length in pages after the operation.
    pub pages_after: u64,
    /// Page size in bytes.
    pub page_bytes: u64,
    /// Duration in milliseconds.
    pub milliseconds: u64,
}

/// Result of returning free pages to the file system ([`Instance::trim`](crate::Instance::trim)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrimReport {
    /// Number of pages that trees returned to the database root before the operation.
    pub released: u64,
    /// Number of holes that were punched.
    pub holes: u64,
    /// Number of pages in these holes.
    pub pages: u64,
    /// Page size in bytes.
    pub page_bytes: u64,
}

/// An event reported while a database's free space is returned to the file system.
#[derive(Clone, Debug, PartialEq)]
pub enum SpaceEvent {
    /// 740: free space inside the file is being returned.
    TrimStarted,
    /// 741: free space inside the file was returned.
    Trimmed(TrimReport),
    /// 742: the file contains no free space to return.
    NothingToTrim,
    /// 743: returning free space inside the file failed.
    TrimFailed {
        /// ESE's error code.
        error: i32,
        /// Description of the error.
        what: String,
    },
    /// 748: the available pages at the end of the file were removed.
    Shrunk(ShrinkReport),
    /// 749: removing the end of the file failed.
    ShrinkFailed {
        /// ESE's error code.
        error: i32,
        /// Description of the error.
        what: String,
    },
}

impl SpaceEvent {
    pub(super) fn name(&self) -> &'static str {
        match self {
            SpaceEvent::TrimStarted => "trim_started",
            SpaceEvent::Trimmed(_) => "trim_completed",
            SpaceEvent::NothingToTrim => "nothing_to_trim",
            SpaceEvent::TrimFailed { .. } => "trim_failed",
            SpaceEvent::Shrunk(_) => "shrink_completed",
            SpaceEvent::ShrinkFailed { .. } => "shrink_failed",
        }
    }
}
