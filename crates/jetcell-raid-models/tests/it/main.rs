//! The models against published figures and against each other.

mod digits;
mod laws;
mod paper;
mod published;
mod simulated;
