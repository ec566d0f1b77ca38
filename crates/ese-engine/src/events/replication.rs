//! Events of a passive copy, except events about its pages.

use std::path::PathBuf;

use ese_format::PageNumber;

/// An event reported for a passive database copy.
#[derive(Clone, Debug, PartialEq)]
pub enum CopyEvent {
    /// The copy now receives the current log as it is written. ESE has no event for this.
    BlockModeBegan {
        /// Generation of the current log.
        generation: u32,
    },
    /// The copy now receives logs only after they are closed.
    BlockModeEnded {
        /// Reason for the change.
        what: String,
    },
    /// A log was not added to the copy because it does not exist (518), is damaged (552), or does not continue the
    /// copy's log (543).
    LogRefused {
        /// Generation of the refused log.
        generation: u32,
        /// ESE's error code.
        error: i32,
        /// Description of the error, and what to do.
        what: String,
    },
    /// The copy cannot continue for now; the active side is not affected.
    Waiting {
        /// Reason for the wait.
        what: String,
    },
    /// The copy continues after a wait.
    Continued,
    /// 334: an incremental reseed has patched pages of a database.
    Patched {
        /// Path of the database file.
        database: PathBuf,
        /// Number of pages that were patched.
        pages: u64,
        /// First and last patched pages.
        range: Option<(PageNumber, PageNumber)>,
        /// Duration of the reseed in seconds.
        seconds: f64,
    },
    /// The copy can no longer follow the active side.
    Unfit {
        /// Description of the reason, and what to do.
        what: String,
    },
    /// The active side no longer retains logs for the copy, because the copy lags too far.
    CutOff {
        /// Oldest generation that the copy needs.
        needs: u32,
        /// Maximum number of generations that a copy may lag.
        limit: u32,
    },
}

impl CopyEvent {
    pub(super) fn name(&self) -> &'static str {
        match self {
            CopyEvent::BlockModeBegan { .. } => "block_mode_began",
            CopyEvent::BlockModeEnded { .. } => "block_mode_ended",
            CopyEvent::LogRefused { .. } => "log_refused",
            CopyEvent::Waiting { .. } => "copy_waiting",
            CopyEvent::Continued => "copy_continued",
            CopyEvent::Patched { .. } => "copy_patched",
            CopyEvent::Unfit { .. } => "copy_unfit",
            CopyEvent::CutOff { .. } => "copy_cut_off",
        }
    }
}
