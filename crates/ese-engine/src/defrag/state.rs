//! Results and position of online defragmentation.

use ese_format::TreeId;

use crate::events::DefragReport;
use crate::task::{TaskProgress, TaskStatus};

/// Progress of online defragmentation since the database was attached.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DefragProgress {
    /// Whether defragmentation is running.
    pub running: bool,
    /// Number of passes that reached the end of the database.
    pub passes: u64,
    /// Number of leaves visited.
    pub pages_visited: u64,
    /// Number of pages freed.
    pub pages_freed: u64,
    /// Number of merges that moved only part of a page.
    pub partial_merges: u64,
    /// Number of leaves that moved to other pages.
    pub pages_moved: u64,
    /// Number of trees waiting for a sequential layout, including the tree in progress.
    pub queued: u64,
    /// The tree that is being defragmented.
    pub tree: Option<TreeId>,
    /// Report on the current pass, or on the last one if none is running.
    pub pass: DefragReport,
    /// Number of damaged pages and trees that were skipped.
    pub skipped: u64,
    /// Reason why the last step failed, or `None` if it succeeded. A failed step is retried.
    pub failure: Option<String>,
}

impl TaskProgress for DefragProgress {
    fn status(&mut self) -> TaskStatus<'_> {
        TaskStatus { running: &mut self.running, failure: &mut self.failure }
    }
}

/// A position within a defragmentation pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DefragPosition {
    /// The current tree. All trees with smaller ids are done.
    pub tree: TreeId,
    /// Key that separates the processed part of the tree from the rest. A compaction has processed the keys from this
    /// key on, a sequential layout the keys before it. If it is empty, nothing has been processed yet.
    pub key: Vec<u8>,
}

/// A tree that is waiting for a sequential layout. ESE: a record of `MSysOLD2`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct QueuedTree {
    pub table: TreeId,
    pub tree: TreeId,
    /// Time at which work on the tree started, in milliseconds since 1970 UTC. `None`: work has not started.
    pub began_unix_ms: Option<i64>,
    pub updated_unix_ms: i64,
    pub pages_visited: u64,
    pub pages_freed: u64,
    pub partial_merges: u64,
    pub pages_moved: u64,
    /// Key up to which the tree has been processed.
    pub key: Vec<u8>,
}

/// The defragmentation state that is stored in the database.
///
/// For a compaction, it consists of the totals over all passes and the interrupted pass, in the record of
/// `MSysDefrag2`. For a sequential layout, it consists of the queue, in the records of `MSysOLD2`.
#[doc(alias = "MSysDefrag2")]
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct DefragState {
    /// Report on the current pass so far, including the totals over earlier complete passes.
    pub pass: DefragReport,
    /// Position at which the pass resumes. `None` if no pass is in progress.
    pub position: Option<DefragPosition>,
    /// Trees waiting for a sequential layout, sorted by id. The first tree is the one in progress.
    pub queue: Vec<QueuedTree>,
}
