//! Settings for online defragmentation.

use jetcell_sync::Arc;

use crate::Result;
use crate::task::{MaintenanceThrottle, MaintenanceTurn, MaintenanceWindow, TaskSchedule};

/// How online defragmentation rearranges a tree's leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DefragKind {
    /// Merges sparse leaves in all trees, from the last leaf of each tree to the first. ESE: version 1.
    #[default]
    Compaction,
    /// Moves the leaves of scattered trees to consecutive pages, from the first leaf to the last, and merges sparse
    /// leaves. ESE: version 2.
    #[doc(alias = "OLD2")]
    SequentialLayout,
}

/// Settings for online defragmentation.
#[derive(Clone, Default)]
pub struct DefragOptions {
    /// Kind of defragmentation. One defragmentation of each kind can run at a time.
    pub kind: DefragKind,
    /// Maximum speed. A step processes 32 leaves, each of which counts as one page read towards `bytes_per_second`.
    pub throttle: MaintenanceThrottle,
    /// Whether records are moved to the next page even if not all of a page's records fit there. This frees more
    /// pages but also changes far more of them. ESE: the opposite of `JET_bitDefragmentNoPartialMerges`, which
    /// Exchange 2007 SP1 sets.
    #[doc(alias = "JET_bitDefragmentNoPartialMerges")]
    pub partial_merges: bool,
    /// Whether the state is stored in the database, so that a later defragmentation can resume the pass.
    pub keep_progress: bool,
    /// Whether the defragmentation ends after one pass. Otherwise, passes start at least an hour apart, as in ESE.
    pub single_pass: bool,
    /// Time window in which the defragmentation may run; outside it, the pass is interrupted. `None` means at any
    /// time.
    pub window: Option<MaintenanceWindow>,
    /// Turn shared with other databases, if any. Only one of the databases that share it is processed at a time.
    pub turn: Option<Arc<MaintenanceTurn>>,
}

impl DefragOptions {
    /// Validates the settings.
    ///
    /// # Errors
    /// Returns [`crate::Error::Usage`] if a setting is invalid.
    pub fn check(&self) -> Result<()> {
        self.throttle.check()
    }

    pub(crate) fn schedule(&self) -> TaskSchedule {
        TaskSchedule {
            throttle: self.throttle.clone(),
            window: self.window,
            turn: self.turn.clone(),
            single_pass: self.single_pass,
        }
    }
}
