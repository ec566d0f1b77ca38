//! Recovery: commits that a crash interrupted, and blocks that are lost or damaged.

mod journal_replay;
mod repair;

pub(in crate::array) use self::journal_replay::JournalReplay;
