//! The write log: a small file on a fast device. It makes writes durable before the next consistency point.
//!
//! ```text
//! block 0      header: array, size of the log, and the consistency point after which the log was created
//! 2 areas      shadows of the last two records
//! until the    records: a header of whole blocks, then the blocks of data. Each record is written and synced
//! last block   separately, together with its shadow
//! last block   copy of the header
//! ```
//!
//! All records belong to one consistency point. After the next consistency point, the log restarts at its beginning,
//! and older records that remain in the file are ignored.
//!
//! The shadow of a record is a complete copy of it. Records with even and odd numbers have separate shadow areas, so
//! the shadow of the last durable record is intact while the next record is being written. If one copy is damaged,
//! nothing is lost. If a shadow has a higher number than the last record, records were lost.
//!
//! After the first record of each consistency point, the number of the consistency point is written to both headers,
//! one after the other. The record is acknowledged only after that. Therefore, a log without records is damaged if
//! its header has the number of the current consistency point.

mod header;
mod record;
mod replay;
#[cfg(test)]
mod tests;

use std::io;
use std::path::Path;

use jetcell_array::{ArrayError, ArrayRefusal, BLOCK, Result, WriteLogError};
use jetcell_sync::Arc;
use jetcell_vfs::{File, IoBuffer, IoReason, OpenMode, Vfs};

use self::header::{WriteLogGeometry, WriteLogHeader, has_header_magic, header_copy};
use self::record::{RecordEntries, buffer_for, data_blocks_in};

pub(super) use self::header::MIN_BYTES;
pub(super) use self::record::WriteLogEntry;

/// Number of bytes that are cleared at a time.
const CLEAR_BYTES: u64 = 1 << 20;

pub(super) struct WriteLog {
    file: Arc<dyn File>,
    array: u128,
    geometry: WriteLogGeometry,
    /// Offset of the next record.
    next_offset: u64,
    /// Consistency point that the records follow. `number` is the number of the next record.
    point: u64,
    number: u64,
    /// Consistency point after which the log was created.
    created_after: u64,
    /// Last consistency point that is followed by a record, according to the headers.
    used: u64,
    /// Offsets of damaged headers, which are rewritten after replay.
    damaged_headers: Vec<u64>,
    /// Reusable buffer for records.
    buffer: IoBuffer,
}

/// Log properties that are stored in the volume's catalogue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct WriteLogIdentity {
    pub array: u128,
    /// Consistency point after which the log was created.
    pub created_after: u64,
    /// Size of the log in bytes. 0 if the volume is from an earlier version, which did not store the size.
    pub bytes: u64,
}

impl WriteLogIdentity {
    /// Returns the geometry of a log with this header in a file of `file_bytes`. Returns `None` if it is not the log
    /// of the volume.
    fn geometry_of(&self, header: WriteLogHeader, file_bytes: u64) -> Option<WriteLogGeometry> {
        let is_same = header.array == self.array && header.created_after == self.created_after;
        let geometry = match header.geometry {
            Some(geometry) if geometry.bytes() == self.bytes => geometry,
            None if self.bytes == 0 => WriteLogGeometry::without_shadows(file_bytes),
            _ => return None,
        };
        is_same.then_some(geometry)
    }
}

/// Returns true if a file or device has the header of a write log at its start, or the copy of the header at its end.
///
/// # Errors
/// Returns an error if the file cannot be read.
pub fn has_write_log(file: &dyn File) -> io::Result<bool> {
    let bytes = file.len()?;
    if bytes < BLOCK as u64 {
        return Ok(false);
    }
    let mut block = IoBuffer::zeroed(BLOCK);
    for offset in [0, header_copy(bytes)] {
        file.read_at(offset, &mut block, IoReason::LogRead)?;
        if has_header_magic(&block) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns true if a file has the header copy of a log of the same array, at the end of the log's stored size or at the
/// end of the file.
fn has_copy_of_header(file: &dyn File, file_bytes: u64, identity: WriteLogIdentity) -> bool {
    let mut block = IoBuffer::zeroed(BLOCK);
    let mut is_header_at = |offset| {
        file.read_at(offset, &mut block, IoReason::LogRead).is_ok()
            && WriteLogHeader::decode(&block).is_some_and(|header| header.array == identity.array)
    };
    // If the file was enlarged, the copy is at the end of the log's previous size.
    [identity.bytes, file_bytes]
        .into_iter()
        .any(|bytes| bytes >= MIN_BYTES && is_header_at(header_copy(bytes)))
}

impl WriteLog {
    /// Creates an empty log for this volume. The file is created if it does not exist.
    pub fn create(vfs: &dyn Vfs, path: &Path, identity: WriteLogIdentity) -> Result<WriteLog> {
        let io_error_while = |action| move |error| ArrayError::io(path, action, 0, error);
        let WriteLogIdentity { array, created_after: made, bytes } = identity;
        if bytes < MIN_BYTES || !bytes.is_multiple_of(BLOCK as u64) {
            return Err(ArrayRefusal::WriteLogSize(MIN_BYTES).into());
        }
        let exists = vfs.exists(path).map_err(io_error_while("checking for the write log"))?;
        let mode = if exists { OpenMode::Write } else { OpenMode::CreateNew };
        let file = vfs.open(path, mode).map_err(io_error_while("creating the write log"))?;
        let found = file.len().map_err(io_error_while("reading the length"))?;
        let mut block = IoBuffer::zeroed(BLOCK);
        // The file may have been truncated to less than a block.
        let first = &mut block[..found.min(BLOCK as u64) as usize];
        if !first.is_empty() {
            file.read_at(0, first, IoReason::LogRead).map_err(io_error_while("reading"))?;
        }
        let is_log = has_header_magic(&block) || has_copy_of_header(&*file, found, identity);
        if !is_log && block.iter().any(|byte| *byte != 0) {
            return Err(ArrayRefusal::NotAWriteLog(path.to_owned()).into());
        }
        if found < bytes {
            file.grow(bytes).map_err(io_error_while("growing the write log"))?;
        }
        let geometry = WriteLogGeometry::for_size(file.len().map_err(io_error_while("reading the length"))?);
        let log = WriteLog::empty(file, WriteLogIdentity { array, created_after: made, bytes }, geometry);
        for offset in log.header_offsets() {
            log.write_header(offset)?;
        }
        vfs.sync_directory(jetcell_vfs::parent_directory(path))
            .map_err(io_error_while("syncing the directory"))?;
        Ok(log)
    }

    /// Creates a new, empty log for a volume that already had one. An existing file keeps its size, unless the
    /// previous log was larger. If the volume is from an earlier version and its log file is missing or too small,
    /// the new log has `default_bytes`.
    pub fn recreate(
        vfs: &dyn Vfs,
        path: &Path,
        default_bytes: u64,
        identity: WriteLogIdentity,
    ) -> Result<WriteLog> {
        let io_error = |error| ArrayError::io(path, "reading the length", 0, error);
        let length = |exists| if exists { vfs.open(path, OpenMode::Read)?.len() } else { Ok(0) };
        let found = vfs.exists(path).and_then(length).map_err(io_error)? / BLOCK as u64 * BLOCK as u64;
        let is_unknown = identity.bytes == 0 && found < MIN_BYTES;
        let bytes = if is_unknown { default_bytes } else { identity.bytes.max(found) };
        WriteLog::create(vfs, path, WriteLogIdentity { bytes, ..identity })
    }

    /// Removes all records, including records of states that no catalogue describes any more.
    pub fn clear(&mut self) -> Result<()> {
        let zeros = IoBuffer::zeroed(CLEAR_BYTES as usize);
        let end = self.geometry.records_end();
        for at in (BLOCK as u64..end).step_by(CLEAR_BYTES as usize) {
            let count = CLEAR_BYTES.min(end - at) as usize;
            let io_error = |error| ArrayError::io(self.file.path(), "writing", at, error);
            self.file.write_at(at, &zeros[..count], IoReason::LogWrite).map_err(io_error)?;
        }
        self.used = 0;
        // Each write of a header syncs the file.
        self.header_offsets().into_iter().try_for_each(|offset| self.write_header(offset))
    }

    /// Opens the log of a volume for replay.
    ///
    /// # Errors
    /// Returns an error if the file does not exist, is not this volume's log, or is shorter than the log.
    pub fn open(vfs: &dyn Vfs, path: &Path, identity: WriteLogIdentity) -> Result<WriteLog> {
        let io_error_while = |action| move |error| ArrayError::io(path, action, 0, error);
        if !vfs.exists(path).map_err(io_error_while("checking for the write log"))? {
            return Err(WriteLogError::Missing(path.to_owned()).into());
        }
        let file = vfs.open(path, OpenMode::Write).map_err(io_error_while("opening the write log"))?;
        let found = file.len().map_err(io_error_while("reading the length"))?;
        let shortened = |expected| WriteLogError::Shortened { path: path.to_owned(), found, expected };
        if found < identity.bytes.max(MIN_BYTES) {
            return Err(shortened(identity.bytes.max(MIN_BYTES)).into());
        }
        let copies = [Some(0), (identity.bytes > 0).then(|| header_copy(identity.bytes))];
        let (mut unreadable, mut geometry, mut damaged, mut used) = (None, None, vec![], 0);
        for offset in copies.into_iter().flatten() {
            let mut block = IoBuffer::zeroed(BLOCK);
            let read = file.read_at(offset, &mut block, IoReason::LogRead);
            let header = WriteLogHeader::decode(&block).filter(|_| read.is_ok());
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

    /// Returns the offsets of the headers, in the order in which they are written.
    fn header_offsets(&self) -> [u64; 2] {
        [header_copy(self.geometry.bytes()), 0]
    }

    /// Rewrites the headers that were damaged when the log was opened. Errors are ignored, because the other header
    /// is intact.
    fn repair_headers(&mut self) {
        let damaged = std::mem::take(&mut self.damaged_headers);
        let _ = damaged.into_iter().try_for_each(|offset| self.write_header(offset));
    }

    /// Durably marks the log as having records for the current consistency point. The headers are written one after
    /// the other, so at least one of them is always intact.
    ///
    /// # Errors
    /// Returns an error if neither of the headers could be written.
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
        let WriteLog { array, created_after: made, used, .. } = *self;
        WriteLogHeader { array, created_after: made, used, geometry: Some(self.geometry) }.encode(&mut block);
        let io_error_while = |action| move |error| ArrayError::io(self.file.path(), action, offset, error);
        self.file.write_at(offset, &block, IoReason::LogWrite).map_err(io_error_while("writing"))?;
        self.file.sync(IoReason::LogWrite).map_err(io_error_while("syncing"))
    }

    fn empty(file: Arc<dyn File>, identity: WriteLogIdentity, geometry: WriteLogGeometry) -> WriteLog {
        WriteLog {
            file,
            array: identity.array,
            geometry,
            next_offset: geometry.records_start(),
            point: 0,
            number: 0,
            created_after: identity.created_after,
            used: 0,
            damaged_headers: vec![],
            buffer: IoBuffer::zeroed(0),
        }
    }

    /// Returns the size of the log in bytes.
    pub fn bytes(&self) -> u64 {
        self.geometry.bytes()
    }

    /// Returns the maximum number of data blocks in an entry.
    pub fn max_entry_blocks(&self) -> u64 {
        data_blocks_in(self.geometry.record_blocks())
    }

    /// Returns true if an earlier version created the log. Such a log is only read, and must be replaced before
    /// records are appended.
    pub fn is_from_earlier_version(&self) -> bool {
        !self.geometry.has_shadows()
    }

    /// Restarts the log for records that follow this consistency point.
    pub fn restart(&mut self, point: u64) {
        (self.next_offset, self.point, self.number) = (self.geometry.records_start(), point, 0);
    }

    /// Makes entries durable. Returns false without doing anything if they do not fit. After an error, nothing fits
    /// until [`WriteLog::restart`] is called.
    pub fn append(&mut self, entries: &[WriteLogEntry]) -> Result<bool> {
        let Some(records) = RecordEntries::distribute(entries, self.geometry.record_blocks()) else {
            return Ok(false);
        };
        let bytes: u64 = records.iter().map(|record| record.bytes() as u64).sum();
        if self.next_offset + bytes > self.geometry.records_end() {
            return Ok(false);
        }
        for record in &records {
            if self.buffer.capacity() < record.bytes() {
                self.buffer = buffer_for(record.bytes());
            }
            self.buffer.resize(record.bytes());
            record.encode(self.array, self.point, self.number, &mut self.buffer);
            // Records are written in order: a record is durable only if all earlier records are.
            let written =
                self.write_durably(self.geometry.shadow(self.number)).and_then(|()| self.mark_used());
            if written.is_err() {
                // Part of the record may be in the file, so no other record may be written with the same number.
                self.next_offset = self.geometry.records_end();
            }
            written?;
            self.next_offset += record.bytes() as u64;
            self.number += 1;
        }
        Ok(true)
    }

    /// Writes the record in the buffer to its location and to its shadow, and syncs both.
    fn write_durably(&self, shadow: u64) -> Result<()> {
        for offset in [self.next_offset, shadow] {
            let write_error = |error| ArrayError::io(self.file.path(), "writing", offset, error);
            self.file.write_at(offset, &self.buffer, IoReason::LogWrite).map_err(write_error)?;
        }
        let sync_error = |error| ArrayError::io(self.file.path(), "syncing", self.next_offset, error);
        self.file.sync(IoReason::LogWrite).map_err(sync_error)
    }
}
