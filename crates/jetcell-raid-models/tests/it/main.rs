//! Compares the models with published figures and with each other.

mod digits;
mod laws;
mod paper;
mod published;
mod simulated;
