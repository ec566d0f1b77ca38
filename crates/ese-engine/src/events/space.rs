//! What happened when space was returned to the file system.

/// What [`Instance::shrink`](crate::Instance::shrink) did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShrinkReport {
    /// Pages that trees returned to the root of the database before.
    pub released: u64,
    /// Pages of the file before.
    pub pages_before: u64,
    /// Pages of the file afterwards.
    pub pages_after: u64,
    /// Page size in bytes.
    pub page_bytes: u64,
    /// Milliseconds that it took.
    pub milliseconds: u64,
}

/// What [`Instance::trim`](crate::Instance::trim) did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrimReport {
    /// Pages that trees returned to the root of the database before.
    pub released: u64,
    /// Holes that were punched.
    pub holes: u64,
    /// Their pages.
    pub pages: u64,
    /// Page size in bytes.
    pub page_bytes: u64,
}

/// What happened when the free space of a database was returned to the file system.
#[derive(Clone, Debug, PartialEq)]
pub enum SpaceEvent {
    /// 740: free space inside of the file is being returned.
    TrimStarted,
    /// 741: it was.
    Trimmed(TrimReport),
    /// 742: there was none.
    NothingToTrim,
    /// 743.
    TrimFailed {
        /// ESE's number of the error.
        error: i32,
        /// The error in words.
        what: String,
    },
    /// 748: the end of the file was cut off, as far as it was available.
    Shrunk(ShrinkReport),
    /// 749.
    ShrinkFailed {
        /// ESE's number of the error.
        error: i32,
        /// The error in words.
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
