//! Renders results: one result in, text out. Nothing is measured or decided here.

pub mod chart;
#[cfg(test)]
mod example;
mod html;
mod number;
#[cfg(test)]
mod published;
mod series;
mod stored;
mod text;

pub use html::html;
pub use stored::{Stored, Unreadable};
pub use text::text;
