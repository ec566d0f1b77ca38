//! Tests of the log stream: single-threaded and multithreaded use, crashes, and reading.

mod crash;
mod read;
mod stream;
mod threads;

use std::path::Path;

use ese_format::log::record::{LogRecord, Trace};
use ese_format::{LogPosition, LogTime, Signature};
use jetcell_sync::Arc;
use jetcell_vfs::{FileStem, SimVfs, Vfs};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::Result;

pub(super) const FILE_SIZE: u32 = 64 << 10;

pub(super) fn names() -> LogNames {
    LogNames::new(Path::new("/log"), FileStem::E00)
}

pub(super) fn options(vfs: impl Vfs + 'static) -> LogStreamOptions {
    options_on(Arc::new(vfs))
}

pub(super) fn options_on(vfs: Arc<dyn Vfs>) -> LogStreamOptions {
    LogStreamOptions {
        vfs,
        names: names(),
        file_size: FILE_SIZE,
        page_size: 32768,
        circular: false,
        begin_generation: false,
        retained_files: 8,
        copy_lag_limit: 1000,
        waypoint_latency: 0,
        accept_lost_logs: false,
    }
}

pub(super) fn create(vfs: impl Vfs + 'static) -> LogStream {
    LogStream::create(options(vfs), Signature::new(7, LogTime::NONE)).unwrap()
}

/// Creates a unique record of about `len` bytes.
pub(super) fn record(number: u64, len: usize) -> LogRecord {
    let mut random = ChaCha8Rng::seed_from_u64(number);
    let mut text = number.to_le_bytes().to_vec();
    text.extend((0..len).map(|_| random.random::<u8>()));
    LogRecord::Trace(Trace { procid: 1, text })
}

pub(super) fn batch(records: &[LogRecord]) -> RecordBatch {
    let mut batch = RecordBatch::new();
    records.iter().for_each(|record| batch.push(record));
    batch
}

/// Reads all records of the log except filler.
pub(super) fn read(vfs: &SimVfs) -> Result<(Vec<PositionedRecord>, LogTail)> {
    let reader = LogReader::open(Arc::new(vfs.clone()), names())?.expect("there is a log");
    let mut records = Vec::new();
    let tail = reader.read_from(LogPosition::new(reader.range().0.0, 1, 0), |record| {
        if !matches!(LogRecord::decode(&record.bytes), Ok((LogRecord::Nop2(_), _))) {
            records.push(record);
        }
        Ok(())
    })?;
    Ok((records, tail))
}

pub(super) fn contents(records: &[PositionedRecord]) -> Vec<LogRecord> {
    records.iter().map(|record| LogRecord::decode(&record.bytes).unwrap().0).collect()
}
