//! RAID reliability: computes the probability that an array loses data.
//!
//! The crate only computes: it does not read files or the clock, and does not print. Inputs have units ([`units`]).
//! Results are plain values that commands and reports print. `docs/internals/models.md` contains the formulas,
//! symbols, and sources.
//!
//! * [`inputs`] contains the user's inputs and derives a case from them. [`mod@array`] describes how drives are
//!   arranged. [`rates`] contains the rates at which drives fail and are restored. [`rebuild`], [`scrub`] and
//!   [`spares`] derive two of these rates.
//! * [`diagram`] defines the states, [`model`] chooses the diagram, [`chain`] solves it. [`approximation`] contains
//!   closed formulas for comparison.
//! * [`sensitivity`], [`curve`] and [`comparison`] solve many variants of the inputs.
//! * [`simulation`] is a Monte Carlo simulation that does not assume constant rates.
//! * [`assessment`] contains the result, with a [`calculation_step`] for each formula.

#![forbid(unsafe_code)]

pub mod approximation;
pub mod array;
pub mod assessment;
pub mod calculation_step;
mod case;
pub mod chain;
pub mod comparison;
pub mod curve;
pub mod diagram;
mod error;
pub mod inputs;
pub mod model;
pub mod rates;
pub mod rebuild;
pub mod scrub;
pub mod sensitivity;
pub mod simulation;
pub mod spares;
pub mod units;

pub use array::{ArrayShape, DriveSet, RaidType};
pub use assessment::ReliabilityAssessment;
pub use calculation_step::CalculationStep;
pub use case::{MAX_YEARS, ReliabilityCase};
pub use chain::LossProbability;
pub use error::Error;
pub use inputs::{AfrInterpretation, ReliabilityInputs};
pub use model::{GeneralModelRules, MarkovModel};
pub use rates::EventRates;
pub use scrub::ScrubPolicy;

/// Runs the README's example as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExample;
