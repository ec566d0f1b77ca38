//! Settings of an online defragmentation.

use jetcell_sync::Arc;

use crate::Result;
use crate::pace::Throttle;
use crate::scan::ScanTurn;
use crate::window::MaintenanceWindow;

/// What an online defragmentation does with the leaves of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DefragKind {
    /// Merges sparse ones, in all trees, from the last one to the first one. ESE: version 1.
    #[default]
    Compaction,
    /// Moves them to consecutive pages, in trees where they are scattered, from the first one to the last one, and merges sparse
    /// ones. ESE: version 2.
    #[doc(alias = "OLD2")]
    SequentialLayout,
}

/// Settings of an online defragmentation.
#[derive(Clone, Default)]
pub struct DefragOptions {
    /// What it does. One of each kind can run at the same time.
    pub kind: DefragKind,
    /// How fast it may work. A step looks at 32 leaves; `bytes_per_second` counts each of them as a page read.
    pub throttle: Throttle,
    /// Whether records move to the next page if not all of a page fit there. Frees more, and changes far more pages. ESE:
    /// not `JET_bitDefragmentNoPartialMerges`, which Exchange 2007 SP1 sets.
    #[doc(alias = "JET_bitDefragmentNoPartialMerges")]
    pub partial_merges: bool,
    /// Whether the state is stored in the database, so that a later defragmentation resumes the pass.
    pub keep_progress: bool,
    /// Whether it ends after one pass. Otherwise a pass begins at least an hour after the one before, as in ESE.
    pub single_pass: bool,
    /// When it may run. Outside, the pass is interrupted. `None`: at any time.
    pub window: Option<MaintenanceWindow>,
    /// Databases with the same turn are worked on one at a time.
    pub turn: Option<Arc<ScanTurn>>,
}

impl DefragOptions {
    /// Checks the settings.
    ///
    /// # Errors
    /// [`crate::Error::Usage`] if one is impossible.
    pub fn check(&self) -> Result<()> {
        self.throttle.check()
    }
}
