//! Reliability of RAID: the probability of losing data, before the drives are bought.
//!
//! Arithmetic only: no file, no clock, no printing. Values go in with their units ([`units`]), results are plain values
//! that commands and reports print. Formulas, symbols and sources are in `docs/models.md`.
//!
//! * [`question`] takes what people know and makes a case of it: [`array`] is what is bought, [`rates`] how its drives
//!   fail and heal; [`rebuild`], [`scrub`] and [`spares`] are where two of the rates come from.
//! * [`diagram`] draws the states, [`model`] chooses the diagram, [`chain`] solves it, [`approximation`] stands beside.
//! * [`sensitivity`], [`curve`] and [`comparison`] ask the same question many times over.
//! * [`simulation`] does without constant rates.
//! * [`assessment`] is the answer, with a [`step`] for each formula.

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
