//! Renders results: one result in, text out. Nothing is measured or decided here.

#[cfg(test)]
mod example;
mod html;
mod number;
mod text;

pub use html::html;
pub use text::text;
