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
    /// Leaves that moved to other pages.
    pub pages_moved: u64,
    /// Trees that wait for a sequential layout, with the one in progress.
    pub queued: u64,
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
    /// The part of the tree from this key on is done, or in a sequential layout the part before it; empty: nothing is.
    pub key: Vec<u8>,
}

/// A tree that waits for a sequential layout. ESE: a record of `MSysOLD2`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct QueuedTree {
    pub table: TreeId,
    pub tree: TreeId,
    /// When work on it began, in milliseconds since 1970 UTC. `None`: it has not.
    pub began_unix_ms: Option<i64>,
    pub updated_unix_ms: i64,
    pub pages_visited: u64,
    pub pages_freed: u64,
    pub partial_merges: u64,
    pub pages_moved: u64,
    /// The part of the tree before this key is done.
    pub key: Vec<u8>,
}

/// What is stored. For a compaction the sums of all passes, and the pass that was interrupted: the record of `MSysDefrag2`. For
/// a sequential layout the queue: the records of `MSysOLD2`.
#[doc(alias = "MSysDefrag2")]
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct DefragState {
    /// The pass so far, with the sums of the passes that were completed before.
    pub pass: DefragReport,
    /// Where the pass goes on. `None`: it is complete.
    pub position: Option<DefragPosition>,
    /// The trees that wait for a sequential layout, by id. The pass is in the first one.
    pub queue: Vec<QueuedTree>,
}

/// Stores the state in the database.
pub(crate) trait DefragKeeper: Send + Sync {
    /// What was stored last.
    fn load(&self) -> Result<Option<DefragState>>;
    /// Stores the state.
    fn save(&self, state: &DefragState) -> Result<()>;
}
