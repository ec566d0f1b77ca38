//! Conditions on the log, the header and the double write that the cache must ensure before it writes database pages.

use jetcell_sync::Arc;
use jetcell_sync::atomic::{AtomicU32, Ordering};

use ese_format::header::{DatabaseHeader, DatabaseState};
use ese_format::log::segment::RECORDS_AT;
use ese_format::{Generation, LogPosition, PageNumber};

use super::double_write::DoubleWrite;
use crate::Result;
use crate::cache::{ProtectedBatch, TornPageGuard, WriteAhead};
use crate::log::LogStream;

/// The newest required and the newest possibly committed generation, according to the header on disk. A header that is
/// not marked dirty covers all generations.
pub(super) struct HeaderGenerations {
    required: AtomicU32,
    committed: AtomicU32,
}

impl HeaderGenerations {
    pub fn new(header: &DatabaseHeader) -> HeaderGenerations {
        let (required, committed) = HeaderGenerations::newest_named(header);
        HeaderGenerations { required: AtomicU32::new(required), committed: AtomicU32::new(committed) }
    }

    fn newest_named(header: &DatabaseHeader) -> (u32, u32) {
        match header.state {
            DatabaseState::DirtyShutdown => (header.gen_max_required.0, header.gen_max_committed.0),
            _ => (u32::MAX, u32::MAX),
        }
    }

    /// Updates the generations from a header that is already on disk.
    pub fn set(&self, header: &DatabaseHeader) {
        let (required, committed) = HeaderGenerations::newest_named(header);
        self.committed.store(committed, Ordering::Release);
        self.required.store(required, Ordering::Release);
    }

    /// Returns true if the header on disk already names these generations.
    pub fn names(&self, required: Generation, committed: Generation) -> bool {
        self.required.load(Ordering::Acquire) >= required.0
            && self.committed.load(Ordering::Acquire) >= committed.0
    }

    /// Returns the end of the records of the newest generation that the header names as required.
    pub fn end(&self) -> LogPosition {
        let next = self.required.load(Ordering::Acquire).saturating_add(1);
        LogPosition { generation: Generation(next), segment: 1, offset: RECORDS_AT as u16 }
    }
}

/// Reason that is logged when a generation is closed before its file is full.
const WAYPOINT: &str = "pages must be written that newer generations changed";

/// Write-ahead interface that determines when the cache may write pages of a database.
pub(super) struct WriteGuard {
    pub log: Arc<LogStream>,
    pub mark: Arc<HeaderGenerations>,
    pub double_write: Option<DoubleWriteGuard>,
}

/// Protects page writes with the double-write file.
pub(super) struct DoubleWriteGuard {
    pub log: Arc<LogStream>,
    pub mark: Arc<HeaderGenerations>,
    pub double_write: Arc<DoubleWrite>,
}

impl TornPageGuard for DoubleWriteGuard {
    fn batch_limit(&self) -> usize {
        self.double_write.batch_limit()
    }

    fn protect(&self, pages: &[(PageNumber, &[u8])]) -> Result<ProtectedBatch> {
        Ok(Box::new(self.double_write.protect(pages, self.log.durable().min(self.mark.end()))?))
    }
}

impl WriteAhead for WriteGuard {
    fn durable(&self) -> LogPosition {
        self.log.durable().min(self.mark.end())
    }

    fn flush(&self, upto: LogPosition) -> Result<()> {
        self.log.flush(upto)?;
        if upto > self.mark.end() {
            self.log.name_generation()?;
        }
        while self.log.waypoint_latency() > 0 && upto > self.mark.end() {
            self.log.force_roll_over(WAYPOINT)?;
        }
        Ok(())
    }

    fn waypoint(&self) -> LogPosition {
        match self.log.waypoint_latency() {
            0 => LogPosition::MAX,
            _ => self.mark.end(),
        }
    }

    fn request_flush(&self, upto: LogPosition) {
        if upto > self.log.durable() {
            self.log.request_flush(upto);
        } else {
            self.log.request_name_generation();
        }
    }

    fn torn_page_guard(&self) -> Option<&dyn TornPageGuard> {
        self.double_write.as_ref().map(|guard| guard as &dyn TornPageGuard)
    }
}
