//! What is inside databases, logs, checkpoints and flush maps, for people and for programs.
//!
//! Every kind of dump turns bytes into items; an [`Output`] writes each as text or as one line of JSON, as soon as it
//! is known. Nothing is believed: what cannot be read becomes a problem in the output, and the dump goes on.
//!
//! Invariants: nothing is ever written to the files; memory does not depend on their size, except for one entry per
//! tree of the catalog; no bytes make a dump panic or run for ever. Whether what is found is right is the business
//! of `ese-check`.
#![forbid(unsafe_code)]
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg_attr(test, allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod catalog;
mod checkpoint;
mod database;
mod facts;
mod flush_map;
mod format;
mod header;
mod log;
mod output;
mod page;
mod pages;
mod schema;
mod source;
mod space;
mod tree;
mod walk;

use std::io;
use std::path::PathBuf;

pub use crate::checkpoint::dump_checkpoint;
pub use crate::facts::{Fact, Facts};
pub use crate::flush_map::dump_flush_map;
pub use crate::header::dump_header;
pub use crate::log::{LogFilter, LogOptions, dump_log};
pub use crate::output::{Output, Problem};
pub use crate::pages::dump_pages;
pub use crate::schema::{SchemaOptions, dump_schema};
pub use crate::source::Source;
pub use crate::space::dump_space;
pub use crate::tree::{TreeChoice, dump_tree};
pub use ese_format::recognise::Format;

/// Why there is no dump, or no more of it.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    /// The file cannot be opened or read.
    #[error("{path}: {error}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The operating system's reason.
        error: io::Error,
    },
    /// The file is of another format than this kind of dump is for.
    #[error("{path}: this is {found}, not {wanted}; {hint}")]
    Format {
        /// The file.
        path: PathBuf,
        /// What it is.
        found: Format,
        /// What it should be.
        wanted: Format,
        /// What to do.
        hint: &'static str,
    },
    /// The file is what it should be, but cannot be used.
    #[error("{path}: {what}")]
    Unusable {
        /// The file.
        path: PathBuf,
        /// Why, and what to do.
        what: String,
    },
    /// What was found cannot be written out.
    #[error("writing the dump: {0}")]
    Output(#[from] io::Error),
}

/// Result of a dump.
pub type Result<T> = std::result::Result<T, DumpError>;
