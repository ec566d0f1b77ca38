//! The write log: a small file on a fast device, where writes are durable before the next consistency point.
//!
//! ```text
//! block 0      identity: array, and the consistency point after which the log was made
//! behind       records: a header of whole blocks, then the blocks of data. Each record is written and synced by itself
//! ```
//!
//! Records belong to one consistency point. After the next one, the log starts again from its beginning, and what is still there counts no more.

use std::path::Path;

use jetcell_sync::Arc;
use jetcell_vfs::{File, IoBuffer, IoReason, OpenMode, Vfs};
use twox_hash::XxHash3_64;

use super::catalogue::LunId;
use crate::error::{ArrayError, Result};
use crate::geometry::BLOCK;
use crate::shared_block::SharedBlock;

const HEAD_MAGIC: [u8; 8] = *b"JETNVLOG";
const RECORD_MAGIC: [u8; 8] = *b"JETWRITE";
/// Bytes of a record in front of its entries: magic, checksum, array, consistency point, number, entries, blocks of data.
const RECORD_HEAD: usize = 56;
/// Bytes of an entry: LUN, kind, first block, number of blocks.
const ENTRY: usize = 24;
/// Most blocks of data in a record.
const MOST_BLOCKS: usize = 1024;
/// Bytes of the longest record.
const LONGEST: usize = (MOST_BLOCKS + (RECORD_HEAD + MOST_BLOCKS * ENTRY).div_ceil(BLOCK)) * BLOCK;
/// The least size of a log.
pub(super) const LEAST_BYTES: u64 = 1 << 20;

/// Blocks of a LUN that follow each other.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub lun: LunId,
    pub first: u64,
    pub count: u64,
    /// `None`: they were given up.
    pub data: Option<Vec<SharedBlock>>,
}

#[cfg(test)]
impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        let bytes = |entry: &Entry| {
            entry.data.as_ref().map(|data| data.iter().flat_map(|block| block.to_vec()).collect())
        };
        let (one, two): (Option<Vec<u8>>, Option<Vec<u8>>) = (bytes(self), bytes(other));
        (self.lun, self.first, self.count, one) == (other.lun, other.first, other.count, two)
    }
}

pub(super) struct WriteLog {
    file: Arc<dyn File>,
    array: u128,
    bytes: u64,
    /// Where the next record goes.
    at: u64,
    /// The consistency point that the records follow, and the number of the next one.
    point: u64,
    number: u64,
    /// The last record, for its memory.
    buffer: IoBuffer,
}

/// Blocks of the header of a record.
fn header_blocks(entries: usize) -> usize {
    (RECORD_HEAD + entries * ENTRY).div_ceil(BLOCK)
}

impl WriteLog {
    /// Makes the file, or makes it a log of this volume, without records.
    pub fn create(vfs: &dyn Vfs, path: &Path, bytes: u64, array: u128, made: u64) -> Result<WriteLog> {
        let failed = |action| move |error| ArrayError::io(path, action, 0, error);
        if bytes < LEAST_BYTES || !bytes.is_multiple_of(BLOCK as u64) {
            let text = format!("a write log has at least {LEAST_BYTES} bytes, in blocks of {BLOCK}");
            return Err(crate::Refusal::Parameter(text).into());
        }
        let exists = vfs.exists(path).map_err(failed("looking for the write log"))?;
        let mode = if exists { OpenMode::Write } else { OpenMode::CreateNew };
        let file = vfs.open(path, mode).map_err(failed("making the write log"))?;
        let found = file.len().map_err(failed("asking for the length"))?;
        if found > 0 && found < BLOCK as u64 {
            let text = format!("{} holds something else than a write log; give another file", path.display());
            return Err(crate::Refusal::Parameter(text).into());
        }
        if found < bytes {
            file.grow(bytes).map_err(failed("growing the write log"))?;
        }
        let mut head = IoBuffer::zeroed(BLOCK);
        file.read_at(0, &mut head, IoReason::LogRead).map_err(failed("reading"))?;
        if head[..8] != HEAD_MAGIC && head.iter().any(|byte| *byte != 0) {
            let text = format!("{} holds something else than a write log; give another file", path.display());
            return Err(crate::Refusal::Parameter(text).into());
        }
        head.fill(0);
        head[..8].copy_from_slice(&HEAD_MAGIC);
        head[16..32].copy_from_slice(&array.to_le_bytes());
        head[32..40].copy_from_slice(&made.to_le_bytes());
        let sum = XxHash3_64::oneshot(&head[16..]);
        head[8..16].copy_from_slice(&sum.to_le_bytes());
        file.write_at(0, &head, IoReason::LogWrite).map_err(failed("writing"))?;
        file.sync(IoReason::LogWrite).map_err(failed("syncing"))?;
        vfs.sync_directory(jetcell_vfs::parent_directory(path)).map_err(failed("syncing the directory"))?;
        let bytes = file.len().map_err(failed("asking for the length"))?;
        Ok(WriteLog::empty(file, array, bytes))
    }

    /// The same for a volume that had a log: a file that is there keeps its size, and a missing one gets this one.
    pub fn create_again(vfs: &dyn Vfs, path: &Path, bytes: u64, array: u128, made: u64) -> Result<WriteLog> {
        let failed = |error| ArrayError::io(path, "asking for the length", 0, error);
        let length = |exists| if exists { vfs.open(path, OpenMode::Read)?.len() } else { Ok(0) };
        let found = vfs.exists(path).and_then(length).map_err(failed)?;
        let bytes = if found < LEAST_BYTES { bytes } else { found / BLOCK as u64 * BLOCK as u64 };
        WriteLog::create(vfs, path, bytes, array, made)
    }

    /// Removes all records, also those of states that no catalogue describes any more.
    pub fn clear(&mut self) -> Result<()> {
        let zeros = IoBuffer::zeroed(1 << 20);
        for at in (BLOCK as u64..self.bytes).step_by(zeros.len()) {
            let count = zeros.len().min((self.bytes - at) as usize / BLOCK * BLOCK);
            let failed = |error| ArrayError::io(self.file.path(), "writing", at, error);
            self.file.write_at(at, &zeros[..count], IoReason::LogWrite).map_err(failed)?;
        }
        let failed = |error| ArrayError::io(self.file.path(), "syncing", 0, error);
        self.file.sync(IoReason::LogWrite).map_err(failed)
    }

    /// Opens the log that was made for this volume after consistency point `made`.
    ///
    /// # Errors
    /// The file is not there, or is another log.
    pub fn open(vfs: &dyn Vfs, path: &Path, array: u128, made: u64) -> Result<WriteLog> {
        let failed = |action| move |error| ArrayError::io(path, action, 0, error);
        if !vfs.exists(path).map_err(failed("looking for the write log"))? {
            return Err(ArrayError::Luns(format!("{}: the write log is not there", path.display())));
        }
        let file = vfs.open(path, OpenMode::Write).map_err(failed("opening the write log"))?;
        let bytes = file.len().map_err(failed("asking for the length"))? / BLOCK as u64 * BLOCK as u64;
        let mut head = IoBuffer::zeroed(BLOCK);
        if bytes >= LEAST_BYTES {
            file.read_at(0, &mut head, IoReason::LogRead).map_err(failed("reading"))?;
        }
        let is_log = head[..8] == HEAD_MAGIC && head[8..16] == XxHash3_64::oneshot(&head[16..]).to_le_bytes();
        if !is_log || head[16..32] != array.to_le_bytes() || head[32..40] != made.to_le_bytes() {
            return Err(ArrayError::Luns(format!(
                "{}: this is not the write log of the volume",
                path.display()
            )));
        }
        Ok(WriteLog::empty(file, array, bytes))
    }

    fn empty(file: Arc<dyn File>, array: u128, bytes: u64) -> WriteLog {
        let buffer = IoBuffer::zeroed(0);
        WriteLog { file, array, bytes, at: BLOCK as u64, point: 0, number: 0, buffer }
    }

    /// Bytes of the file.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Starts again: records follow this consistency point from now on.
    pub fn restart(&mut self, point: u64) {
        (self.at, self.point, self.number) = (BLOCK as u64, point, 0);
    }

    /// Makes entries durable. Returns false, and does nothing, if they do not fit.
    pub fn append(&mut self, entries: &[Entry]) -> Result<bool> {
        let mut records: Vec<Vec<&Entry>> = vec![];
        let mut blocks = MOST_BLOCKS;
        for entry in entries {
            let more = entry.data.as_ref().map_or(0, Vec::len);
            if blocks + more > MOST_BLOCKS || records.last().is_none_or(|record| record.len() >= MOST_BLOCKS)
            {
                records.push(vec![]);
                blocks = 0;
            }
            blocks += more;
            records.last_mut().expect("just pushed").push(entry);
        }
        let record_bytes = |record: &Vec<&Entry>| {
            let data: usize = record.iter().filter_map(|entry| entry.data.as_ref()).map(Vec::len).sum();
            (header_blocks(record.len()) + data) * BLOCK
        };
        if self.at + records.iter().map(|record| record_bytes(record) as u64).sum::<u64>() > self.bytes {
            return Ok(false);
        }
        for record in &records {
            self.encode(record, record_bytes(record));
            let buffer = &self.buffer;
            let (file, at) = (&self.file, self.at);
            let failed = |action| move |error| ArrayError::io(file.path(), action, at, error);
            self.file.write_at(self.at, buffer, IoReason::LogWrite).map_err(failed("writing"))?;
            // One by one, so that no record is there while an earlier one is not.
            self.file.sync(IoReason::LogWrite).map_err(failed("syncing"))?;
            self.at += buffer.len() as u64;
            self.number += 1;
        }
        Ok(true)
    }

    /// Puts a record of this length into the buffer.
    fn encode(&mut self, entries: &[&Entry], bytes: usize) {
        if self.buffer.capacity() < bytes {
            // Of the longest record: pages that are never written take no memory.
            self.buffer = IoBuffer::zeroed(bytes.max(LONGEST));
        }
        let buffer = &mut self.buffer;
        buffer.resize(bytes);
        let data = header_blocks(entries.len()) * BLOCK;
        buffer[..data].fill(0);
        buffer[..8].copy_from_slice(&RECORD_MAGIC);
        buffer[16..32].copy_from_slice(&self.array.to_le_bytes());
        let counts = (entries.len() as u64) << 32 | ((bytes - data) / BLOCK) as u64;
        for (at, number) in [(32, self.point), (40, self.number), (48, counts)] {
            buffer[at..at + 8].copy_from_slice(&number.to_le_bytes());
        }
        let (mut at, mut data_at) = (RECORD_HEAD, data);
        for entry in entries {
            let kind = u64::from(entry.data.is_some());
            for number in [u64::from(entry.lun) << 32 | kind, entry.first, entry.count] {
                buffer[at..at + 8].copy_from_slice(&number.to_le_bytes());
                at += 8;
            }
            if let Some(data) = &entry.data {
                for block in data {
                    buffer[data_at..data_at + BLOCK].copy_from_slice(block);
                    data_at += BLOCK;
                }
            }
        }
        let sum = XxHash3_64::oneshot(&buffer[16..]);
        buffer[8..16].copy_from_slice(&sum.to_le_bytes());
    }

    /// All entries that follow a consistency point. Records are appended behind them from now on.
    ///
    /// # Errors
    /// The file cannot be read, or a record is damaged in front of others.
    pub fn replay(&mut self, point: u64) -> Result<Vec<Entry>> {
        self.restart(point);
        if let Some(newer) = self.point_at(self.at)?.filter(|newer| *newer > point) {
            let text = format!(
                "{}: the write log follows state {newer} of the LUNs, and the catalogue has {point}: a newer catalogue is damaged",
                self.file.path().display()
            );
            return Err(ArrayError::Luns(text));
        }
        let mut entries = vec![];
        while let Some((number, record, bytes)) = self.read_record(self.at)? {
            if number != self.number {
                break;
            }
            entries.extend(record);
            self.at += bytes;
            self.number += 1;
        }
        // Each record was durable before the next one was written. So a later one behind the end means that something is lost.
        let mut at = self.at;
        while at < self.bytes {
            if let Some((number, ..)) = self.read_record(at)?
                && number >= self.number
            {
                let text =
                    format!("{}: the write log is damaged at byte {}", self.file.path().display(), self.at);
                return Err(ArrayError::Luns(text));
            }
            at += BLOCK as u64;
        }
        Ok(entries)
    }

    /// The consistency point that a record at this place follows.
    fn point_at(&self, at: u64) -> Result<Option<u64>> {
        let mut head = IoBuffer::zeroed(BLOCK);
        let failed = |error| ArrayError::io(self.file.path(), "reading", at, error);
        self.file.read_at(at, &mut head, IoReason::LogRead).map_err(failed)?;
        let is_record = head[..8] == RECORD_MAGIC && head[16..32] == self.array.to_le_bytes();
        Ok(is_record.then(|| u64::from_le_bytes(head[32..40].try_into().expect("eight bytes"))))
    }

    /// The record at a place, if it belongs to the present consistency point: its number, entries and bytes.
    fn read_record(&self, at: u64) -> Result<Option<(u64, Vec<Entry>, u64)>> {
        if at + BLOCK as u64 > self.bytes {
            return Ok(None);
        }
        let read = |buffer: &mut IoBuffer| {
            let failed = |error| ArrayError::io(self.file.path(), "reading", at, error);
            self.file.read_at(at, buffer, IoReason::LogRead).map_err(failed)
        };
        let mut head = IoBuffer::zeroed(BLOCK);
        read(&mut head)?;
        let number = |buffer: &IoBuffer, at: usize| {
            u64::from_le_bytes(buffer[at..at + 8].try_into().expect("eight bytes"))
        };
        if head[..8] != RECORD_MAGIC
            || head[16..32] != self.array.to_le_bytes()
            || number(&head, 32) != self.point
        {
            return Ok(None);
        }
        let (count, blocks) = ((number(&head, 48) >> 32) as usize, number(&head, 48) as u32 as usize);
        let bytes = (header_blocks(count.min(MOST_BLOCKS + 1)) + blocks) * BLOCK;
        if count > MOST_BLOCKS || blocks > MOST_BLOCKS || at + bytes as u64 > self.bytes {
            return Ok(None);
        }
        let mut record = IoBuffer::zeroed(bytes);
        read(&mut record)?;
        if number(&record, 8) != XxHash3_64::oneshot(&record[16..]) {
            return Ok(None);
        }
        let mut data = &record[header_blocks(count) * BLOCK..];
        let mut entries = vec![];
        for entry in 0..count {
            let at = RECORD_HEAD + entry * ENTRY;
            let (lun, first, count) =
                (number(&record, at), number(&record, at + 8), number(&record, at + 16));
            let taken = match lun as u32 {
                0 => None,
                _ => {
                    let length = usize::try_from(count).unwrap_or(usize::MAX).saturating_mul(BLOCK);
                    let Some((taken, rest)) = data.split_at_checked(length) else { return Ok(None) };
                    data = rest;
                    Some(taken.chunks_exact(BLOCK).map(SharedBlock::copied).collect())
                }
            };
            entries.push(Entry { lun: (lun >> 32) as LunId, first, count, data: taken });
        }
        Ok(Some((number(&record, 40), entries, bytes as u64)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jetcell_vfs::SimVfs;

    const PATH: &str = "/log/write-log";

    fn entries(seed: u64, blocks: usize) -> Vec<Entry> {
        let block = SharedBlock::copied(&[seed as u8; BLOCK]);
        let data = vec![block; blocks];
        vec![
            Entry { lun: 3, first: seed, count: blocks as u64, data: Some(data) },
            Entry { lun: 4, first: 9, count: 1 << 40, data: None },
        ]
    }

    fn log(disk: &SimVfs) -> WriteLog {
        let mut log = WriteLog::create(disk, Path::new(PATH), LEAST_BYTES, 77, 5).unwrap();
        log.restart(12);
        log
    }

    fn open(disk: &SimVfs) -> WriteLog {
        WriteLog::open(disk, Path::new(PATH), 77, 5).unwrap()
    }

    #[test]
    fn entries_are_replayed_after_their_consistency_point_only() {
        let disk = SimVfs::new();
        let mut written = log(&disk);
        assert!(written.append(&entries(1, 3)).unwrap() && written.append(&entries(2, 0)).unwrap());
        let expected = [entries(1, 3), entries(2, 0)].concat();
        assert_eq!(open(&disk).replay(12).unwrap(), expected);
        assert_eq!(open(&disk).replay(13).unwrap(), []);
        assert!(
            open(&disk.clone_disk())
                .replay(11)
                .unwrap_err()
                .to_string()
                .contains("a newer catalogue is damaged")
        );
        // The log starts again, and older records behind the new ones count no more.
        written.restart(13);
        assert!(written.append(&entries(3, 1)).unwrap());
        assert_eq!(open(&disk).replay(13).unwrap(), entries(3, 1));
        assert!(!written.append(&entries(4, 255)).unwrap(), "it does not fit");
        assert_eq!(open(&disk).replay(13).unwrap(), entries(3, 1));
        let mut again = open(&disk);
        again.replay(13).unwrap();
        assert!(again.append(&entries(5, 2)).unwrap());
        assert_eq!(open(&disk).replay(13).unwrap().len(), 4);
        again.clear().unwrap();
        assert_eq!(open(&disk).replay(12).unwrap(), []);
    }

    #[test]
    fn a_torn_end_is_an_end_and_a_damaged_middle_an_error() {
        let disk = SimVfs::new();
        let mut log = log(&disk);
        (1..4).for_each(|seed| assert!(log.append(&entries(seed, 2)).unwrap()));
        let third = BLOCK as u64 * 7;
        disk.corrupt(PATH.as_ref(), third + 5000, &[9]).unwrap();
        assert_eq!(open(&disk).replay(12).unwrap().len(), 4);
        disk.corrupt(PATH.as_ref(), BLOCK as u64 + 5000, &[9]).unwrap();
        let error = open(&disk).replay(12).unwrap_err().to_string();
        assert!(error.contains("damaged at byte 4096"), "{error}");
    }

    #[test]
    fn other_files_and_logs_of_others_are_refused() {
        let disk = SimVfs::new();
        let refused =
            |array, made| WriteLog::open(&disk, Path::new(PATH), array, made).err().unwrap().to_string();
        assert!(refused(77, 5).contains("is not there"));
        log(&disk);
        assert!(refused(78, 5).contains("not the write log") && refused(77, 6).contains("not the write log"));
        disk.corrupt(PATH.as_ref(), 40, &[1]).unwrap();
        assert!(refused(77, 5).contains("not the write log"));
        assert!(WriteLog::create(&disk, Path::new(PATH), 4096, 1, 1).is_err());
        disk.corrupt(PATH.as_ref(), 0, b"something").unwrap();
        let refused = WriteLog::create(&disk, Path::new(PATH), LEAST_BYTES, 1, 1).err().unwrap().to_string();
        assert!(refused.contains("holds something else"), "{refused}");
    }
}
