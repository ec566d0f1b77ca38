//! The built binary, run as a person would: what it says, how it exits, and that a refusal changes nothing.

mod bad_input;
mod cell;
mod check;
mod dump;
mod raid_reliability;
mod runs;
mod sizing;
mod stored_runs;
mod watching;
