//! What an array does beside reads and writes: rebuilding, copying and scrubbing in small steps, and changes of its members.
//!
//! A step handles some rows, so that the caller decides how much of it happens between reads and writes; [`Throttle`] helps.

#[cfg(test)]
mod concurrent_load_tests;
#[cfg(test)]
mod interruption_tests;
mod members;
mod rebuild;
mod scrub;
#[cfg(test)]
mod tests;
mod throttle;
mod zones_ahead;

pub use rebuild::RebuildProgress;
pub use scrub::{Disagreement, ScrubReport};
pub use throttle::Throttle;
