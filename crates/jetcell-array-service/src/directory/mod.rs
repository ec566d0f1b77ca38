//! The directory of an array, which lists the array's members.
//!
//! ```text
//! DIR/array.toml      identity of the array, paths of its members, of former members and of the write log, model of
//!                     simulated drives
//! DIR/events.jsonl    events of the array
//! DIR/write-log       the write log, unless it is elsewhere
//! ```
//!
//! The superblocks of the members define the array. `array.toml` only lists paths to scan for superblocks, so it may
//! contain files that are not members, or no longer are. A crash between a change to the array and the update of this
//! file is therefore harmless.

mod claim;
mod event_log;
mod lost_files;
mod state_file;
#[cfg(test)]
mod tests;

pub(crate) use self::event_log::{ArrayEventSeverity, ArrayFiles};
pub(crate) use self::state_file::absolute;
pub use self::state_file::{ArrayDirectory, find_locked_member, is_array};
