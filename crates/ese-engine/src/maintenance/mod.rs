//! Background work on an instance's databases: history cleanup, checkpoints and undo.
//!
//! All work is done in bounded steps. Threads repeat the steps, or a simulation calls them.

pub(crate) mod checkpoint;
pub(crate) mod cleanup;
mod transaction_host;
