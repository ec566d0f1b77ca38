//! Development only: simulated worlds, the corpus of real files, independent readers, fuzz entry points.

pub mod corpus;
pub mod damage;
pub mod fuzz;
pub mod killed;
pub mod logged;
pub mod readers;
pub mod simulation;
