//! What to check, how fast, and where progress and findings go.

use std::fmt;
use std::sync::Arc;

use ese_format::PageNumber;

use crate::finding::FindingFn;
use crate::pace::{Cancel, Throttle};

/// Called as the check advances; from one thread, often.
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
    /// What it is doing.
    pub phase: Phase,
    /// Pages (phase [`Phase::Pages`]) or trees done.
    pub done: u64,
    /// Of how many.
    pub total: u64,
}

/// What to check.
#[derive(Clone)]
pub struct CheckOptions {
    /// Verify every page.
    pub pages: bool,
    /// Walk the trees.
    pub structure: bool,
    /// Told about progress.
    pub progress: Option<Arc<ProgressFn>>,
    /// Gets every finding as soon as it is complete, however many there are.
    pub sink: Option<Arc<FindingFn>>,
    /// How fast to read.
    pub throttle: Option<Throttle>,
    /// Ends the check early.
    pub cancel: Cancel,
    /// First page to verify.
    pub from: PageNumber,
}

impl Default for CheckOptions {
    /// Everything, silently.
    fn default() -> CheckOptions {
        CheckOptions {
            pages: true,
            structure: true,
            progress: None,
            sink: None,
            throttle: None,
            cancel: Cancel::default(),
            from: PageNumber::fixed(1),
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
