//! Online defragmentation of an open database, tree by tree. A compaction goes from the last leaf to the first one: leaves are
//! merged with their neighbours, and pages that become empty return to their trees. ESE: `OLD`, version 1. A sequential layout
//! goes from the first leaf to the last one, in trees that wait in a queue: leaves move to consecutive pages. ESE: `OLD2`.
//!
//! Invariants:
//! - A step is bounded: it looks at [`LEAVES_PER_STEP`](defragmentation::LEAVES_PER_STEP) leaves. Cleanup does not run meanwhile,
//!   so that no tree is removed under the step.
//! - Each merge, and each move, is one logged group ([`crate::pages::merge`], [`crate::pages::page_move`]), so redo and copies of the database get it. What a snapshot sees
//!   stays.
//! - A damaged page is skipped, with the pairs of leaves that need it. Any other failure is repeated.
//! - A pass that was interrupted resumes where its state was stored, in the table `MSysDefrag2`, or `MSysOLD2`.

mod defragmentation;
mod layout_queue;
mod options;
mod state;

pub(crate) use self::defragmentation::Defragmentation;
pub use self::options::{DefragKind, DefragOptions};
pub use self::state::DefragProgress;
pub(crate) use self::state::{DefragKeeper, DefragPosition, DefragState, QueuedTree};
