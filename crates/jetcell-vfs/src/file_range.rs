//! A part of a file, presented as a file of its own.

use std::io;
use std::sync::Arc;

use crate::{File, FileLayer, IoReason, Transfer, TransferKind};

/// A read-only view of a range of a file, such as a database in an image of a disk.
pub struct FileRange {
    inner: Arc<dyn File>,
    start: u64,
    len: u64,
}

impl FileRange {
    /// Returns a view of `len` bytes starting at `start`. If `len` is `None`, the view extends to the end of the
    /// file.
    ///
    /// # Errors
    /// Returns an error if the file ends before the end of the range.
    pub fn new(inner: Arc<dyn File>, start: u64, len: Option<u64>) -> io::Result<FileRange> {
        let file = inner.len()?;
        let rest = file.checked_sub(start);
        match rest.filter(|rest| len.is_none_or(|len| len <= *rest)) {
            Some(rest) => Ok(FileRange { inner, start, len: len.unwrap_or(rest) }),
            None => {
                let what = format!("the file has only {file} bytes, so it does not contain the range");
                Err(io::Error::new(io::ErrorKind::InvalidInput, what))
            }
        }
    }

    /// Converts an offset in the range to an offset in the file. Fails if `len` bytes at this offset exceed the
    /// range.
    fn offset_in_file(&self, offset: u64, len: usize) -> io::Result<u64> {
        let end = offset.checked_add(len as u64);
        let inside = end.is_some_and(|end| end <= self.len);
        inside.then(|| self.start + offset).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}

fn read_only() -> io::Error {
    io::ErrorKind::ReadOnlyFilesystem.into()
}

impl FileLayer for FileRange {
    fn inner(&self) -> &dyn File {
        &*self.inner
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8], reason: IoReason) -> io::Result<()> {
        self.inner.read_at(self.offset_in_file(offset, buffer.len())?, buffer, reason)
    }
    fn write_at(&self, _: u64, _: &[u8], _: IoReason) -> io::Result<()> {
        Err(read_only())
    }
    fn submit(&self, batch: Vec<Transfer>) {
        let mut moved = Vec::with_capacity(batch.len());
        for transfer in batch {
            let offset = match transfer.kind {
                TransferKind::Read => self.offset_in_file(transfer.offset, transfer.buffer.len()),
                TransferKind::Write => Err(read_only()),
            };
            match offset {
                Ok(offset) => moved.push(Transfer { offset, ..transfer }),
                Err(error) => (transfer.done)(Err(error), transfer.buffer),
            }
        }
        self.inner.submit(moved);
    }
    fn len(&self) -> io::Result<u64> {
        Ok(self.len)
    }
    fn next_data(&self, offset: u64) -> io::Result<u64> {
        let at = self.inner.next_data(self.start.saturating_add(offset.min(self.len)))?;
        Ok(at.saturating_sub(self.start).min(self.len))
    }
    fn grow(&self, _: u64) -> io::Result<()> {
        Err(read_only())
    }
    fn truncate(&self, _: u64) -> io::Result<()> {
        Err(read_only())
    }
    fn punch_hole(&self, _: u64, _: u64) -> io::Result<()> {
        Err(read_only())
    }
    fn reserve(&self, _: u64, _: u64) -> io::Result<()> {
        Err(read_only())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Mutex;

    use super::*;
    use crate::{IoBuffer, OpenMode, SimVfs, Vfs};

    const PATH: &str = "/image";

    fn image() -> Arc<dyn File> {
        let disk = SimVfs::new();
        let bytes: Vec<u8> = (0..16 * 1024u32).map(|at| (at / 1024) as u8).collect();
        disk.put(Path::new(PATH), &bytes);
        disk.open(Path::new(PATH), OpenMode::Read).unwrap()
    }

    fn kind<T>(result: io::Result<T>) -> io::ErrorKind {
        result.err().expect("an error").kind()
    }

    #[test]
    fn a_range_is_read_as_a_file_and_not_beyond_its_end() {
        let range = FileRange::new(image(), 4096, Some(8192)).unwrap();
        let file: &dyn File = &range;
        assert_eq!(file.len().unwrap(), 8192);
        let mut buffer = IoBuffer::zeroed(4096);
        file.read_at(4096, &mut buffer, IoReason::Verify).unwrap();
        assert_eq!((buffer[0], buffer[4095]), (8, 11));
        for offset in [4097, 8192, u64::MAX] {
            let read = file.read_at(offset, &mut buffer, IoReason::Verify);
            assert_eq!(kind(read), io::ErrorKind::UnexpectedEof);
        }
        assert_eq!(file.next_data(9000).unwrap(), 8192);
        let results = Arc::new(Mutex::new(Vec::new()));
        let transfer = |kind, offset| {
            let results = results.clone();
            Transfer {
                kind,
                offset,
                buffer: IoBuffer::zeroed(4096),
                reason: IoReason::Verify,
                done: Box::new(move |result, buffer| {
                    results.lock().unwrap().push((offset, result.map_err(|error| error.kind()), buffer[0]));
                }),
            }
        };
        file.submit(vec![
            transfer(TransferKind::Read, 0),
            transfer(TransferKind::Read, 8192),
            transfer(TransferKind::Write, 4096),
        ]);
        let mut results = results.lock().unwrap().clone();
        results.sort_by_key(|result| result.0);
        let expected = [
            (0, Ok(()), 4),
            (4096, Err(io::ErrorKind::ReadOnlyFilesystem), 0),
            (8192, Err(io::ErrorKind::UnexpectedEof), 0),
        ];
        assert_eq!(results, expected);
    }

    #[test]
    fn a_range_is_inside_the_file_and_read_only() {
        assert_eq!(FileRange::new(image(), 12288, None).unwrap().len, 4096);
        assert_eq!(FileRange::new(image(), 16384, None).unwrap().len, 0);
        for (start, len) in [(16385, None), (4096, Some(12289)), (u64::MAX, Some(u64::MAX))] {
            assert_eq!(kind(FileRange::new(image(), start, len)), io::ErrorKind::InvalidInput);
        }
        let range = FileRange::new(image(), 0, None).unwrap();
        let file: &dyn File = &range;
        assert_eq!(kind(file.write_at(0, &[0; 4096], IoReason::Verify)), io::ErrorKind::ReadOnlyFilesystem);
        assert_eq!(kind(file.truncate(0)), io::ErrorKind::ReadOnlyFilesystem);
    }
}
