//! Monte Carlo simulation with rates that depend on age, which the Markov models cannot represent.
//!
//! [`law`] and [`laws`] are the distributions of the times, [`life`] simulates one set of drives, and [`estimate`]
//! simulates many sets.
//!
//! The rules are those of the general chain. When a drive fails, the number of missing drives is the number of failed
//! drives, plus one if another drive has a defect. The set loses data if this number exceeds the number of parities.
//! A defect that arises afterwards is not a loss. Scrubs continue while drives are missing. A rebuild does not repair
//! the defects of other drives. A replaced drive starts with age 0.

pub mod estimate;
pub mod law;
pub mod laws;
pub mod life;

pub use estimate::{Effort, Estimate};
pub use laws::{Laws, Shapes};
pub use life::{AfterLoss, Experiment};
