//! Reliability of RAID: the probability that an array loses data.
//!
//! The crate only calculates: it reads no file and no clock and prints nothing. Inputs have units ([`units`]). Results
//! are plain values that commands and reports print. Formulas, symbols and sources are in `docs/models.md`.
//!
//! * [`question`] has the user's inputs and makes a case of them. [`mod@array`] is the layout of the drives, [`rates`] how
//!   often drives fail and are restored. [`rebuild`], [`scrub`] and [`spares`] derive two of the rates.
//! * [`diagram`] defines the states, [`model`] chooses the diagram, [`chain`] solves it. [`approximation`] has closed
//!   formulas for comparison.
//! * [`sensitivity`], [`curve`] and [`comparison`] solve many variants of a question.
//! * [`simulation`] is a Monte Carlo simulation without constant rates.
//! * [`assessment`] is the result, with a [`step`] for each formula.

#![forbid(unsafe_code)]

pub mod approximation;
pub mod array;
pub mod assessment;
mod case;
pub mod chain;
pub mod comparison;
pub mod curve;
pub mod diagram;
mod error;
pub mod model;
pub mod question;
pub mod rates;
pub mod rebuild;
pub mod scrub;
pub mod sensitivity;
pub mod simulation;
pub mod spares;
pub mod step;
mod text;
pub mod units;

pub use array::{Array, RaidType, Set};
pub use assessment::Assessment;
pub use case::{Case, MOST_YEARS};
pub use chain::Fate;
pub use error::Error;
pub use model::{General, Model};
pub use question::{AfrReading, Question};
pub use rates::Rates;
pub use scrub::Scrub;
pub use step::Step;

/// The example of the README, as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExample;
