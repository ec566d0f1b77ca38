//! Reader and writer of the file formats of ESE, the Extensible Storage Engine, also known as JET Blue: databases
//! (`.edb`, `.dit`), transaction logs, checkpoint files and flush maps. Windows, Active Directory and Exchange store
//! data in these files.
//!
//! The crate converts between bytes and types and performs no I/O. It therefore works on files, on images in memory,
//! and on simulated disks.
//!
//! # Example
//!
//! Verify the checksum of a page and list its records:
//!
//! ```
//! use ese_format::catalog::{CATALOG, CatalogRow, system_tables};
//! use ese_format::checksum::{PageIntegrity, seal_page, verify_page};
//! use ese_format::page::{NodeFlags, Page, PageFlags, PageMut};
//! use ese_format::{PageNumber, PageSize};
//!
//! let (size, number) = (PageSize::KIB_4, PageNumber::fixed(13));
//!
//! // A leaf of the catalog. A program would read it from a file at `size.offset_of(number)`.
//! let mut bytes = vec![0; size.bytes()];
//! let mut page = PageMut::format(&mut bytes, size, number, CATALOG, PageFlags::LEAF);
//! for (index, row) in system_tables()[2].rows().iter().enumerate() {
//!     page.insert_node(index, NodeFlags::empty(), &row.key(), &row.encode(size)?)?;
//! }
//! seal_page(&mut bytes, size, number);
//!
//! // Verify the checksum, which locates and corrects one flipped bit, and list the records.
//! bytes[1000] ^= 4;
//! assert_eq!(verify_page(&mut bytes, size, number), PageIntegrity::Repaired { bits: vec![8002] });
//! let mut names = Vec::new();
//! for node in Page::new(&bytes, size).nodes() {
//!     names.push(CatalogRow::decode(node.data, size)?.name);
//! }
//! assert_eq!(names, ["MSysObjids", "objid", "objidTable", "type", "primary"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Module overview
//!
//! | contents | module |
//! | --- | --- |
//! | type of a file | [`recognise`] |
//! | database header and its shadow | [`header`] |
//! | checksums of pages, headers and log segments | [`checksum`] |
//! | pages of B+ trees | [`page`] |
//! | space management of a tree | [`space`] |
//! | catalog: tables, columns, indexes | [`catalog`] |
//! | records and typed values | [`record`] |
//! | long values and compression | [`long_value`], [`compression`] |
//! | index keys | [`key`], [`index_entries`] |
//! | transaction logs | [`log`] |
//! | checkpoint file | [`checkpoint`] |
//! | attached databases in logs and checkpoints | [`attachment`] |
//! | flush map | [`flush_map`] |
//! | fields of any structure by name, for tools that display them | [`fields`] |
//!
//! # Features
//!
//! - Pages of 4, 8, 16 and 32 KiB, for reading and writing, and of 2 KiB for reading.
//! - Correction of single flipped bits in pages and log segments.
//! - All 91 types of log records of log format 8.4000 (Windows 8 and Exchange 2013 or later).
//! - Exact round trips: a decoded structure encodes to the same bytes, including unknown bytes.
//! - Robustness: no byte sequence causes a panic, or an allocation larger than the input justifies. `unsafe` is
//!   forbidden.
//!
//! # Limits
//!
//! - Keys of Unicode text are not supported: their order is defined by tables inside Windows.
//! - Xpress9 and Xpress10 compression, encrypted values and tuple indexes are not supported.
//! - Records of logs older than format 8.4000 are not decoded.
//! - The crate does not check whether the contents of a database are consistent. `ese-check` does.
//!
//! # Source of the format
//!
//! Layouts and names follow the engine source code that Microsoft published. They were verified on a corpus of real
//! files from several versions of Windows. The module documentation notes any exceptions. The documentation of each
//! type shows its layout once, with offsets. ESE's own name for a type is a search alias: a search for `LGPOS` finds
//! [`LogPosition`].
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
pub mod foreign;
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
mod recover_command;
pub mod space;
mod types;

pub use recover_command::RecoverCommand;
pub use types::*;

/// Compiles the example in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
