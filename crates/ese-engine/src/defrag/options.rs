//! Settings of an online defragmentation.

use jetcell_sync::Arc;

use crate::Result;
use crate::pace::Throttle;
use crate::scan::ScanTurn;
use crate::window::MaintenanceWindow;

/// Operation that an online defragmentation performs on the leaves of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DefragKind {
    /// Merges sparse leaves in all trees, from the last leaf of a tree to the first. ESE: version 1.
    #[default]
    Compaction,
    /// Moves leaves to consecutive pages, in trees where they are scattered, from the first leaf to the last, and
    /// merges sparse leaves. ESE: version 2.
    #[doc(alias = "OLD2")]
    SequentialLayout,
}

/// Settings of an online defragmentation.
#[derive(Clone, Default)]
pub struct DefragOptions {
    /// Kind of the defragmentation. One of each kind can run at the same time.
    pub kind: DefragKind,
    /// Maximum speed. A step processes 32 leaves, and `bytes_per_second` counts each of them as a page read.
    pub throttle: Throttle,
    /// Whether records move to the next page even if not all records of a page fit there. This frees more pages, and
    /// changes far more pages. ESE: not `JET_bitDefragmentNoPartialMerges`, which Exchange 2007 SP1 sets.
    #[doc(alias = "JET_bitDefragmentNoPartialMerges")]
    pub partial_merges: bool,
    /// Whether the state is stored in the database. If so, a later defragmentation resumes the pass.
    pub keep_progress: bool,
    /// Whether the defragmentation ends after one pass. Otherwise, passes start at least an hour apart, as in ESE.
    pub single_pass: bool,
    /// Time window in which the defragmentation may run. Outside this window, the pass is interrupted. `None`: at any
    /// time.
    pub window: Option<MaintenanceWindow>,
    /// Turn that several databases can share. Only one of these databases is processed at a time.
    pub turn: Option<Arc<ScanTurn>>,
}

impl DefragOptions {
    /// Validates the settings.
    ///
    /// # Errors
    /// [`crate::Error::Usage`] if a setting is invalid.
    pub fn check(&self) -> Result<()> {
        self.throttle.check()
    }
}
