//! What happened to a passive copy, apart from its pages.

use std::path::PathBuf;

use ese_format::PageNumber;

/// What happened to a passive copy.
#[derive(Clone, Debug, PartialEq)]
pub enum CopyEvent {
    /// The log that is being written comes as it is written. ESE has no event for that.
    BlockModeBegan {
        /// Its generation.
        generation: u32,
    },
    /// Logs come when they are closed.
    BlockModeEnded {
        /// Why.
        what: String,
    },
    /// A log was not taken into the copy: it is not there (518), is damaged (552), or continues other content (543).
    LogRefused {
        /// Its generation.
        generation: u32,
        /// ESE's number of the error.
        error: i32,
        /// The error in words, and what to do.
        what: String,
    },
    /// The copy cannot go on now; the active side does.
    Waiting {
        /// Why.
        what: String,
    },
    /// It goes on.
    Continued,
    /// 334: an incremental reseed has patched the pages of a database.
    Patched {
        /// The database.
        database: PathBuf,
        /// Pages that were patched.
        pages: u64,
        /// The first and the last of them.
        range: Option<(PageNumber, PageNumber)>,
        /// How long that took.
        seconds: f64,
    },
    /// The copy cannot follow any more.
    Unfit {
        /// Why, and what to do.
        what: String,
    },
    /// The active side keeps no logs for the copy any more: it is too far behind.
    CutOff {
        /// The generation that the copy needs.
        needs: u32,
        /// How many generations a copy may lack.
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
