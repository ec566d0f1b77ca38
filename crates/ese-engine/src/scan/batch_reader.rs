//! Reads the batches of a scan. The next one can be read while the pages of this one are verified.

use std::io;

use jetcell_sync::Arc;
use jetcell_sync::mpsc::{Receiver, channel};
use jetcell_vfs::{File, IoBuffer, IoReason, Transfer, TransferKind};

/// A batch: where it is in the file, and its length in bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Batch {
    pub offset: u64,
    pub len: usize,
}

/// The result of a read, and the bytes.
type Completion = (io::Result<()>, IoBuffer);

/// Reads of one file, at most one ahead.
pub(super) struct BatchReader {
    file: Arc<dyn File>,
    ahead: Option<(Batch, Receiver<Completion>)>,
    spare: Vec<IoBuffer>,
}

impl BatchReader {
    pub fn new(file: Arc<dyn File>) -> BatchReader {
        BatchReader { file, ahead: None, spare: Vec::new() }
    }

    /// The bytes of a batch. `false`: at least a part of them could not be read.
    pub fn read(&mut self, batch: Batch) -> (bool, IoBuffer) {
        if let Some((ahead, done)) = self.ahead.take()
            && ahead == batch
            && let Ok((result, buffer)) = done.recv()
        {
            return (result.is_ok(), buffer);
        }
        let mut buffer = self.buffer(batch.len);
        let result = self.file.read_at(batch.offset, &mut buffer, IoReason::Scan);
        (result.is_ok(), buffer)
    }

    /// Begins to read a batch that will be asked for next.
    pub fn read_ahead(&mut self, batch: Batch) {
        let (sender, done) = channel();
        let transfer = Transfer {
            kind: TransferKind::Read,
            offset: batch.offset,
            buffer: self.buffer(batch.len),
            reason: IoReason::Scan,
            // Sending fails if the batch is not asked for.
            done: Box::new(move |result, buffer| drop(sender.send((result, buffer)))),
        };
        self.ahead = Some((batch, done));
        self.file.submit(vec![transfer]);
    }

    /// Forgets a batch that was read ahead: it can be old by the time it is asked for.
    pub fn forget(&mut self) {
        self.ahead = None;
    }

    /// Takes the memory of a batch back.
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
    fn a_batch_that_was_read_ahead_is_used_once_and_only_for_its_place() {
        let path = Path::new("/file");
        let disk = SimVfs::new();
        let counted = CountedVfs::new(Arc::new(disk.clone()));
        disk.put(path, &[[1; 4096], [2; 4096]].concat());
        let mut reader = BatchReader::new(counted.open(path, OpenMode::Read).unwrap());
        let [first, second] = [0, 4096].map(|offset| Batch { offset, len: 4096 });
        let reads = || counted.snapshot().get(IoReason::Scan, IoOperation::Read).operations;
        let byte = |reader: &mut BatchReader, batch| {
            let (whole, bytes) = reader.read(batch);
            assert!(whole && bytes.len() == 4096);
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
        assert!(!reader.read(Batch { offset: 8192, len: 4096 }).0);
    }
}
