//! The conditions for page writes of a database, for the cache: the log, the header, and the double write.

use jetcell_sync::Arc;
use jetcell_sync::atomic::{AtomicU32, Ordering};

use ese_format::header::{DatabaseHeader, DatabaseState};
use ese_format::log::segment::RECORDS_AT;
use ese_format::{Generation, LogPosition, PageNumber};

use super::double_write::DoubleWrite;
use crate::Result;
use crate::cache::{ProtectedBatch, TornPageGuard, WriteAhead};
use crate::log::LogStream;

/// The newest generation that the header on disk names as required. All generations are covered while the database is
/// not in use.
pub(super) struct HeaderMark(AtomicU32);

impl HeaderMark {
    pub fn new(header: &DatabaseHeader) -> HeaderMark {
        HeaderMark(AtomicU32::new(HeaderMark::newest_named(header)))
    }

    fn newest_named(header: &DatabaseHeader) -> u32 {
        match header.state {
            DatabaseState::DirtyShutdown => header.gen_max_required.0,
            _ => u32::MAX,
        }
    }

    /// Updates the mark. The header must be on disk.
    pub fn set(&self, header: &DatabaseHeader) {
        self.0.store(HeaderMark::newest_named(header), Ordering::Release);
    }

    /// Whether the header on disk names this generation.
    pub fn names(&self, generation: Generation) -> bool {
        self.0.load(Ordering::Acquire) >= generation.0
    }

    /// The end of the records of the newest named generation.
    fn end(&self) -> LogPosition {
        let next = self.0.load(Ordering::Acquire).saturating_add(1);
        LogPosition { generation: Generation(next), segment: 1, offset: RECORDS_AT as u16 }
    }
}

/// Answers the cache whether it may write pages of a database.
pub(super) struct WriteGuard {
    pub log: Arc<LogStream>,
    pub mark: Arc<HeaderMark>,
    pub double_write: Option<DoubleWriteGuard>,
}

/// Protects page writes with a double write.
pub(super) struct DoubleWriteGuard {
    pub log: Arc<LogStream>,
    pub double_write: Arc<DoubleWrite>,
}

impl TornPageGuard for DoubleWriteGuard {
    fn batch_limit(&self) -> usize {
        self.double_write.batch_limit()
    }

    fn protect(&self, pages: &[(PageNumber, &[u8])]) -> Result<ProtectedBatch> {
        Ok(Box::new(self.double_write.protect(pages, self.log.durable())?))
    }
}

impl WriteAhead for WriteGuard {
    fn durable(&self) -> LogPosition {
        self.log.durable().min(self.mark.end())
    }

    fn flush(&self, upto: LogPosition) -> Result<()> {
        self.log.flush(upto)?;
        match upto > self.mark.end() {
            true => self.log.name_generation(),
            false => Ok(()),
        }
    }

    fn request(&self, upto: LogPosition) {
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
