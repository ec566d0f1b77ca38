//! Bulk-loads a table.

use ese_engine::{BulkLoadOptions, BulkLoadProgress, Error as EngineError};
use jetcell_host::Cancellation;

use super::session::{LoadColumns, no_load_table};
use super::{OpenInstance, definition};
use crate::engine::{BulkLoadAction, LoadRow, Result};

/// Fill factor of new index pages, in percent.
const INDEX_DENSITY: u64 = 80;

/// Number of transfer buffers for a load. Each tree uses six buffers, and two trees are built concurrently.
const TRANSFER_BUFFERS: usize = 12;
/// Minimum and maximum length of a transfer in bytes.
const TRANSFER_BYTES: std::ops::RangeInclusive<usize> = 128 << 10..=2 << 20;

/// Returns the options for a load that uses `memory` bytes.
pub(super) fn options(memory: usize, zero: bool) -> BulkLoadOptions {
    let most = (memory / 2 / TRANSFER_BUFFERS).clamp(*TRANSFER_BYTES.start(), *TRANSFER_BYTES.end());
    // Only buffers whose length is a power of two fill huge pages. A transfer from a huge page needs one segment
    // instead of hundreds.
    let transfer_bytes = 1 << most.ilog2();
    let sort_bytes = memory.saturating_sub(TRANSFER_BUFFERS * transfer_bytes);
    BulkLoadOptions { sort_bytes, transfer_bytes, zero, ..BulkLoadOptions::default() }
}

/// Bulk-loads a table with the records produced by `next`.
pub(super) fn table(
    unit: &OpenInstance,
    number: u32,
    options: BulkLoadOptions,
    next: &mut dyn FnMut(u64, &mut LoadRow) -> BulkLoadAction,
    stop: &Cancellation,
) -> Result<()> {
    let page_bytes = unit.database.page_size().bytes() as u64;
    let mut session = unit.instance.session();
    let mut load = session.bulk_load(&unit.database, &definition(number), options)?;
    let columns = LoadColumns::from_names(|name| load.column(name))
        .ok_or_else(|| no_load_table(&unit.database, number))?;
    let mut row = LoadRow::default();
    loop {
        match next(size(&load.progress(), page_bytes), &mut row) {
            BulkLoadAction::Row => columns.with_values(&mut row, |values| load.push(values))?,
            BulkLoadAction::End => break,
            BulkLoadAction::Stop => return Ok(()),
        }
    }
    match load.finish_with(|_| !stop.is_cancelled()) {
        Ok(_) | Err(EngineError::Cancelled) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Estimates the size of the table in bytes, including the completed index.
fn size(progress: &BulkLoadProgress, page_bytes: u64) -> u64 {
    progress.pages * page_bytes + progress.entry_bytes * 100 / INDEX_DENSITY
}
