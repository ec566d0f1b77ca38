//! Sessions: what one thread of a program does, in transactions.

mod active;
mod number;
#[allow(clippy::module_inception, reason = "files are named by the noun they define")]
mod session;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use active::Done;
pub use active::{ActiveTransaction, MAX_LEVEL};
pub(crate) use number::SessionNumbers;
pub(crate) use session::SessionId;
pub use session::{CommitId, CommitMode, Session};
