//! The part of the log that redo holds in memory.
//!
//! Page images and the data of records make up most of a log, but they are needed only for pages that were not
//! written before the crash. The window stores these payloads separately from their records. When its memory is full,
//! the window drops the oldest payloads. If a page turns out to need a dropped payload, redo rereads the record. Each
//! payload is needed at most once, so its memory is freed after redo has used it.

use std::collections::BTreeMap;

use ese_format::LogPosition;
use ese_format::log::record::{LogRecord, LogRecordError, NodeChange, PageChangeFlags};
use jetcell_sync::Mutex;
use jetcell_sync::atomic::{AtomicUsize, Ordering};
use twox_hash::XxHash3_64;

use crate::log::{LogReader, PositionedRecord};
use crate::{Corruption, Error, Result};

/// Minimum size in bytes of a payload that is stored separately. Shorter payloads stay in their records.
const MIN_PAYLOAD_BYTES: usize = 128;
/// Memory overhead of a payload in bytes.
const PAYLOAD_OVERHEAD: usize = 2 * size_of::<Vec<u8>>();
/// Number of bytes of memory that redo needs per record while replaying pages, in addition to the record itself.
const REDO_OVERHEAD: usize = 160;

/// A log record in memory.
#[derive(Clone)]
pub(super) struct BufferedRecord {
    pub start: LogPosition,
    pub end: LogPosition,
    /// Encoded record, without its payload if the payload is stored separately.
    bytes: Vec<u8>,
    /// Hash of the payload, if the payload is stored separately.
    payload_hash: Option<u64>,
}

impl From<PositionedRecord> for BufferedRecord {
    fn from(stored: PositionedRecord) -> BufferedRecord {
        let PositionedRecord { start, end, bytes } = stored;
        BufferedRecord { start, end, bytes, payload_hash: None }
    }
}

impl BufferedRecord {
    /// Returns the decoded record, with an empty payload if the payload is stored separately.
    pub fn record(&self) -> std::result::Result<LogRecord, LogRecordError> {
        LogRecord::decode(&self.bytes).map(|(record, _)| record)
    }
}

/// Record payloads, indexed by the start position of the record.
#[derive(Default)]
pub(super) struct Payloads {
    payloads: BTreeMap<LogPosition, Mutex<Option<Vec<u8>>>>,
    /// Total size of the payloads in bytes.
    bytes: AtomicUsize,
    /// Total size of the records in bytes, without their payloads.
    record_bytes: usize,
}

impl Payloads {
    fn insert(&mut self, start: LogPosition, payload: Vec<u8>) {
        self.bytes.fetch_add(payload.len() + PAYLOAD_OVERHEAD, Ordering::Relaxed);
        self.payloads.insert(start, Mutex::new(Some(payload)));
    }

    fn drop_oldest(&mut self) -> bool {
        let Some((_, payload)) = self.payloads.pop_first() else { return false };
        let bytes = payload.into_inner().map_or(0, |payload| payload.len());
        self.bytes.fetch_sub(bytes + PAYLOAD_OVERHEAD, Ordering::Relaxed);
        true
    }

    /// Returns the total size of the payloads and their records in bytes.
    pub fn memory(&self) -> usize {
        self.record_bytes + self.bytes.load(Ordering::Relaxed)
    }

    fn take(&self, start: LogPosition) -> Option<Vec<u8>> {
        let payload = self.payloads.get(&start)?.lock().take()?;
        self.bytes.fetch_sub(payload.len(), Ordering::Relaxed);
        Some(payload)
    }

    /// Returns whether the record's payload was dropped. If so, the record must be reread.
    pub fn has_dropped_payload(&self, buffered: &BufferedRecord) -> bool {
        buffered.payload_hash.is_some() && !self.payloads.contains_key(&buffered.start)
    }

    /// Moves the payload back into the record. `reread` contains records that were reread.
    pub fn restore(
        &self,
        buffered: &BufferedRecord,
        record: &mut LogRecord,
        log: &LogReader,
        reread: &BTreeMap<LogPosition, Vec<u8>>,
    ) -> Result<()> {
        let (Some(hash), Some(place)) = (buffered.payload_hash, payload_of(record)) else { return Ok(()) };
        if let Some(payload) = self.take(buffered.start) {
            *place = payload;
            return Ok(());
        }
        let read;
        let bytes = match reread.get(&buffered.start) {
            Some(bytes) => bytes,
            None => {
                read = log.read_record(buffered.start, buffered.end)?;
                &read
            }
        };
        if let Ok((mut record, _)) = LogRecord::decode(bytes)
            && let Some(payload) = payload_of(&mut record)
            && XxHash3_64::oneshot(payload) == hash
        {
            *place = std::mem::take(payload);
            return Ok(());
        }
        Err(Error::corrupt(log.directory(), Corruption::ChangedLogRecord(buffered.start)))
    }
}

/// Returns the part of a record that is needed only to change the page. If a node's data is part of the tree's sort
/// order, redo itself needs the data; it is then not a payload.
fn payload_of(record: &mut LogRecord) -> Option<&mut Vec<u8>> {
    let unique = |node: &NodeChange| node.page.flags.contains(PageChangeFlags::UNIQUE);
    match record {
        LogRecord::Split2(split) => Some(&mut split.before_image),
        LogRecord::Merge2(merge) => Some(&mut merge.before_image),
        LogRecord::Insert(insert) if unique(&insert.node) => Some(&mut insert.data),
        LogRecord::Replace(replace) if unique(&replace.node) => Some(&mut replace.data),
        _ => None,
    }
}

/// A run of consecutive log records that fits within a memory limit.
#[derive(Default)]
pub(super) struct ReplayWindow {
    pub records: Vec<BufferedRecord>,
    pub payloads: Payloads,
    limit: usize,
}

impl ReplayWindow {
    /// Creates a window of about `limit` bytes. It accepts at least one record.
    pub fn new(limit: usize) -> ReplayWindow {
        ReplayWindow { limit, ..ReplayWindow::default() }
    }

    /// Adds a record. Returns the record if the window is full.
    pub fn push(&mut self, stored: PositionedRecord) -> std::result::Result<(), PositionedRecord> {
        if self.payloads.record_bytes >= self.limit && !self.records.is_empty() {
            return Err(stored);
        }
        let mut buffered = BufferedRecord::from(stored);
        // A record that cannot be decoded is reported when redo reaches it.
        if buffered.bytes.len() > MIN_PAYLOAD_BYTES
            && let Ok(mut record) = buffered.record()
            && let Some(payload) = payload_of(&mut record).filter(|payload| payload.len() > MIN_PAYLOAD_BYTES)
        {
            let payload = std::mem::take(payload);
            buffered.payload_hash = Some(XxHash3_64::oneshot(&payload));
            self.payloads.insert(buffered.start, payload);
            buffered.bytes = Vec::new();
            record.encode(&mut buffered.bytes);
            buffered.bytes.shrink_to_fit();
        }
        self.payloads.record_bytes += size_of::<BufferedRecord>() + buffered.bytes.len() + REDO_OVERHEAD;
        self.records.push(buffered);
        while self.payloads.memory() > self.limit && self.payloads.drop_oldest() {}
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ese_format::log::record::{DatabaseIdInLog, Insert, PageChange};
    use ese_format::{DbTime, PageNumber, TreeId};

    use super::*;

    const DATA: usize = 400;

    /// Creates a record at a distinct position. Its data is a payload.
    fn record(number: u16) -> PositionedRecord {
        let page = PageChange {
            procid: 1,
            database: DatabaseIdInLog(1),
            page: PageNumber::fixed(30),
            after: DbTime(2),
            before: DbTime(1),
            begin0: 0,
            level: 0,
            line: 0,
            flags: PageChangeFlags::UNIQUE,
        };
        let node = NodeChange { page, rceid: 0, root: None, tree: TreeId(7) };
        let mut bytes = Vec::new();
        Insert::encode_parts(&mut bytes, &node, [b"", b"key"], &[number as u8; DATA]);
        let start = LogPosition::new(1, number, 0);
        PositionedRecord { start, end: LogPosition::new(1, number + 1, 0), bytes }
    }

    /// Creates a window that contains up to `count` records, as long as they fit.
    fn window(limit: usize, count: u16) -> ReplayWindow {
        let mut window = ReplayWindow::new(limit);
        let full = (0..count).find(|number| window.push(record(*number)).is_err());
        assert_eq!(window.records.len(), usize::from(full.unwrap_or(count)));
        window
    }

    fn lacking(window: &ReplayWindow) -> Vec<bool> {
        window.records.iter().map(|buffered| window.payloads.has_dropped_payload(buffered)).collect()
    }

    #[test]
    fn a_window_drops_the_oldest_payloads_when_it_exceeds_its_memory() {
        let all = window(1 << 20, 3).payloads.memory();
        let one = window(1 << 20, 1).payloads.memory();
        assert_eq!(all, 3 * one);
        assert!(one > DATA + size_of::<BufferedRecord>());
        assert_eq!(lacking(&window(all, 3)), [false, false, false], "it is full to the last byte");
        for (limit, lacks) in
            [(all - 1, [true, false, false]), (all - DATA - PAYLOAD_OVERHEAD - 1, [true, true, false])]
        {
            let window = window(limit, 3);
            assert_eq!(lacking(&window), lacks);
            assert!(window.payloads.memory() <= limit);
        }
    }

    #[test]
    fn a_window_accepts_records_until_full_even_without_payloads() {
        let one = window(1 << 20, 1).payloads.record_bytes;
        let counts = [0, 1, one, one + 1, 2 * one, 2 * one + 1].map(|limit| window(limit, 9).records.len());
        assert_eq!(counts, [1, 1, 1, 2, 2, 3]);
    }

    #[test]
    fn taking_a_payload_frees_the_memory() {
        let window = window(1 << 20, 2);
        let before = window.payloads.memory();
        assert_eq!(window.payloads.take(LogPosition::new(1, 1, 0)), Some(vec![1; DATA]));
        assert_eq!(window.payloads.memory(), before - DATA);
        assert_eq!(window.payloads.take(LogPosition::new(1, 1, 0)), None);
        assert_eq!(lacking(&window), [false, false], "it need not be read again");
    }
}
