//! Development only: the corpus of real files, and damage made on purpose.

#![forbid(unsafe_code)]

pub mod corpus;
pub mod damage;
