//! Online defragmentation of an open database, tree by tree.
//!
//! A compaction processes the leaves of each tree from last to first, merging leaves with their neighbours and
//! returning empty pages to the tree. ESE: `OLD`, version 1.
//!
//! A sequential layout takes trees from a queue and processes their leaves from first to last, moving them to
//! consecutive pages. ESE: `OLD2`.
//!
//! Invariants:
//! - A step is bounded: it processes at most [`LEAVES_PER_STEP`](defrag_pass::LEAVES_PER_STEP) leaves. Cleanup is
//!   paused during a step and therefore cannot remove the tree that is being processed.
//! - Each merge and each move is one logged group ([`crate::pages::merge`], [`crate::pages::page_move`]). It is
//!   therefore repeated by redo and on database copies. The data that a snapshot sees does not change.
//! - A damaged page is skipped, together with the pairs of leaves that involve it. After any other failure, the step
//!   is retried.
//! - An interrupted pass resumes from its stored state in the table `MSysDefrag2` or `MSysOLD2`.

mod defrag_pass;
mod layout_queue;
mod options;
mod state;

pub(crate) use self::defrag_pass::DefragPass;
pub use self::options::{DefragKind, DefragOptions};
pub use self::state::DefragProgress;
pub(crate) use self::state::{DefragPosition, DefragState, QueuedTree};
