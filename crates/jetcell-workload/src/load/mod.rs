//! The mail load: which operations it does, what its records contain, and the threads that run it.

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
