//! Options of a check: what to check, at which rate, and where to report progress and findings.

use std::fmt;
use std::sync::Arc;
use std::thread;

use ese_format::PageNumber;
use jetcell_vfs::Cancel;

use crate::finding::FindingFn;
use crate::pace::Throttle;

/// Callback that receives the progress of a check. The check calls it frequently, always from the same thread.
pub type ProgressFn = dyn Fn(Progress) + Send + Sync;

/// Phase of a check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// The check verifies every page.
    Pages,
    /// The check walks the trees.
    Structure,
}

/// Progress of a check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Current phase.
    pub phase: Phase,
    /// Number of pages completed in [`Phase::Pages`], or tables completed in [`Phase::Structure`].
    pub done: u64,
    /// Total number of pages or tables.
    pub total: u64,
}

/// Options of a check.
#[derive(Clone)]
pub struct CheckOptions {
    /// Whether every page is verified.
    pub pages: bool,
    /// Whether the trees are walked.
    pub structure: bool,
    /// Callback that receives the progress.
    pub progress: Option<Arc<ProgressFn>>,
    /// Callback that receives each finding as soon as it is complete, including findings that the report does not
    /// list.
    pub sink: Option<Arc<FindingFn>>,
    /// Number of threads that check pages, at most eight. `None` means one thread per processor.
    pub threads: Option<usize>,
    /// Limit on the read rate.
    pub throttle: Option<Throttle>,
    /// Handle that cancels the check.
    pub cancel: Cancel,
    /// First page to verify.
    pub from: PageNumber,
    /// Whether leaked pages are reported as errors. Windows leaves some leaked pages in sound databases, which do not
    /// require any action by a user. An engine that guarantees not to leak pages needs these errors.
    pub leaks_are_errors: bool,
}

/// Maximum number of threads of a check. With more threads, memory bandwidth or the walk itself is the bottleneck.
const MAX_THREADS: usize = 8;

/// Returns the number of threads to use for a requested number.
pub(crate) fn threads_of(asked: Option<usize>) -> usize {
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
            cancel: Cancel::default(),
            from: PageNumber::fixed(1),
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
            .field("from", &self.from)
            .finish_non_exhaustive()
    }
}
