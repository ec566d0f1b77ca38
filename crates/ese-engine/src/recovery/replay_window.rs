//! A stretch of the log in memory, from the first reading of the log to redo.
//!
//! Images of pages and data of records are most of a log, and only pages that had not been written before the crash need
//! them. They are kept apart, and as memory runs out the oldest go; redo reads a record again when its page turns out
//! to need it. Each is needed once at most, so that its memory serves for something else as soon as redo has it.

use std::collections::BTreeMap;

use ese_format::LogPosition;
use ese_format::log::record::{LogRecord, NodeChange, PageChangeFlags, RecordError};
use jetcell_sync::Mutex;
use jetcell_sync::atomic::{AtomicUsize, Ordering};
use twox_hash::XxHash3_64;

use crate::log::{LogReader, StoredRecord};
use crate::{Error, Result};

/// Shorter data stay in their records.
const WORTH_PARTING: usize = 128;
/// What a payload costs beside its bytes.
const ENTRY: usize = 2 * size_of::<Vec<u8>>();
/// What redo notes about a record that changes pages while it has it, beside the record.
const NOTES: usize = 160;

/// A record.
#[derive(Clone)]
pub(super) struct BufferedRecord {
    pub start: LogPosition,
    pub end: LogPosition,
    /// Encoded, without its payload if that is kept apart.
    bytes: Vec<u8>,
    /// Hash of the payload.
    parted: Option<u64>,
}

impl From<StoredRecord> for BufferedRecord {
    fn from(stored: StoredRecord) -> BufferedRecord {
        let StoredRecord { start, end, bytes } = stored;
        BufferedRecord { start, end, bytes, parted: None }
    }
}

impl BufferedRecord {
    /// The record, without what is kept apart.
    pub fn record(&self) -> std::result::Result<LogRecord, RecordError> {
        LogRecord::decode(&self.bytes).map(|(record, _)| record)
    }
}

/// What is kept apart, by where the record starts.
#[derive(Default)]
pub(super) struct Payloads {
    kept: BTreeMap<LogPosition, Mutex<Option<Vec<u8>>>>,
    bytes: AtomicUsize,
    /// Bytes of the records without them.
    beside: usize,
}

impl Payloads {
    fn insert(&mut self, start: LogPosition, payload: Vec<u8>) {
        self.bytes.fetch_add(payload.len() + ENTRY, Ordering::Relaxed);
        self.kept.insert(start, Mutex::new(Some(payload)));
    }

    fn drop_oldest(&mut self) -> bool {
        let Some((_, payload)) = self.kept.pop_first() else { return false };
        let bytes = payload.into_inner().map_or(0, |payload| payload.len());
        self.bytes.fetch_sub(bytes + ENTRY, Ordering::Relaxed);
        true
    }

    /// Bytes that they and their records use.
    pub fn memory(&self) -> usize {
        self.beside + self.bytes.load(Ordering::Relaxed)
    }

    fn take(&self, start: LogPosition) -> Option<Vec<u8>> {
        let payload = self.kept.get(&start)?.lock().take()?;
        self.bytes.fetch_sub(payload.len(), Ordering::Relaxed);
        Some(payload)
    }

    /// Whether the payload of the record would have to be read again.
    pub fn lacks(&self, kept: &BufferedRecord) -> bool {
        kept.parted.is_some() && !self.kept.contains_key(&kept.start)
    }

    /// Puts the payload back into the record; it is not kept any longer. `again` holds records that were read again.
    pub fn restore(
        &self,
        kept: &BufferedRecord,
        record: &mut LogRecord,
        log: &LogReader,
        again: &BTreeMap<LogPosition, Vec<u8>>,
    ) -> Result<()> {
        let (Some(sum), Some(place)) = (kept.parted, payload_of(record)) else { return Ok(()) };
        if let Some(payload) = self.take(kept.start) {
            *place = payload;
            return Ok(());
        }
        let read;
        let bytes = match again.get(&kept.start) {
            Some(bytes) => bytes,
            None => {
                read = log.read_record(kept.start, kept.end)?;
                &read
            }
        };
        if let Ok((mut again, _)) = LogRecord::decode(bytes)
            && let Some(payload) = payload_of(&mut again)
            && XxHash3_64::oneshot(payload) == sum
        {
            *place = std::mem::take(payload);
            return Ok(());
        }
        Err(Error::Corrupt {
            path: log.directory().to_path_buf(),
            page: None,
            what: format!("log record at {:?} is not what it was when it was read first", kept.start),
        })
    }
}

/// The part of a record that only the page needs. Where data belong to the order of a tree, redo needs them, too.
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

/// Records one behind the other.
#[derive(Default)]
pub(super) struct ReplayWindow {
    pub records: Vec<BufferedRecord>,
    pub payloads: Payloads,
    limit: usize,
}

impl ReplayWindow {
    /// For about `limit` bytes, and one record at least.
    pub fn new(limit: usize) -> ReplayWindow {
        ReplayWindow { limit, ..ReplayWindow::default() }
    }

    /// Takes a record, or gives it back because the stretch is full.
    pub fn push(&mut self, stored: StoredRecord) -> std::result::Result<(), StoredRecord> {
        if self.payloads.beside >= self.limit && !self.records.is_empty() {
            return Err(stored);
        }
        let mut kept = BufferedRecord::from(stored);
        // What cannot be decoded is reported by redo, in its turn.
        if kept.bytes.len() > WORTH_PARTING
            && let Ok(mut record) = kept.record()
            && let Some(payload) = payload_of(&mut record).filter(|payload| payload.len() > WORTH_PARTING)
        {
            let payload = std::mem::take(payload);
            kept.parted = Some(XxHash3_64::oneshot(&payload));
            self.payloads.insert(kept.start, payload);
            kept.bytes = Vec::new();
            record.encode(&mut kept.bytes);
            kept.bytes.shrink_to_fit();
        }
        self.payloads.beside += size_of::<BufferedRecord>() + kept.bytes.len() + NOTES;
        self.records.push(kept);
        while self.payloads.memory() > self.limit && self.payloads.drop_oldest() {}
        Ok(())
    }
}
