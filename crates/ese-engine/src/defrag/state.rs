//! What an online defragmentation has done, and where it is.

use ese_format::TreeId;

use crate::Result;
use crate::events::DefragReport;

/// Progress since the database was attached.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DefragProgress {
    /// Whether it is running.
    pub running: bool,
    /// Passes that reached the end of the database.
    pub passes: u64,
    /// Leaves visited.
    pub pages_visited: u64,
    /// Pages freed.
    pub pages_freed: u64,
    /// Merges that moved a part of a page.
    pub partial_merges: u64,
    /// The tree that is being defragmented.
    pub tree: Option<TreeId>,
    /// The pass that is running, or the last one.
    pub pass: DefragReport,
    /// Damaged pages and trees that were skipped.
    pub skipped: u64,
    /// Why the last step failed, if it did. It is tried again.
    pub failure: Option<String>,
}

/// A place in a pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DefragPosition {
    /// All trees with smaller ids are done.
    pub tree: TreeId,
    /// The part of the tree from this key on is done; empty: nothing is.
    pub key: Vec<u8>,
}

/// What is stored: the sums of all passes, and the pass that was interrupted. ESE: the record of `MSysDefrag2`.
#[doc(alias = "MSysDefrag2")]
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct DefragState {
    /// The pass so far, with the sums of the passes that were completed before.
    pub pass: DefragReport,
    /// Where the pass goes on. `None`: it is complete.
    pub position: Option<DefragPosition>,
}

/// Stores the state in the database.
pub(crate) trait DefragKeeper: Send + Sync {
    /// What was stored last.
    fn load(&self) -> Result<Option<DefragState>>;
    /// Stores the state.
    fn save(&self, state: &DefragState) -> Result<()>;
}
