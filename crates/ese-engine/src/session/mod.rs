//! Sessions: what one thread of a program does, in transactions.

mod active;

pub(crate) use active::Done;
pub use active::{ActiveTransaction, MAX_LEVEL};
