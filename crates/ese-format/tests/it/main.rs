//! Tests with real pages and tables of the corpus.

mod pages;
mod tables;
