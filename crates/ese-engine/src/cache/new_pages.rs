//! Writes of new pages that bypass the cache, in large transfers.
//!
//! The pages have no frame, no deltas and no log record. The rules of [`write`](mod@super::write) therefore do
//! not apply to them. The caller makes the pages durable before a log record refers to them.

use ese_format::PageNumber;
use jetcell_sync::{Arc, Mutex};
use jetcell_vfs::{IoBuffer, IoReason, Transfer, TransferKind};

use super::load_buffers::LoadBuffers;
use super::{AttachedFileId, Cache};
use crate::cache::shared::InFlightCounter;
use crate::{Error, Result, UsageError};

/// Pending writes, and their buffers, for one writer of new pages.
pub(crate) struct NewPageWrites {
    in_flight: InFlightCounter,
    buffers: Arc<LoadBuffers>,
    failed: Mutex<Option<Error>>,
}

impl NewPageWrites {
    /// Creates an empty set of writes.
    pub fn new(buffers: Arc<LoadBuffers>) -> NewPageWrites {
        NewPageWrites { in_flight: InFlightCounter::default(), buffers, failed: Mutex::default() }
    }

    /// Waits until fewer than `most` writes are in flight. Then returns a buffer of `len` bytes with arbitrary content
    /// and a capacity of `capacity` bytes.
    pub fn buffer(&self, len: usize, capacity: usize, most: usize) -> IoBuffer {
        self.in_flight.wait_below(most.max(1));
        self.buffers.take(len, capacity)
    }

    /// Returns an error if a write has failed.
    pub fn check(&self) -> Result<()> {
        self.failed.lock().clone().map_or(Ok(()), Err)
    }

    /// Waits for all writes. Returns an error if one of them has failed.
    pub fn wait(&self) -> Result<()> {
        self.in_flight.wait();
        self.check()
    }
}

impl Cache {
    /// Starts writing new pages. `buffer` contains the sealed pages, starting with page `first`. A failed write is
    /// reported only through `writes`, because nothing refers to the pages yet.
    pub(crate) fn write_new_pages(
        &self,
        file: AttachedFileId,
        first: PageNumber,
        buffer: IoBuffer,
        writes: &Arc<NewPageWrites>,
    ) -> Result<()> {
        self.shared.check()?;
        writes.check()?;
        let attached = self.shared.file(file)?;
        let Some(_active) = attached.in_flight.enter() else {
            return Err(UsageError::NotAttached(attached.file.path().to_path_buf()).into());
        };
        let count = (buffer.len() / self.page_size().bytes()) as u32;
        let pages = (0..count).map(|index| first.plus(index));
        debug_assert!(
            !pages.clone().any(|page| self.resident(super::PageKey { file, page }).is_some()),
            "a new page at or after {first} is already in the cache"
        );
        attached.announced.about_to_write(pages);
        attached.released.remove(first.get(), first.get() + count.saturating_sub(1));
        attached.in_flight.begin(1);
        writes.in_flight.begin(1);
        let (of_file, of_writer) = (attached.clone(), writes.clone());
        let done = move |result: std::io::Result<()>, buffer| {
            if let Err(error) = result {
                let error = Error::io(of_file.file.path(), &error);
                of_writer.failed.lock().get_or_insert(error);
            }
            of_writer.buffers.put_back(buffer);
            of_writer.in_flight.end(1);
            of_file.in_flight.end(1);
        };
        attached.file.submit(vec![Transfer {
            kind: TransferKind::Write,
            offset: self.page_size().offset_of(first),
            buffer,
            reason: IoReason::BulkLoad,
            done: Box::new(done),
        }]);
        Ok(())
    }
}
