//! Reads a scan's batches. While the pages of one batch are verified, the next batch can be read.

use std::io;
use std::time::Duration;

use ese_format::PageNumber;
use jetcell_sync::Arc;
use jetcell_sync::mpsc::{Receiver, channel};
use jetcell_vfs::{File, IoBuffer, IoReason, Transfer, TransferKind};

use crate::cache::PageReadResult;
use crate::storage::DatabaseFile;

/// Minimum length of a pause during which a scan releases its buffers.
const BUFFER_RELEASE_PAUSE: Duration = Duration::from_millis(20);

/// A batch of pages, given by its first page, its file offset, and its length in bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct PageBatch {
    pub first: PageNumber,
    pub offset: u64,
    pub len: usize,
}

/// Source from which batches of pages are read.
pub(super) enum BatchSource {
    /// Reads the file directly, bypassing the cache. The pages may be stale.
    File(Arc<dyn File>),
    /// Reads through the cache, because the scan will change pages.
    Cache(Arc<DatabaseFile>),
}

/// Reads batches from one file, with at most one read-ahead.
pub(super) struct BatchReader {
    source: BatchSource,
    ahead: Option<(PageBatch, Receiver<PageReadResult>)>,
    spare: Vec<IoBuffer>,
}

impl BatchReader {
    pub fn new(source: BatchSource) -> BatchReader {
        BatchReader { source, ahead: None, spare: Vec::new() }
    }

    /// Reads a batch. An error means that at least part of the batch could not be read.
    pub fn read(&mut self, batch: PageBatch) -> PageReadResult {
        let ahead = self.ahead.take().filter(|(ahead, _)| *ahead == batch);
        if let Some((_, done)) = ahead
            && let Ok(read) = done.recv()
        {
            return read;
        }
        if let BatchSource::File(file) = &self.source {
            let file = file.clone();
            let mut buffer = self.buffer(batch.len);
            let result = file.read_at(batch.offset, &mut buffer, IoReason::Scan);
            return (result, buffer, Vec::new());
        }
        let lost = |_| (Err(io::ErrorKind::BrokenPipe.into()), IoBuffer::zeroed(batch.len), Vec::new());
        self.start(batch).recv().unwrap_or_else(lost)
    }

    /// Starts to read the batch that will be requested next.
    pub fn read_ahead(&mut self, batch: PageBatch) {
        let done = self.start(batch);
        self.ahead = Some((batch, done));
    }

    fn start(&mut self, batch: PageBatch) -> Receiver<PageReadResult> {
        let (sender, done) = channel();
        let buffer = self.buffer(batch.len);
        // Sending fails only if the batch is never requested.
        let send = move |read| drop(sender.send(read));
        match &self.source {
            BatchSource::File(file) => file.submit(vec![Transfer {
                kind: TransferKind::Read,
                offset: batch.offset,
                buffer,
                reason: IoReason::Scan,
                done: Box::new(move |result, buffer| send((result, buffer, Vec::new()))),
            }]),
            BatchSource::Cache(file) => {
                let first = file.page_key(batch.first);
                // Operations that bypass the cache may write pages beyond this limit.
                file.cache.read_through(first, file.unsettled.until(), buffer, send);
            }
        }
        done
    }

    /// Discards a batch that was read ahead, because it may be out of date when it is requested.
    pub fn forget(&mut self) {
        self.ahead = None;
    }

    /// Frees the buffers if the pause is long, because many databases may be scanned at once.
    pub fn release_for(&mut self, pause: Duration) {
        if pause >= BUFFER_RELEASE_PAUSE {
            self.spare.clear();
        }
    }

    /// Returns a batch's buffer to the pool.
    pub fn recycle(&mut self, buffer: IoBuffer) {
        self.spare.push(buffer);
    }

    fn buffer(&mut self, len: usize) -> IoBuffer {
        let spare = self.spare.pop().filter(|spare| spare.capacity() >= len);
        let mut buffer = spare.unwrap_or_else(|| IoBuffer::zeroed(len));
        buffer.resize(len);
        buffer
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use jetcell_vfs::{CountedVfs, IoOperation, OpenMode, SimVfs, Vfs};

    use super::*;

    #[test]
    fn a_prefetched_batch_is_used_once_at_the_matching_position() {
        let path = Path::new("/file");
        let disk = SimVfs::new();
        let counted = CountedVfs::new(Arc::new(disk.clone()));
        disk.put(path, &[[1; 4096], [2; 4096]].concat());
        let mut reader = BatchReader::new(BatchSource::File(counted.open(path, OpenMode::Read).unwrap()));
        let batch = |page: u32| PageBatch {
            first: PageNumber::fixed(page),
            offset: u64::from(page - 1) * 4096,
            len: 4096,
        };
        let [first, second] = [1, 2].map(batch);
        let reads = || counted.snapshot().get(IoReason::Scan, IoOperation::Read).operations;
        let byte = |reader: &mut BatchReader, batch| {
            let (result, bytes, _) = reader.read(batch);
            assert!(result.is_ok() && bytes.len() == 4096);
            let byte = bytes[0];
            reader.recycle(bytes);
            byte
        };
        reader.read_ahead(second);
        assert_eq!((byte(&mut reader, second), reads()), (2, 1));
        reader.read_ahead(second);
        assert_eq!((byte(&mut reader, first), reads()), (1, 3));
        reader.read_ahead(second);
        disk.corrupt(path, 4096, &[3; 4096]).unwrap();
        reader.forget();
        assert_eq!((byte(&mut reader, second), reads()), (3, 5));
        let (result, bytes, _) = reader.read(batch(3));
        assert!(result.is_err());
        reader.recycle(bytes);
        assert_eq!(reader.spare.len(), 1);
        reader.release_for(BUFFER_RELEASE_PAUSE - Duration::from_nanos(1));
        assert_eq!(reader.spare.len(), 1);
        reader.release_for(BUFFER_RELEASE_PAUSE);
        assert!(reader.spare.is_empty());
    }
}
