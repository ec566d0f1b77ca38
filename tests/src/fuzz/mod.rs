//! Fuzz targets as plain functions. `fuzz/` wraps them for cargo-fuzz. A [`FuzzCampaign`] runs them from ordinary tests
//! for a bounded time. The program `fuzz` runs them, and the readers of whole files, for a chosen time.
//!
//! A target panics if the input reveals a bug. Decoding itself must not panic, and a decoded value must have the
//! properties that the targets assert.

mod files;
mod mutate;
mod targets;

pub use files::{FuzzedReader, artifact, mutate_file, real_files};
pub use mutate::{FuzzCampaign, mutant, seeds};
pub use targets::{header, log_segment, page, record, replay};
