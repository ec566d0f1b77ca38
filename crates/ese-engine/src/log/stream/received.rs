//! A stream that another engine writes. Its generations arrive as files and are replayed. Nothing is appended to it.

use ese_format::LogPosition;
use ese_format::log::header::{LogHeader, SEGMENT_BYTES};
use jetcell_sync::Arc;
use jetcell_sync::atomic::Ordering;
use jetcell_vfs::File;

use super::LogStream;
use crate::InstanceFailure;
use crate::log::LogStreamOptions;

impl LogStream {
    /// Creates a stream whose first received file has this header. No position in it counts as durable before
    /// [`LogStream::receive`].
    pub(crate) fn received(options: LogStreamOptions, header: &LogHeader, file: Arc<dyn File>) -> LogStream {
        let options =
            LogStreamOptions { file_size: u32::from(header.file_segments) * SEGMENT_BYTES as u32, ..options };
        let start = LogPosition { generation: header.generation, segment: 1, offset: 0 };
        let mut log = LogStream::at(options, header.signature, file, start, header.created);
        log.received = true;
        // This makes every append fail, and also every write that needs an append.
        let _ = log.down.set(InstanceFailure::ReplayOnly);
        log
    }

    /// Returns whether another engine writes the stream.
    pub(crate) fn is_received(&self) -> bool {
        self.received
    }

    /// Records that the stream is stored up to `upto`. This is at or before the end of the records in the generation
    /// with this header.
    pub(crate) fn receive(&self, upto: LogPosition, header: &LogHeader) {
        debug_assert!(self.received);
        self.files.lock().named = (header.generation, header.created);
        self.tail.fetch_max(upto.to_u64(), Ordering::AcqRel);
        self.durable.fetch_max(upto.to_u64(), Ordering::AcqRel);
    }
}
