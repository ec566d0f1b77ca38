//! The mail load: its operations, the content of its records, and its threads.

mod fill;
mod generator;
mod pace;
mod record;
mod stream;
mod threads;
mod turns;

pub(crate) use fill::fill;
pub(crate) use generator::OperationKind;
#[cfg(test)]
pub(crate) use record::{Place, filling, row, verify};
pub(crate) use threads::Load;
