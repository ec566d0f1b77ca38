//! Reads single records by position, after all records have been visited once.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use ese_format::log::header::SEGMENT_BYTES;
use ese_format::{Generation, LogPosition};
use jetcell_sync::Arc;
use jetcell_sync::mpsc::{Receiver, channel};
use jetcell_vfs::{File, IoBuffer, IoReason, OpenMode, Transfer, TransferKind};

use super::{LogReader, Segment};
use crate::{Corruption, Error, Result};

/// Maximum number of bytes read for one batch of records. Without this limit, memory use would be unbounded, because a
/// page may lack any number of changes.
const MAX_BATCH_BYTES: usize = 4 << 20;
/// Maximum number of log files that are kept open.
const MAX_OPEN_FILES: usize = 64;

/// A log file that stays open for reading records.
#[derive(Clone)]
pub(super) struct OpenLogFile {
    pub file: Arc<dyn File>,
    segments: u16,
}

/// Reads of individual records in progress.
pub(crate) struct RecordReads {
    asked: usize,
    arrived: Receiver<(LogPosition, u16, io::Result<IoBuffer>)>,
}

impl LogReader {
    /// Starts to reread records after the stream was resumed. Skips records that span two generations, and stops at a
    /// limit on the number of bytes.
    pub(crate) fn begin_record_reads(&self, records: &[(LogPosition, LogPosition)]) -> Result<RecordReads> {
        let (sender, arrived) = channel();
        let mut of_files: BTreeMap<Generation, Vec<Transfer>> = BTreeMap::new();
        let (mut asked, mut bytes) = (0, 0);
        for &(start, end) in records.iter().filter(|(start, end)| start.generation == end.generation) {
            let of = self.open_file(start.generation)?.segments;
            let (first, last) = (start.segment, end.segment.min(of.saturating_sub(2)));
            let len = (usize::from(last.saturating_sub(first)) + 1) * SEGMENT_BYTES;
            bytes += len;
            if bytes > MAX_BATCH_BYTES {
                break;
            }
            let sender = sender.clone();
            // Sending fails only if the receiver was dropped. In that case, the record is not needed.
            let done =
                move |result: io::Result<()>, buffer| drop(sender.send((start, of, result.map(|()| buffer))));
            of_files.entry(start.generation).or_default().push(Transfer {
                kind: TransferKind::Read,
                offset: u64::from(first) * SEGMENT_BYTES as u64,
                buffer: IoBuffer::zeroed(len),
                reason: IoReason::LogRead,
                done: Box::new(done),
            });
            asked += 1;
        }
        for (generation, transfers) in of_files {
            self.open_file(generation)?.file.submit(transfers);
        }
        Ok(RecordReads { asked, arrived })
    }

    /// Waits for the reads and returns the records, keyed by start position. Checksums are not verified. Records that
    /// could not be read are missing from the result.
    pub(crate) fn finish_record_reads(&self, reading: RecordReads) -> BTreeMap<LogPosition, Vec<u8>> {
        let mut found = BTreeMap::new();
        for (start, of, bytes) in reading.arrived.iter().take(reading.asked) {
            let Ok(bytes) = bytes else { continue };
            let mut pending = None;
            for (index, bytes) in (start.segment..).zip(bytes.chunks_exact(SEGMENT_BYTES)) {
                let segment = Segment { generation: start.generation, file_segments: of, index, bytes };
                let read = self.records(&segment, &mut pending, &mut |record| {
                    if record.start == start {
                        found.insert(start, record.bytes);
                    }
                    Ok(())
                });
                if read.is_err() {
                    break;
                }
            }
        }
        found
    }

    fn open_file(&self, generation: Generation) -> Result<OpenLogFile> {
        if let Some(held) = self.pinned.get().filter(|held| held.header.generation == generation) {
            return Ok(held.file.clone());
        }
        if let Some(file) = self.open_files.lock().get(&generation) {
            return Ok(file.clone());
        }
        let file = self.open_log_file(&self.path_of(generation)?)?;
        let mut open = self.open_files.lock();
        if open.len() >= MAX_OPEN_FILES {
            open.clear();
        }
        open.insert(generation, file.clone());
        Ok(file)
    }

    pub(super) fn open_log_file(&self, path: &Path) -> Result<OpenLogFile> {
        let io_error = |e: io::Error| Error::io(path, &e);
        let file = self.vfs.open(path, OpenMode::Read).map_err(io_error)?;
        let segments =
            u16::try_from(file.len().map_err(io_error)? / SEGMENT_BYTES as u64).unwrap_or(u16::MAX);
        Ok(OpenLogFile { file, segments })
    }

    /// Rereads a record that was visited before the stream was resumed. Checksums are not verified.
    pub fn read_record(&self, start: LogPosition, end: LogPosition) -> Result<Vec<u8>> {
        let mut pending = None;
        let mut found = None;
        for number in start.generation.0..=end.generation.0.min(self.range().1.0) {
            let generation = Generation(number);
            let OpenLogFile { file, segments: of } = self.open_file(generation)?;
            let first = if generation == start.generation { start.segment } else { 1 };
            let last = if generation == end.generation { end.segment } else { u16::MAX };
            // The last segment of a file can only contain a shadow.
            let last = last.min(of.saturating_sub(2));
            let count = usize::from(last.saturating_sub(first)) + 1;
            let mut bytes = IoBuffer::zeroed(count * SEGMENT_BYTES);
            file.read_at(u64::from(first) * SEGMENT_BYTES as u64, &mut bytes, IoReason::LogRead)
                .map_err(|e| Error::io(file.path(), &e))?;
            for (index, bytes) in (first..=last).zip(bytes.chunks_exact(SEGMENT_BYTES)) {
                self.records(
                    &Segment { generation, file_segments: of, index, bytes },
                    &mut pending,
                    &mut |record| {
                        if record.start == start {
                            found = Some(record.bytes);
                        }
                        Ok(())
                    },
                )?;
            }
        }
        found.ok_or_else(|| self.corrupt(start.generation, Corruption::ChangedLogRecord(start)))
    }
}
