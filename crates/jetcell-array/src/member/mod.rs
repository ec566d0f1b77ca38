//! A member of an array: its superblocks, journal, records and blocks.
//!
//! ```text
//! block 0           first superblock
//! next              two journal slots, each a header and images of blocks
//! next              second superblock
//! next, per zone    one block of 64 records, then the 64 blocks that they describe
//! ```

mod counts;
mod device;
mod extents;
mod journal;
mod lost_rows;
mod superblock;

pub use counts::{LifetimeTotals, MemberTransferCounters, TransferCounters};

pub(crate) use device::{MemberDevice, MemberLayout};
pub(crate) use extents::Extents;
pub(crate) use journal::{JournalEntry, JournalHeader, JournalImage};
pub(crate) use lost_rows::{LostRange, LostRows};
pub(crate) use superblock::{
    ArrayConfig, MemberId, SlotConfig, Superblock, has_superblock_magic, is_journal_size,
};
