//! The active side, as a copy sees it: the seam for transports.
//!
//! An answer belongs to its request, and may be lost; then the call fails with [`CopyError::Unreachable`]. What an answer
//! contains is not trusted: the copy verifies each log, so a transport may bring old, repeated or changed bytes.

use ese_engine::{CopyRegistration, PageImage, PageWishes};
use ese_format::{Generation, PageNumber, Signature};
use jetcell_vfs::IoBuffer;

use crate::error::Result;
use crate::handover::Handover;

/// What the active side has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The oldest log.
    pub oldest: Generation,
    /// The newest closed generation; the one before the oldest log if none is closed.
    pub closed: Generation,
    /// When the generation behind it was created, if that is being written: the eight bytes of its header, as a number.
    pub open_created: Option<u64>,
}

/// The active side of a copy.
pub trait Source: Send {
    /// Where it is, for people.
    fn place(&self) -> String;

    /// What it has.
    fn offer(&self) -> Result<Offer>;

    /// The file of a closed generation, from an offset on. `None`: it is not there, or not closed.
    fn log(&self, generation: Generation, from: u64) -> Result<Option<IoBuffer>>;

    /// What the log that is being written has from the offset of a segment on: that segment, and some of those behind it that are
    /// durable. `None`: another generation is being written.
    fn open_log(&self, generation: Generation, from: u64) -> Result<Option<IoBuffer>>;

    /// Says what the copy needs from now on. Logs below that may go.
    fn register(&self, registration: &CopyRegistration) -> Result<()>;

    /// The copy needs nothing any more.
    fn unregister(&self, id: &str) -> Result<()>;

    /// Asks for pages, and says which ones the active side has lost a write of. It answers when it can.
    fn ask_pages(&self, id: &str, wishes: &PageWishes) -> Result<()>;

    /// The last image of a page that the active side has made because a copy has asked. `None`: there is none.
    fn page_image(&self, database: Signature, page: PageNumber) -> Result<Option<PageImage>>;

    /// Sends a page for which the log has asked.
    fn give_page(&self, image: &PageImage) -> Result<()>;

    /// Keeps the stopped active side from being started, while its role goes to the side at `successor`.
    ///
    /// Errors: it is running ([`ese_engine::Error::InUse`]); it has given its role to another side.
    fn hand_over(&self, successor: &str) -> Result<Box<dyn Handover>>;
}
