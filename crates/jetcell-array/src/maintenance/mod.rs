//! Array maintenance: rebuilding, copying and scrubbing in small steps.
//!
//! A step processes a limited number of rows. The caller decides how many steps run between reads and writes;
//! [`ArrayMaintenanceThrottle`] helps with this.

#[cfg(test)]
mod concurrent_load_tests;
#[cfg(test)]
mod interruption_tests;
mod rebuild;
mod scrub;
#[cfg(test)]
mod tests;
mod throttle;
mod zone_readahead;

pub use rebuild::RebuildProgress;
pub use scrub::{ParityMismatch, ScrubReport};
pub use throttle::ArrayMaintenanceThrottle;
