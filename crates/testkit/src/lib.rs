//! Development only: the corpus of real files, and damage made on purpose.

pub mod corpus;
pub mod damage;
