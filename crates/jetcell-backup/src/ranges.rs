//! Range checksums of a file: one XXH3 checksum for every 4 MiB. A range is the unit of verification, and a restore
//! can leave a correct range unchanged.

use std::hash::Hasher;
use std::io;
use std::path::Path;

use jetcell_sync::Arc;
use jetcell_vfs::{File, IoBuffer, IoReason};
use twox_hash::XxHash3_64;

use crate::error::{BackupError, Result};

/// Size of a range in bytes.
pub const RANGE_BYTES: usize = 4 << 20;
/// Number of hexadecimal digits in a checksum.
const CHECKSUM_DIGITS: usize = 16;

/// Checksums of a file's ranges, in file order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeChecksums(pub Vec<u64>);

impl RangeChecksums {
    /// Formats the checksums as text, with 16 hexadecimal digits for each range.
    pub fn to_text(&self) -> String {
        self.0.iter().map(|sum| jetcell_input::hex::hex64(*sum)).collect()
    }

    /// Parses the text form. Returns `None` if the text is invalid.
    pub fn from_text(text: &str) -> Option<RangeChecksums> {
        let digits = text.as_bytes().chunks(CHECKSUM_DIGITS);
        let sum = |digits: &[u8]| {
            let text = std::str::from_utf8(digits).ok().filter(|text| text.len() == CHECKSUM_DIGITS);
            text.and_then(jetcell_input::hex::parse_hex64)
        };
        digits.map(sum).collect::<Option<Vec<u64>>>().map(RangeChecksums)
    }

    /// Returns true if a file that is `bytes` long has this number of ranges.
    pub fn fits(&self, bytes: u64) -> bool {
        self.0.len() as u64 == bytes.div_ceil(RANGE_BYTES as u64)
    }
}

/// Returns the checksum of a range's bytes.
pub fn range_checksum(bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot(bytes)
}

/// A writer that computes the [`range_checksum`] of all bytes written to it.
#[derive(Default)]
pub struct ChecksumWriter(XxHash3_64);

impl ChecksumWriter {
    /// Returns the checksum of all bytes written so far.
    pub fn finish(&self) -> u64 {
        self.0.finish()
    }
}

impl io::Write for ChecksumWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the offset and length of range `index` in a file that is `bytes` long.
pub fn range_bounds(index: usize, bytes: u64) -> (u64, usize) {
    let at = index as u64 * RANGE_BYTES as u64;
    (at, bytes.saturating_sub(at).min(RANGE_BYTES as u64) as usize)
}

/// Computes a file's range checksums from consecutive chunks.
#[derive(Default)]
pub struct RangeHasher {
    range: Vec<u8>,
    sums: RangeChecksums,
}

impl RangeHasher {
    /// Adds the next bytes of the file.
    pub fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(RANGE_BYTES - self.range.len()));
            self.range.extend_from_slice(now);
            bytes = later;
            if self.range.len() == RANGE_BYTES {
                self.sums.0.push(range_checksum(&self.range));
                self.range.clear();
            }
        }
    }

    /// Returns the number of bytes added so far.
    pub fn position(&self) -> u64 {
        self.sums.0.len() as u64 * RANGE_BYTES as u64 + self.range.len() as u64
    }

    /// Returns the length of the file and its range checksums.
    pub fn finish(mut self) -> (u64, RangeChecksums) {
        let bytes = self.position();
        if !self.range.is_empty() {
            self.sums.0.push(range_checksum(&self.range));
        }
        (bytes, self.sums)
    }
}

/// Writes a file from start to end, one range at a time.
///
/// The first range is kept in memory until the end, because it contains the database header, which is not known until
/// then. Until then, the file has zeros in its place.
pub struct RangeWriter {
    file: Arc<dyn File>,
    /// The range being filled, and its offset in the file.
    range: IoBuffer,
    at: u64,
    filled: usize,
    first: Option<IoBuffer>,
    sums: RangeChecksums,
}

impl RangeWriter {
    /// Creates a writer that starts at the beginning of the file.
    pub fn new(file: Arc<dyn File>) -> RangeWriter {
        let (range, sums) = (IoBuffer::zeroed(RANGE_BYTES), RangeChecksums::default());
        RangeWriter { file, range, at: 0, filled: 0, first: None, sums }
    }

    /// Continues a file whose first ranges are already written. `sums` are their checksums, and `first` contains the
    /// bytes of the first range.
    pub fn resume(file: Arc<dyn File>, sums: RangeChecksums, first: IoBuffer) -> RangeWriter {
        let at = sums.0.len() as u64 * RANGE_BYTES as u64;
        RangeWriter { file, range: IoBuffer::zeroed(RANGE_BYTES), at, filled: 0, first: Some(first), sums }
    }

    /// Returns the offset at which the next byte is written.
    pub fn position(&self) -> u64 {
        self.at + self.filled as u64
    }

    /// Returns the checksums of the complete ranges. The first checksum changes when the header is written.
    pub fn sums(&self) -> &RangeChecksums {
        &self.sums
    }

    /// Appends bytes.
    pub fn push(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(RANGE_BYTES - self.filled));
            self.range[self.filled..self.filled + now.len()].copy_from_slice(now);
            self.filled += now.len();
            bytes = later;
            if self.filled == RANGE_BYTES {
                self.end_range()?;
            }
        }
        Ok(())
    }

    fn end_range(&mut self) -> Result<()> {
        let filled = &self.range[..self.filled];
        self.sums.0.push(range_checksum(filled));
        self.file.write_at(self.at, filled, IoReason::Backup).map_err(|e| failed(&*self.file, &e))?;
        if self.at == 0 {
            let mut first = IoBuffer::zeroed(self.filled);
            first.copy_from_slice(filled);
            self.first = Some(first);
        }
        self.at += self.filled as u64;
        self.filled = 0;
        Ok(())
    }

    /// Makes all written bytes durable.
    pub fn sync(&self) -> Result<()> {
        self.file.sync(IoReason::Backup).map_err(|e| failed(&*self.file, &e))
    }

    /// Completes the file: makes everything else durable, then writes `head` over the start. Returns the length and
    /// the checksums.
    pub fn finish(mut self, head: &[u8]) -> Result<(u64, RangeChecksums)> {
        if self.filled > 0 {
            self.end_range()?;
        }
        self.sync()?;
        let Some(mut first) = self.first else { return Ok((self.at, self.sums)) };
        if !head.is_empty() && head.len() <= first.len() {
            first[..head.len()].copy_from_slice(head);
            let mut start = IoBuffer::zeroed(head.len());
            start.copy_from_slice(head);
            self.file.write_at(0, &start, IoReason::Backup).map_err(|e| failed(&*self.file, &e))?;
            self.file.sync(IoReason::Backup).map_err(|e| failed(&*self.file, &e))?;
            if let Some(sum) = self.sums.0.first_mut() {
                *sum = range_checksum(&first);
            }
        }
        Ok((self.at, self.sums))
    }
}

fn failed(file: &dyn File, error: &std::io::Error) -> BackupError {
    BackupError::io(file.path(), error)
}

/// Reads a range into `buffer` and verifies its checksum. Returns `false` if the checksum does not match.
pub fn read_range(
    file: &dyn File,
    path: &Path,
    (at, len): (u64, usize),
    sum: u64,
    buffer: &mut IoBuffer,
) -> Result<bool> {
    buffer.resize(len);
    file.read_at(at, buffer, IoReason::Backup).map_err(|e| BackupError::io(path, &e))?;
    Ok(range_checksum(buffer) == sum)
}

#[cfg(test)]
mod tests {
    use jetcell_vfs::{OpenMode, SimVfs, Vfs};

    use super::*;

    #[test]
    fn range_checksums_round_trip_as_text_and_reject_invalid_text() {
        let sums = RangeChecksums(vec![0, 1, u64::MAX]);
        assert_eq!(RangeChecksums::from_text(&sums.to_text()), Some(sums));
        assert_eq!(RangeChecksums::from_text(""), Some(RangeChecksums::default()));
        for wrong in ["0", "00000000000000zz", "+000000000000001", "00000000000000001"] {
            assert_eq!(RangeChecksums::from_text(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_range_writer_checksums_ranges_and_writes_the_head_last() {
        let disk = SimVfs::new();
        let path = Path::new("/file");
        let content: Vec<u8> = (0..RANGE_BYTES * 2 + 12288).map(|i| (i / 4096 * 7 + i) as u8).collect();
        let mut writer = RangeWriter::new(disk.open(path, OpenMode::CreateNew).unwrap());
        writer.push(&[0; 8192]).unwrap();
        for piece in content[8192..].chunks(65536) {
            writer.push(piece).unwrap();
        }
        assert_eq!(writer.position(), content.len() as u64);
        let before = disk.contents(path).unwrap();
        assert!(before[..8192].iter().all(|byte| *byte == 0));
        let (bytes, sums) = writer.finish(&content[..8192]).unwrap();
        assert_eq!((bytes, disk.contents(path).unwrap() == content), (content.len() as u64, true));
        let expected: Vec<u64> = content.chunks(RANGE_BYTES).map(range_checksum).collect();
        let mut summer = RangeHasher::default();
        content.chunks(77_777).for_each(|piece| summer.push(piece));
        assert_eq!(summer.finish(), (bytes, RangeChecksums(expected.clone())));
        assert!(sums.0 == expected && sums.fits(bytes));
        let file = disk.open(path, OpenMode::Read).unwrap();
        let mut buffer = IoBuffer::zeroed(RANGE_BYTES);
        for (index, sum) in sums.0.iter().enumerate() {
            assert!(read_range(&*file, path, range_bounds(index, bytes), *sum, &mut buffer).unwrap());
            assert!(!read_range(&*file, path, range_bounds(index, bytes), sum ^ 1, &mut buffer).unwrap());
        }
    }
}
