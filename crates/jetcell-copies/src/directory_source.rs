//! An active side whose logs are in a directory on this host. Its engine may be running.

use std::io;

use ese_engine::{CopyRegistration, Error, ExchangedPage, PageDirection, PageRequests};
use ese_format::log::header::{LogHeader, SEGMENT_BYTES};
use ese_format::{Generation, PageNumber, Signature};
use jetcell_sync::Arc;
use jetcell_vfs::{IoBuffer, IoReason, OpenMode, is_disconnected};

use crate::error::{ContactError, CopyError, Result};
use crate::handover::{DirectoryHandover, Handover};
use crate::log_end::{MAX_LOG_BYTES, read_log_header};
use crate::log_source::{AvailableLogs, LogSource};
use crate::stream_directory::StreamDirectory;
use crate::streamed_log::read_durable;

/// A log source that reads the active side's logs from their directory.
pub struct DirectorySource(StreamDirectory);

impl DirectorySource {
    /// Creates a source from the logs of an active side.
    pub fn new(logs: StreamDirectory) -> DirectorySource {
        DirectorySource(logs)
    }

    fn unreachable_error(&self, error: io::Error) -> CopyError {
        self.0.unreachable(ContactError::Io(Arc::new(error)))
    }
}

impl LogSource for DirectorySource {
    fn address(&self) -> String {
        self.0.path().display().to_string()
    }

    fn available_logs(&self) -> Result<AvailableLogs> {
        let logs = &self.0;
        let files = logs.vfs.list(logs.path()).map_err(|error| self.unreachable_error(error))?;
        let closed = files.iter().filter_map(|path| logs.names.generation_of(path));
        let (oldest, newest) = (closed.clone().min(), closed.max());
        let current = read_log_header(&*logs.vfs, &logs.names.current());
        let Some((oldest, closed)) = oldest.zip(newest) else {
            // The directory contains only the current log, or no logs.
            let header = current.map_err(|error| logs.unreachable(error.into()))?;
            let closed = Generation(header.generation.0.saturating_sub(1));
            return Ok(AvailableLogs {
                oldest: header.generation,
                closed,
                open_created: Some(creation_time(&header)),
            });
        };
        let open = current.ok().filter(|header| header.generation == closed.next());
        Ok(AvailableLogs { oldest, closed, open_created: open.as_ref().map(creation_time) })
    }

    fn read_log(&self, generation: Generation, from: u64) -> Result<Option<IoBuffer>> {
        let file = match self.0.vfs.open(&self.0.archived(generation), OpenMode::Read) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(|error| self.unreachable_error(error))?,
        };
        let read = || {
            let len = file.len()?.min(MAX_LOG_BYTES).saturating_sub(from);
            let mut bytes = IoBuffer::zeroed(len as usize / SEGMENT_BYTES * SEGMENT_BYTES);
            file.read_at(from, &mut bytes, IoReason::LogRead)?;
            Ok(bytes)
        };
        read().map(Some).map_err(|error: io::Error| self.unreachable_error(error))
    }

    fn read_open_log(&self, generation: Generation, from: u64) -> Result<Option<IoBuffer>> {
        let file = match self.0.vfs.open(&self.0.names.current(), OpenMode::Read) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(|error| self.unreachable_error(error))?,
        };
        let read = || {
            let mut header = IoBuffer::zeroed(SEGMENT_BYTES);
            file.read_at(0, &mut header, IoReason::LogRead)?;
            match LogHeader::decode(&header) {
                Ok(header) if header.generation == generation => {
                    read_durable(&*file, generation, from).map(Some)
                }
                _ => Ok(None),
            }
        };
        read().map_err(|error: io::Error| self.unreachable_error(error))
    }

    fn register(&self, registration: &CopyRegistration) -> Result<()> {
        let stored = registration.store(&*self.0.vfs, self.0.path(), self.0.names.base());
        stored.map_err(|error| match &error {
            Error::Io { kind, .. } if is_disconnected(*kind) => self.0.unreachable(error.into()),
            _ => CopyError::NotRegistered { active: self.address(), error },
        })
    }

    fn unregister(&self, id: &str) -> Result<()> {
        Ok(CopyRegistration::remove(&*self.0.vfs, self.0.path(), self.0.names.base(), id)?)
    }

    fn request_pages(&self, id: &str, wishes: &PageRequests) -> Result<()> {
        Ok(wishes.store(&*self.0.vfs, self.0.path(), self.0.names.base(), id)?)
    }

    fn page_image(&self, database: Signature, page: PageNumber) -> Result<Option<ExchangedPage>> {
        let (vfs, base) = (&*self.0.vfs, self.0.names.base());
        Ok(ExchangedPage::read(vfs, self.0.path(), base, (database, page), PageDirection::Image)?)
    }

    fn send_page(&self, image: &ExchangedPage) -> Result<()> {
        Ok(image.store(&*self.0.vfs, self.0.path(), self.0.names.base(), PageDirection::Patch)?)
    }

    fn hand_over(&self, successor: &str) -> Result<Box<dyn Handover>> {
        Ok(Box::new(DirectoryHandover::begin(&self.0, successor)?))
    }
}

fn creation_time(header: &LogHeader) -> u64 {
    u64::from_be_bytes(header.created.0)
}
