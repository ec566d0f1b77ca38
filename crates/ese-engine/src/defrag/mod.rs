//! Online defragmentation of an open database, tree by tree.
//!
//! A compaction processes the leaves of a tree from the last to the first. It merges leaves with their neighbours and
//! returns empty pages to their trees. ESE: `OLD`, version 1.
//!
//! A sequential layout processes the leaves from the first to the last, in trees that wait in a queue. It moves
//! leaves to consecutive pages. ESE: `OLD2`.
//!
//! Invariants:
//! - A step is bounded: it processes at most [`LEAVES_PER_STEP`](defragmentation::LEAVES_PER_STEP) leaves. Cleanup is
//!   paused during a step and therefore cannot remove the tree that is being processed.
//! - Each merge and each move is one logged group ([`crate::pages::merge`], [`crate::pages::page_move`]). Redo and
//!   copies of the database therefore repeat it. The data that a snapshot sees does not change.
//! - A damaged page is skipped, together with the pairs of leaves that need it. After any other failure, the step is
//!   retried.
//! - An interrupted pass resumes at its stored state, in the table `MSysDefrag2` or `MSysOLD2`.

mod defragmentation;
mod layout_queue;
mod options;
mod state;

pub(crate) use self::defragmentation::Defragmentation;
pub use self::options::{DefragKind, DefragOptions};
pub use self::state::DefragProgress;
pub(crate) use self::state::{DefragKeeper, DefragPosition, DefragState, QueuedTree};
