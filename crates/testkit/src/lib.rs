//! Helpers for tests only: certificates, the corpus of real files, skipped tests, damaged copies of files, comparable
//! pages, and golden files.

#![forbid(unsafe_code)]

pub mod certificates;
pub mod corpus;
pub mod damage;
pub mod golden;
pub mod pages;
pub mod samples;
mod skip;

pub use skip::{TestRequirement, skip};
