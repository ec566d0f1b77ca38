//! For tests only: the corpus of real files, and damage to copies of files.

#![forbid(unsafe_code)]

pub mod corpus;
pub mod damage;
