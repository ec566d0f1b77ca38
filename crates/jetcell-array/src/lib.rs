//! RAID arrays over files. Data survives lost disks, flipped bits, lost and misdirected writes, and power cuts.
//!
//! The modules, from the lowest layer to the highest; each module uses only those above it in the table:
//!
//! | part | content |
//! | --- | --- |
//! | `kernels` | parity of blocks: computing it, updating it, recovering lost blocks |
//! | `geometry` | RAID levels, and the mapping from a block of the array to a row and a slot |
//! | `integrity` | records with checksum, location and generation of each block; which blocks of a row are current |
//! | `member` | the layout of a member: superblocks, journal, records, blocks |
//! | `array` | an assembled array: reads with repair, commits through the journal, recovery after a crash |
//! | `maintenance` | rebuild, copy, scrub, spares and growth, in steps |
//! | `bytes` | ranges of bytes on blocks |
//!
//! # Layers on an array
//!
//! A layer that manages the space of an array itself, such as the crate `jetcell-luns`, uses:
//!
//! | interface | purpose |
//! | --- | --- |
//! | [`BlockStore`] | blocks and ranges of bytes; the layer implements it as well |
//! | [`Array::start_read`], [`Array::finish_read`], [`BlockReadAhead`] | reads that were started in advance |
//! | [`SharedBlock`], [`WriteData`], [`Array::copy_to_block`], [`Array::recycle_block`] | block content in pooled buffers |
//! | [`Array::row_writer`], [`RowWriter`], [`FreeRowWrite`] | whole rows to which nothing refers yet, written without the journal; completion and durability of these writes |
//! | [`OpenZone`] | a zone of such rows that fills block by block |
//! | [`Array::journal_new_rows`], [`Array::was_written`] | taking over an array |
//!
//! Members are files of a [`jetcell_vfs::Vfs`], so tests can cut the power at every write and inject faults.

#![forbid(unsafe_code)]

/// Compiles and runs the example in the README as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod array;
#[cfg(test)]
mod array_life_tests;
mod bytes;
mod error;
mod geometry;
#[cfg(test)]
mod history_tests;
mod integrity;
mod kernels;
mod maintenance;
mod member;
mod shared_block;
#[cfg(test)]
mod soak_tests;
#[cfg(test)]
#[path = "tests/test_array.rs"]
mod test_array;

pub use array::{
    Array, ArrayAccess, ArrayExamination, ArrayIoCounters, ArrayState, ArrayStatus, AssembleOptions,
    BlockReadAhead, CreateArrayOptions, FreeRowWrite, LoadMeter, MemberLabel, MemberPurpose,
    MemberRequirements, MemberState, OpenZone, PreparedMember, RowWriter, SlotState, SlotStatus,
};
pub use bytes::BlockStore;
pub use error::{ArrayError, ArrayRefusal, LunError, Result, WriteLogError};
pub use geometry::{
    ArrayLayout, BLOCK, MAX_DATA_COLUMNS, MAX_NUMBER, MAX_SLOTS, RaidLevel, UnknownLevel, ZONE_ROWS,
};
pub use kernels::{Consistency, InstructionSet, Kernel, RecoveryStep, ReedSolomon, RowDiagonal};
pub use maintenance::{ArrayMaintenanceThrottle, ParityMismatch, RebuildProgress, ScrubReport};
pub use member::{LifetimeTotals, MemberTransferCounters, TransferCounters};
pub use shared_block::{SharedBlock, WriteData};
