//! Test cell: builds ESE databases, runs the mail load on them, then measures, verifies and judges the storage.
//!
//! [`run()`] performs a complete run. Its inputs and results are plain data: a [`Profile`] specifies the run, a
//! [`RunPlan`] lists the files, a [`Measurement`](measurement::Measurement) contains the figures, and a [`RunResult`]
//! contains everything that a report needs. The storage engine is accessed through the small traits in [`engine`],
//! which [`engine_ese`] implements for the real engine.
//!
//! ```no_run
//! use jetcell_workload::engine_ese::{Backend, EseEngine};
//! use jetcell_workload::{Options, Cancellation, run};
//! # struct Quiet;
//! # impl jetcell_workload::Observer for Quiet {
//! #     fn begin_phase(&mut self, _: jetcell_workload::RunPhase, _: u64) {}
//! #     fn advance(&mut self, _: u64, _: &str) {}
//! #     fn log(&mut self, _: &str) {}
//! # }
//! # let observer = &mut Quiet;
//! let options = Options { dirs: vec!["/mnt/db1".into()], ..Options::default() };
//! let profile = options.resolve().expect("valid options");
//! let engine = EseEngine::new(Backend::Auto)?;
//! let finished = run(&profile, &engine, observer, &Cancellation::default())?;
//! println!("{:?}: {}", finished.result.verdict, finished.result.reason);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod drive;
mod endurance;
pub mod engine;
pub mod engine_ese;
mod engine_settings;
mod error;
mod event_file;
pub mod fragmentation;
mod layout;
mod load;
pub mod maintenance;
pub mod measurement;
mod memory_budget;
#[cfg(test)]
#[path = "tests/model_engine.rs"]
mod model_engine;
mod observer;
mod parse_error;
mod plan;
mod prepared;
mod preserved_state_error;
pub mod profile;
pub mod result;
mod run;
mod start_error;
mod state_file;
pub mod units;
mod verdict;
mod watch;

pub use endurance::with_interrupted_options;
pub use error::Error;
pub use event_file::{EVENT_FILE, EventFile};
pub use jetcell_host::Cancellation;
pub use layout::{DEFAULT_DIRECTORY, InstancePlan, RunPlan};
pub use observer::{Observer, ProgressUnit, RunPhase};
pub use parse_error::ParseError;
pub use preserved_state_error::PreservedStateError;
pub use profile::{ConfigurationError, Options, Profile, TestKind};
pub use result::RunResult;
pub use run::{FinishedRun, PhaseError, RunError, run};
pub use start_error::StartError;
pub use verdict::{RuleBound, RuleKind, RuleState, Verdict, VerdictRule};
pub use watch::{BackupWatch, ReplayWatch};

#[cfg(test)]
mod killed_creation_tests;
#[cfg(test)]
mod load_tests;
#[cfg(test)]
mod run_tests;
#[cfg(test)]
mod slow_volume_tests;
