//! What to check, how fast, and where progress and findings go.

use std::fmt;
use std::sync::Arc;
use std::thread;

use ese_format::PageNumber;
use jetcell_vfs::Cancel;

use crate::finding::FindingFn;
use crate::pace::Throttle;

/// Receives the progress of a check. The check calls it often, always from one thread.
pub type ProgressFn = dyn Fn(Progress) + Send + Sync;

/// What a check is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Verifying every page.
    Pages,
    /// Walking the trees.
    Structure,
}

/// How far a check has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// The current phase.
    pub phase: Phase,
    /// Pages done in [`Phase::Pages`], tables done in [`Phase::Structure`].
    pub done: u64,
    /// How many there are in all.
    pub total: u64,
}

/// What to check.
#[derive(Clone)]
pub struct CheckOptions {
    /// Verify every page.
    pub pages: bool,
    /// Walk the trees.
    pub structure: bool,
    /// Receives the progress.
    pub progress: Option<Arc<ProgressFn>>,
    /// Receives each finding as soon as it is complete, also those that a report does not list.
    pub sink: Option<Arc<FindingFn>>,
    /// Threads that judge pages: at most eight. `None`: one for each processor.
    pub threads: Option<usize>,
    /// Limit on the read rate.
    pub throttle: Option<Throttle>,
    /// Ends the check early.
    pub cancel: Cancel,
    /// First page to verify.
    pub from: PageNumber,
    /// Report leaked pages as errors. Windows leaves some behind in sound databases, so a user need not act on them; an
    /// engine that promises to leak none wants to know.
    pub leaks_are_errors: bool,
}

/// Most threads of a check. With more, memory bandwidth or the walk itself is the limit.
const MAX_THREADS: usize = 8;

/// The number of threads for a number that was asked for.
pub(crate) fn threads_of(asked: Option<usize>) -> usize {
    let processors = || thread::available_parallelism().map_or(1, usize::from);
    asked.unwrap_or_else(processors).clamp(1, MAX_THREADS)
}

impl Default for CheckOptions {
    /// Verifies pages and structure, without progress.
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
