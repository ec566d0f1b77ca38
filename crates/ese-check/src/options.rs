//! Options of a check: what to check, how fast, and where to report progress and findings.

use std::fmt;
use std::sync::Arc;
use std::thread;

use ese_format::PageNumber;
use jetcell_host::{Cancellation, Rate};

use crate::findings::finding::FindingFn;

/// Callback that receives the progress of a check. It is called frequently, always from the same thread.
pub type CheckProgressFn = dyn Fn(CheckProgress) + Send + Sync;

/// Phase of a database check: checking pages, or checking the structure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CheckPhase {
    /// The check verifies every page.
    Pages,
    /// The check walks the trees.
    Structure,
}

/// Progress of a check: its current phase, the work done, and the total work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CheckProgress {
    /// Current phase.
    pub phase: CheckPhase,
    /// Number of pages completed in [`CheckPhase::Pages`], or tables completed in [`CheckPhase::Structure`].
    pub done: u64,
    /// Total number of pages in [`CheckPhase::Pages`], or of tables in [`CheckPhase::Structure`].
    pub total: u64,
}

/// Options for checking a database.
#[derive(Clone)]
pub struct CheckOptions {
    /// Whether every page is verified.
    pub pages: bool,
    /// Whether the trees are walked.
    pub structure: bool,
    /// Callback that receives the progress.
    pub progress: Option<Arc<CheckProgressFn>>,
    /// Callback that receives each finding as soon as it is complete, including findings that the report does not
    /// list.
    pub sink: Option<Arc<FindingFn>>,
    /// Number of threads that check pages, up to eight. `None` means one thread per processor.
    pub threads: Option<usize>,
    /// Limit on the read rate.
    pub throttle: Option<Rate>,
    /// Handle that cancels the check.
    pub cancel: Cancellation,
    /// First page to verify.
    pub start_page: PageNumber,
    /// Whether to report leaked pages as errors. Windows leaves some leaked pages in sound databases, and users do
    /// not need to do anything about them. An engine that guarantees not to leak pages should set this option.
    pub leaks_are_errors: bool,
}

/// Maximum number of threads used by a check. With more threads, memory bandwidth or the walk itself becomes the
/// bottleneck.
const MAX_THREADS: usize = 8;

/// Returns the number of threads to use, given the requested number.
pub(crate) fn thread_count(asked: Option<usize>) -> usize {
    let processors = || thread::available_parallelism().map_or(1, usize::from);
    asked.unwrap_or_else(processors).clamp(1, MAX_THREADS)
}

impl Default for CheckOptions {
    /// Returns options that verify pages and structure without reporting progress.
    fn default() -> CheckOptions {
        CheckOptions {
            pages: true,
            structure: true,
            progress: None,
            sink: None,
            threads: None,
            throttle: None,
            cancel: Cancellation::default(),
            start_page: PageNumber::fixed(1),
            leaks_are_errors: true,
        }
    }
}

impl fmt::Debug for CheckOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckOptions")
            .field("pages", &self.pages)
            .field("structure", &self.structure)
            .field("throttle", &self.throttle)
            .field("from", &self.start_page)
            .finish_non_exhaustive()
    }
}
