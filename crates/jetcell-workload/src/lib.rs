//! The test cell: builds ESE databases, drives the mail load on them, measures, verifies and judges.
//!
//! [`Profile`] → [`Plan`] → [`fill`](fill::fill) → [`Drive`](drive::Drive) → [`judge`](verdict::judge) →
//! [`RunResult`], each a plain value; [`run()`] goes through all of them. The engine is reached through the narrow
//! traits of [`engine`].

pub mod arithmetic;
mod assembly;
pub mod creation;
pub mod drive;
pub mod engine;
pub mod engine_ese;
pub mod existing;
pub mod fill;
pub mod generator;
pub mod host;
mod interim;
pub mod limit;
pub mod load;
pub mod machine;
pub mod measure;
#[cfg(test)]
mod model;
pub mod pace;
pub mod plan;
mod probe;
pub mod profile;
mod recorder;
pub mod repeat;
pub mod result;
mod run;
pub mod sampler;
pub mod saturation;
pub mod scan;
pub mod search;
pub mod skew;
pub mod steady;
mod test_log;
pub mod units;
pub mod verdict;
mod volume;
pub mod watch;

pub use plan::{DEFAULT_DIRECTORY, Plan, Refusal};
pub use profile::{Mistake, Options, Profile};
pub use result::{RunResult, Verdict};
pub use run::{CouldNotRun, Finished, run};
pub use sampler::Sample;
pub use watch::{Observer, Phase, StopSignal, Unit};

#[cfg(test)]
mod load_tests;
#[cfg(test)]
mod run_tests;
