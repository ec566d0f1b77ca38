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
mod superblock;

pub use counts::{Lifetime, MemberTransfers, Transfers};

pub(crate) use device::{Device, MemberLayout};
pub(crate) use extents::Extents;
pub(crate) use journal::{Image, JournalEntry, JournalHeader};
pub(crate) use superblock::{Config, MemberId, SlotConfig, Superblock, is_journal_size};
