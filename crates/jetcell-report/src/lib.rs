//! Renders the results of storage tests. [`html`], [`markdown`], [`csv`] and [`text`] render one run, [`comparison`]
//! compares several runs, [`esrp`] creates the document that vendors publish, and [`StoredRun`] reads a run from its
//! directory. Commands whose result is not a run build a [`ReportPage`] from [`ReportTable`]s, [`chart::Chart`]s and
//! [`BarChart`] in the same design. This crate neither measures nor judges storage.
//!
//! The private modules `tables`, `advice` and `series` provide the content; every format shows the same tables.

#![forbid(unsafe_code)]

mod advice;
mod array_series;
mod bars;
pub mod chart;
pub mod comparison;
mod csv;
#[cfg(test)]
mod documented_rule_tests;
#[cfg(feature = "lab")]
mod drive_test;
#[cfg(feature = "lab")]
mod drives;
#[cfg(feature = "lab")]
mod durability;
pub mod esrp;
#[cfg(test)]
#[path = "tests/example.rs"]
mod example;
#[cfg(feature = "lab")]
mod experiment;
#[cfg(feature = "lab")]
mod filesystems;
#[cfg(feature = "lab")]
mod fragmentation;
mod html;
mod line_wrapping;
mod markdown;
mod number;
mod page;
#[cfg(test)]
mod palette_tests;
#[cfg(test)]
mod published_figure_tests;
#[cfg(test)]
mod rendered_page_tests;
mod run_lines;
mod series;
mod standalone;
mod stored;
mod styled_text;
mod table;
mod tables;
mod text;
mod text_table;

pub use crate::csv::{csv, table_csv};
pub use bars::{BarChart, BarItem};
pub use comparison::RunComparison;
#[cfg(feature = "lab")]
pub use drive_test::{drive_test_html, drive_test_markdown, drive_test_text};
#[cfg(feature = "lab")]
pub use drives::{drives_csv, drives_html, drives_markdown, drives_text};
#[cfg(feature = "lab")]
pub use durability::{durability_html, durability_markdown, durability_text};
#[cfg(feature = "lab")]
pub use experiment::{experiment_html, experiment_markdown, experiment_text};
#[cfg(feature = "lab")]
pub use filesystems::{filesystems_html, filesystems_markdown, filesystems_text};
#[cfg(feature = "lab")]
pub use fragmentation::{fragmentation_html, fragmentation_markdown, fragmentation_text};
pub use html::html;
pub use line_wrapping::fold;
pub use markdown::{markdown, tables_markdown};
pub use page::{ReportPage, tables_html};
pub use run_lines::run_lines;
pub use stored::{MAX_RESULT_BYTES, RunReadError, StoredRun};
pub use styled_text::StyledText;
pub use table::{CellValue, Digits, ReportCell, ReportColumn, ReportTable, Tone};
pub use tables::{rule_state_cell, verdict_tone};
pub use text::{outcome_line, text, verdict_line};
pub use text_table::{flush_table_text, table_text, wrap, wrap_styled};
