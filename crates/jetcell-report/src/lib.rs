//! Renders results: one result in, text out. Nothing is measured or decided here.
//!
//! What is said is in `tables`, `advice` and `series`; how it is shown is in [`html`], [`markdown`], [`csv`] and
//! [`text`].

mod advice;
pub mod chart;
pub mod comparison;
mod csv;
#[cfg(test)]
mod documented;
#[cfg(test)]
mod example;
mod html;
mod markdown;
mod number;
#[cfg(test)]
mod published;
mod series;
mod stored;
mod table;
mod tables;
mod text;

pub use crate::csv::csv;
pub use comparison::Comparison;
pub use html::html;
pub use markdown::markdown;
pub use stored::{Stored, Unreadable};
pub use text::text;
