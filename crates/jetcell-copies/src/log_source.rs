//! The active side as seen by a copy. This is the interface for transports.
//!
//! Each response answers one request. A response may be lost; the call then fails with [`CopyError::Unreachable`].
//! Responses are not trusted: the copy verifies each log, so a transport may deliver outdated, repeated or altered
//! bytes.

use ese_engine::{CopyRegistration, ExchangedPage, PageRequests};
use ese_format::{Generation, PageNumber, Signature};
use jetcell_vfs::IoBuffer;

use crate::error::Result;
use crate::handover::Handover;

/// The logs that the active side makes available to a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AvailableLogs {
    /// Oldest log.
    pub oldest: Generation,
    /// Newest closed generation. If no log has been closed, the generation before the oldest log.
    pub closed: Generation,
    /// Creation time of the generation after `closed`, if it is being written, as the eight bytes in its header
    /// interpreted as a number.
    pub open_created: Option<u64>,
}

/// Interface for reading the logs and databases of a copy's active side.
pub trait LogSource: Send {
    /// Returns the active side's address, for use in messages.
    fn address(&self) -> String;

    /// Returns the range of available logs.
    fn available_logs(&self) -> Result<AvailableLogs>;

    /// Reads a closed generation's log file, starting at an offset. Returns `None` if the log does not exist or is
    /// not closed.
    fn read_log(&self, generation: Generation, from: u64) -> Result<Option<IoBuffer>>;

    /// Reads the log that is being written, starting at a segment offset. Returns that segment and some of the
    /// durable segments after it, or `None` if a different generation is being written.
    fn read_open_log(&self, generation: Generation, from: u64) -> Result<Option<IoBuffer>>;

    /// Registers the first log that the copy still needs. Earlier logs may then be removed.
    fn register(&self, registration: &CopyRegistration) -> Result<()>;

    /// Removes the registration of a copy that no longer needs any logs.
    fn unregister(&self, id: &str) -> Result<()>;

    /// Requests pages, and reports pages for which the active side has lost a write. The active side sends the
    /// requested pages later.
    fn request_pages(&self, id: &str, wishes: &PageRequests) -> Result<()>;

    /// Returns the latest page image that the active side has made at a copy's request, or `None` if there is none.
    fn page_image(&self, database: Signature, page: PageNumber) -> Result<Option<ExchangedPage>>;

    /// Sends a page that the log has requested.
    fn send_page(&self, image: &ExchangedPage) -> Result<()>;

    /// Prevents the stopped active side from being started while its role is transferred to the side at `successor`.
    ///
    /// # Errors
    ///
    /// Returns an error if the active side is running ([`ese_engine::Error::InUse`]), or if it has already
    /// transferred its role to another side.
    fn hand_over(&self, successor: &str) -> Result<Box<dyn Handover>>;
}
