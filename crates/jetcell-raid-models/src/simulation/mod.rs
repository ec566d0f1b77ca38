//! Monte Carlo simulation with age-dependent rates, which the Markov models cannot represent.
//!
//! [`weibull`] and [`event_distributions`] define the time distributions, [`drive_set`] simulates one set of drives,
//! and [`estimate`] simulates many.
//!
//! The rules are the same as in the general chain. When a drive fails, the set loses data if the number of failed
//! drives, plus one if another drive has a defect, exceeds the number of parities. A defect that arises afterwards is
//! not a loss. Scrubs continue while drives are missing. A rebuild does not repair other drives' defects. A replacement
//! drive starts at age 0.

pub mod drive_set;
pub mod estimate;
pub mod event_distributions;
pub mod weibull;

pub use drive_set::{AfterLossAction, LossSimulation};
pub use estimate::{LossEstimate, SimulationSettings};
pub use event_distributions::{DistributionShapes, EventDistributions};
