//! Startup: choosing the current members, and completing or discarding what a crash interrupted.

mod assemble;
mod journal_replay;

pub use self::assemble::{ArrayAccess, AssembleOptions};
