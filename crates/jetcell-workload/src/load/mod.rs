//! The mail load: its operations, the content of its records, and its threads.

mod fill;
mod generator;
mod load_schedule;
mod record;
mod stream;
mod thread_assignment;
mod threads;

pub(crate) use fill::fill;
pub(crate) use generator::LoadOperationKind;
#[cfg(test)]
pub(crate) use record::{TableLocation, fill_operation, row, verify};
pub(crate) use threads::DatabaseLoad;
