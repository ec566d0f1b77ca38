//! Fuzz targets as plain functions: `fuzz/` wraps them for cargo-fuzz, and [`mutate`] runs them from ordinary
//! tests for a bounded time.
//!
//! A target panics when the input shows a defect: decoding itself must not panic, and what decodes must satisfy the
//! properties stated here.

mod mutate;
mod targets;

pub use mutate::{Campaign, seeds};
pub use targets::{header, log_segment, page, record};
