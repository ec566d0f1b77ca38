//! The write-ahead log: ESE's v8 container, written and read.
//!
//! Lock order: `files`, then `state`; neither is held across a write of records.

mod batch;
mod buffer;
mod checkpoint_file;
mod generation;
mod name;
mod reader;
#[cfg(test)]
mod reader_tests;
#[cfg(all(test, shuttle))]
mod schedules;
mod stream;
#[cfg(test)]
mod tests;
mod writer;

pub use batch::RecordBatch;
pub use checkpoint_file::CheckpointFile;
pub use name::LogNames;
pub(crate) use reader::RecordReads;
pub use reader::{LogReader, LogTail, StoredRecord};
pub use stream::{Appended, LogCounters, LogListener, LogOptions, LogStream};
