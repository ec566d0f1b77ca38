//! Renders the results of storage tests: [`html`], [`markdown`], [`csv`] and [`text`] show one run, [`comparison`] shows
//! several runs beside each other, [`esrp`] makes the document that vendors publish, and [`Stored`] reads a run from its
//! directory. This crate measures and judges no storage.
//!
//! The contents are in the private modules `tables`, `advice` and `series`; every format shows the same tables.

#![forbid(unsafe_code)]

mod advice;
pub mod chart;
pub mod comparison;
mod csv;
#[cfg(test)]
mod documented;
mod drive_test;
pub mod esrp;
#[cfg(test)]
mod example;
mod fragmentation;
mod html;
mod markdown;
mod number;
mod printable;
#[cfg(test)]
mod published;
mod run_lines;
mod series;
mod stored;
mod table;
mod tables;
mod text;

pub use crate::csv::csv;
pub use comparison::Comparison;
pub use drive_test::{drive_test_markdown, drive_test_text};
pub use fragmentation::fragmentation_text;
pub use html::html;
pub use markdown::markdown;
pub use printable::{printable, printable_lines};
pub use run_lines::run_lines;
pub use stored::{Stored, Unreadable};
pub use text::text;
