//! The bytes of ESE databases, logs and checkpoints, to types and back.
//!
//! Invariants: this crate does no I/O, contains no `unsafe`, and no byte sequence makes it panic or allocate
//! more than the input justifies. Layouts follow Microsoft's published engine source and were checked against
//! real files; each type that encodes a layout draws it once.
#![forbid(unsafe_code)]
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg_attr(test, allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod attachment;
pub mod catalog;
pub mod checkpoint;
pub mod checksum;
pub mod compression;
mod declare;
pub mod fields;
pub mod flush_map;
pub mod header;
pub mod index_entries;
pub mod key;
mod layout;
pub mod log;
pub mod long_value;
pub mod page;
mod path;
pub mod recognise;
pub mod record;
pub mod space;
pub mod types;

pub use types::*;
