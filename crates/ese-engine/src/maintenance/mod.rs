//! Background work on the databases of an instance: removing history, moving the checkpoint, taking changes back.
//!
//! Each piece of work is a bounded step, which a thread repeats or a simulation calls.

pub(crate) mod checkpoint;
pub(crate) mod cleanup;
mod transaction_host;
