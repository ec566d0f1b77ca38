//! The write log: a small file on a fast device, where writes are durable before the next consistency point.
//!
//! ```text
//! block 0      header: array, size of the log, and the consistency point after which the log was made
//! 2 areas      shadows of the last two records
//! until the    records: a header of whole blocks, then the blocks of data. Each record is written and synced by itself,
//! last block   together with its shadow
//! last block   copy of the header
//! ```
//!
//! Records belong to one consistency point. After the next one, the log starts again from its beginning, and older records that remain in
//! the file are ignored.
//!
//! The shadow of a record is a whole copy. Records with even numbers and records with odd numbers have an area each, therefore the shadow
//! of the last durable record is intact while the next record is being written. Damage of one copy loses nothing, and a shadow with a
//! higher number than the last record shows that records are lost.
//!
//! After the first record of each consistency point, both headers get the number of the point, one after the other. Only then the record
//! is acknowledged. A log without records, whose header has the number of the present point, is therefore damaged.

mod header;
mod record;
mod replay;
#[cfg(test)]
mod tests;

use std::path::Path;

use jetcell_sync::Arc;
use jetcell_vfs::{File, IoBuffer, IoReason, OpenMode, Vfs};

use self::header::{LogGeometry, LogHeader, begins_as_header, header_copy};
use self::record::{RecordEntries, buffer_for, data_blocks_in};
use crate::error::{ArrayError, Refusal, Result, WriteLogError};
use crate::geometry::BLOCK;

pub(super) use self::header::MIN_BYTES;
pub(super) use self::record::Entry;

/// Bytes that are cleared at a time.
const CLEAR_BYTES: u64 = 1 << 20;

pub(super) struct WriteLog {
    file: Arc<dyn File>,
    array: u128,
    geometry: LogGeometry,
    /// Where the next record goes.
    at: u64,
    /// The consistency point that the records follow, and the number of the next one.
    point: u64,
    number: u64,
    /// The consistency point after which the log was made.
    made: u64,
    /// The last consistency point that a record follows, as the headers have it.
    used: u64,
    /// Headers that must be written again, after replay.
    damaged_headers: Vec<u64>,
    /// The last record, for its memory.
    buffer: IoBuffer,
}

/// What a volume knows of its log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct LogIdentity {
    pub array: u128,
    /// The consistency point after which the log was made.
    pub made: u64,
    /// Bytes of the log. 0: the volume is from an earlier version, which did not store the size.
    pub bytes: u64,
}

impl LogIdentity {
    /// The places in a log with this header, in a file of `file_bytes`. `None` if it is not the log of the volume.
    fn geometry_of(&self, header: LogHeader, file_bytes: u64) -> Option<LogGeometry> {
        let is_same = header.array == self.array && header.made == self.made;
        let geometry = match header.geometry {
            Some(geometry) if geometry.bytes() == self.bytes => geometry,
            None if self.bytes == 0 => LogGeometry::without_shadows(file_bytes),
            _ => return None,
        };
        is_same.then_some(geometry)
    }
}

/// Whether a file has the copy of a header of the same array where a log of this size has it.
fn has_copy_of_header(file: &dyn File, file_bytes: u64, identity: LogIdentity) -> bool {
    let mut block = IoBuffer::zeroed(BLOCK);
    let mut is_header_at = |offset| {
        file.read_at(offset, &mut block, IoReason::LogRead).is_ok()
            && LogHeader::decode(&block).is_some_and(|header| header.array == identity.array)
    };
    // The log may have been made larger: then it has its copy where it ended before.
    [identity.bytes, file_bytes]
        .into_iter()
        .any(|bytes| bytes >= MIN_BYTES && is_header_at(header_copy(bytes)))
}

impl WriteLog {
    /// Makes the file, or makes it a log of this volume, without records.
    pub fn create(vfs: &dyn Vfs, path: &Path, identity: LogIdentity) -> Result<WriteLog> {
        let failed = |action| move |error| ArrayError::io(path, action, 0, error);
        let LogIdentity { array, made, bytes } = identity;
        if bytes < MIN_BYTES || !bytes.is_multiple_of(BLOCK as u64) {
            let text = format!("a write log has at least {MIN_BYTES} bytes, in blocks of {BLOCK}");
            return Err(Refusal::Parameter(text).into());
        }
        let exists = vfs.exists(path).map_err(failed("looking for the write log"))?;
        let mode = if exists { OpenMode::Write } else { OpenMode::CreateNew };
        let file = vfs.open(path, mode).map_err(failed("making the write log"))?;
        let found = file.len().map_err(failed("asking for the length"))?;
        let mut block = IoBuffer::zeroed(BLOCK);
        // The file may have been shortened to less than a block.
        let first = &mut block[..found.min(BLOCK as u64) as usize];
        if !first.is_empty() {
            file.read_at(0, first, IoReason::LogRead).map_err(failed("reading"))?;
        }
        let is_log = begins_as_header(&block) || has_copy_of_header(&*file, found, identity);
        if !is_log && block.iter().any(|byte| *byte != 0) {
            return Err(Refusal::NotAWriteLog(path.to_owned()).into());
        }
        if found < bytes {
            file.grow(bytes).map_err(failed("growing the write log"))?;
        }
        let geometry = LogGeometry::for_size(file.len().map_err(failed("asking for the length"))?);
        let log = WriteLog::empty(file, LogIdentity { array, made, bytes }, geometry);
        for offset in log.header_offsets() {
            log.write_header(offset)?;
        }
        vfs.sync_directory(jetcell_vfs::parent_directory(path)).map_err(failed("syncing the directory"))?;
        Ok(log)
    }

    /// Makes the log of a volume that had one, without records. A file that is there keeps its size if the volume had no larger log. A
    /// volume from an earlier version, whose file is missing or too small, gets a log of `default_bytes`.
    pub fn create_again(
        vfs: &dyn Vfs,
        path: &Path,
        default_bytes: u64,
        identity: LogIdentity,
    ) -> Result<WriteLog> {
        let failed = |error| ArrayError::io(path, "asking for the length", 0, error);
        let length = |exists| if exists { vfs.open(path, OpenMode::Read)?.len() } else { Ok(0) };
        let found = vfs.exists(path).and_then(length).map_err(failed)? / BLOCK as u64 * BLOCK as u64;
        let is_unknown = identity.bytes == 0 && found < MIN_BYTES;
        let bytes = if is_unknown { default_bytes } else { identity.bytes.max(found) };
        WriteLog::create(vfs, path, LogIdentity { bytes, ..identity })
    }

    /// Removes all records, also those of states that no catalogue describes any more.
    pub fn clear(&mut self) -> Result<()> {
        let zeros = IoBuffer::zeroed(CLEAR_BYTES as usize);
        let end = self.geometry.records_end();
        for at in (BLOCK as u64..end).step_by(CLEAR_BYTES as usize) {
            let count = CLEAR_BYTES.min(end - at) as usize;
            let failed = |error| ArrayError::io(self.file.path(), "writing", at, error);
            self.file.write_at(at, &zeros[..count], IoReason::LogWrite).map_err(failed)?;
        }
        self.used = 0;
        // Each write of a header syncs the file.
        self.header_offsets().into_iter().try_for_each(|offset| self.write_header(offset))
    }

    /// Opens the log of a volume, to replay it.
    ///
    /// # Errors
    /// The file is not there, is another log, or is shorter than the log.
    pub fn open(vfs: &dyn Vfs, path: &Path, identity: LogIdentity) -> Result<WriteLog> {
        let failed = |action| move |error| ArrayError::io(path, action, 0, error);
        if !vfs.exists(path).map_err(failed("looking for the write log"))? {
            return Err(WriteLogError::Missing(path.to_owned()).into());
        }
        let file = vfs.open(path, OpenMode::Write).map_err(failed("opening the write log"))?;
        let found = file.len().map_err(failed("asking for the length"))?;
        let shortened = |expected| WriteLogError::Shortened { path: path.to_owned(), found, expected };
        if found < identity.bytes.max(MIN_BYTES) {
            return Err(shortened(identity.bytes.max(MIN_BYTES)).into());
        }
        let copies = [Some(0), (identity.bytes > 0).then(|| header_copy(identity.bytes))];
        let (mut unreadable, mut geometry, mut damaged, mut used) = (None, None, vec![], 0);
        for offset in copies.into_iter().flatten() {
            let mut block = IoBuffer::zeroed(BLOCK);
            let read = file.read_at(offset, &mut block, IoReason::LogRead);
            let header = LogHeader::decode(&block).filter(|_| read.is_ok());
            match header.and_then(|header| Some((header, identity.geometry_of(header, found)?))) {
                Some((header, found)) => (geometry, used) = (Some(found), header.used.max(used)),
                None => damaged.push(offset),
            }
            unreadable =
                read.err().map(|error| ArrayError::io(path, "reading", offset, error)).or(unreadable);
        }
        let Some(geometry) = geometry else {
            return Err(unreadable.unwrap_or_else(|| WriteLogError::Foreign(path.to_owned()).into()));
        };
        let log = WriteLog::empty(file, identity, geometry);
        Ok(WriteLog { used, damaged_headers: damaged, ..log })
    }

    /// Where the headers are, in the order in which they are written.
    fn header_offsets(&self) -> [u64; 2] {
        [header_copy(self.geometry.bytes()), 0]
    }

    /// Writes the headers again that were damaged when the log was opened. An error is ignored, because another header is intact.
    fn repair_headers(&mut self) {
        let damaged = std::mem::take(&mut self.damaged_headers);
        let _ = damaged.into_iter().try_for_each(|offset| self.write_header(offset));
    }

    /// Stores durably that records follow the present consistency point. One after the other: at least one header is always intact.
    ///
    /// # Errors
    /// Neither of the headers could be written.
    fn mark_used(&mut self) -> Result<()> {
        if self.used == self.point {
            return Ok(());
        }
        self.used = self.point;
        let [copy, first] = self.header_offsets().map(|offset| self.write_header(offset));
        copy.or(first)
    }

    /// Writes a copy of the header durably.
    fn write_header(&self, offset: u64) -> Result<()> {
        let mut block = IoBuffer::zeroed(BLOCK);
        let WriteLog { array, made, used, .. } = *self;
        LogHeader { array, made, used, geometry: Some(self.geometry) }.encode(&mut block);
        let failed = |action| move |error| ArrayError::io(self.file.path(), action, offset, error);
        self.file.write_at(offset, &block, IoReason::LogWrite).map_err(failed("writing"))?;
        self.file.sync(IoReason::LogWrite).map_err(failed("syncing"))
    }

    fn empty(file: Arc<dyn File>, identity: LogIdentity, geometry: LogGeometry) -> WriteLog {
        WriteLog {
            file,
            array: identity.array,
            geometry,
            at: geometry.records_start(),
            point: 0,
            number: 0,
            made: identity.made,
            used: 0,
            damaged_headers: vec![],
            buffer: IoBuffer::zeroed(0),
        }
    }

    /// Bytes of the whole log.
    pub fn bytes(&self) -> u64 {
        self.geometry.bytes()
    }

    /// Maximum number of blocks of data in an entry.
    pub fn max_entry_blocks(&self) -> u64 {
        data_blocks_in(self.geometry.record_blocks())
    }

    /// Whether an earlier version made the log. It is only read, and must be made again before records are appended.
    pub fn is_from_earlier_version(&self) -> bool {
        !self.geometry.has_shadows()
    }

    /// Starts again: records follow this consistency point from now on.
    pub fn restart(&mut self, point: u64) {
        (self.at, self.point, self.number) = (self.geometry.records_start(), point, 0);
    }

    /// Makes entries durable. Returns false, and does nothing, if they do not fit. After an error, nothing fits until
    /// [`WriteLog::restart`].
    pub fn append(&mut self, entries: &[Entry]) -> Result<bool> {
        let Some(records) = RecordEntries::distribute(entries, self.geometry.record_blocks()) else {
            return Ok(false);
        };
        let bytes: u64 = records.iter().map(|record| record.bytes() as u64).sum();
        if self.at + bytes > self.geometry.records_end() {
            return Ok(false);
        }
        for record in &records {
            if self.buffer.capacity() < record.bytes() {
                self.buffer = buffer_for(record.bytes());
            }
            self.buffer.resize(record.bytes());
            record.encode(self.array, self.point, self.number, &mut self.buffer);
            // One by one: no record is in the log while an earlier one is not.
            let written =
                self.write_durably(self.geometry.shadow(self.number)).and_then(|()| self.mark_used());
            if written.is_err() {
                // A part of the record may be in the file, and no other record with its number may follow.
                self.at = self.geometry.records_end();
            }
            written?;
            self.at += record.bytes() as u64;
            self.number += 1;
        }
        Ok(true)
    }

    /// Writes the record in the buffer to its place and to its shadow, and syncs both.
    fn write_durably(&self, shadow: u64) -> Result<()> {
        for offset in [self.at, shadow] {
            let failed = |error| ArrayError::io(self.file.path(), "writing", offset, error);
            self.file.write_at(offset, &self.buffer, IoReason::LogWrite).map_err(failed)?;
        }
        let failed = |error| ArrayError::io(self.file.path(), "syncing", self.at, error);
        self.file.sync(IoReason::LogWrite).map_err(failed)
    }
}
