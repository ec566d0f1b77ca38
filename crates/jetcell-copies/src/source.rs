//! The active side from the viewpoint of a copy. This is the interface for transports.
//!
//! A response belongs to its request and may be lost. In this case the call fails with [`CopyError::Unreachable`].
//! The content of a response is not trusted: the copy verifies each log, so a transport may deliver outdated,
//! repeated or altered bytes.

use ese_engine::{CopyRegistration, PageImage, PageWishes};
use ese_format::{Generation, PageNumber, Signature};
use jetcell_vfs::IoBuffer;

use crate::error::Result;
use crate::handover::Handover;

/// The logs that the active side has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Oldest log.
    pub oldest: Generation,
    /// Newest closed generation. If no log is closed, the generation before the oldest log.
    pub closed: Generation,
    /// Creation time of the generation after `closed`, if it is being written: the eight bytes in its header, as a
    /// number.
    pub open_created: Option<u64>,
}

/// The active side of a copy.
pub trait Source: Send {
    /// Returns the address of the active side for messages.
    fn place(&self) -> String;

    /// Returns the range of available logs.
    fn offer(&self) -> Result<Offer>;

    /// Reads the file of a closed generation, starting at an offset. Returns `None` if it does not exist or is not
    /// closed.
    fn log(&self, generation: Generation, from: u64) -> Result<Option<IoBuffer>>;

    /// Reads the log that is being written, starting at the offset of a segment. Returns this segment and some of the
    /// durable segments after it. Returns `None` if another generation is being written.
    fn open_log(&self, generation: Generation, from: u64) -> Result<Option<IoBuffer>>;

    /// Registers the first log that the copy needs from now on. Earlier logs may be removed.
    fn register(&self, registration: &CopyRegistration) -> Result<()>;

    /// Removes the registration of a copy that needs no logs any more.
    fn unregister(&self, id: &str) -> Result<()>;

    /// Requests pages, and reports the pages for which the active side has lost a write. The active side sends the
    /// pages later.
    fn ask_pages(&self, id: &str, wishes: &PageWishes) -> Result<()>;

    /// Returns the latest page image that the active side has made on a request of a copy. Returns `None` if no image
    /// exists.
    fn page_image(&self, database: Signature, page: PageNumber) -> Result<Option<PageImage>>;

    /// Sends a page that the log has requested.
    fn give_page(&self, image: &PageImage) -> Result<()>;

    /// Prevents the stopped active side from being started while its role is transferred to the side at `successor`.
    ///
    /// # Errors
    ///
    /// Returns an error if the active side is running ([`ese_engine::Error::InUse`]), or if it has already
    /// transferred its role to another side.
    fn hand_over(&self, successor: &str) -> Result<Box<dyn Handover>>;
}
