//! The write-ahead log: reads and writes ESE's v8 log format.
//!
//! Lock order: `files`, then `state`. No lock is held while records are written, except that a freeze holds `files`.

mod checkpoint_file;
mod copy_registration;
mod group_commit;
mod log_file;
mod log_holds;
mod log_names;
mod log_options;
mod reader;
mod record_batch;
#[cfg(all(test, shuttle))]
mod schedule_tests;
mod segment_buffer;
mod stream;
#[cfg(test)]
mod tests;
mod transaction_numbers;

pub use checkpoint_file::CheckpointFile;
pub use copy_registration::CopyRegistration;
pub(crate) use copy_registration::copy_file_name;
pub use log_holds::LogHold;
pub use log_names::{LogNameFormat, LogNames};
pub use log_options::{LogCounters, LogListener, LogStreamOptions};
pub(crate) use reader::{LogChain, ReceivedLog, RecordReads};
pub use reader::{LogReader, LogTail, PositionedRecord};
pub use record_batch::RecordBatch;
pub use stream::LogStream;
pub(crate) use stream::WakeCallback;
pub use transaction_numbers::TransactionNumbers;
