//! Commands and options that are missing from this build because their Cargo feature is disabled.

use std::ffi::OsString;

use clap::Args;

use crate::outcome::{Failure, Outcome, print_error};

/// Placeholder for a command whose feature is disabled. It accepts all arguments, so that every use of the command
/// explains how to get it.
#[derive(Args)]
#[command(disable_help_flag = true)]
pub struct NotBuilt {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _arguments: Vec<OsString>,
}

impl NotBuilt {
    /// Explains how to get the command `name`.
    pub fn run(self, name: &str, feature: &str) -> Outcome {
        print_error(not_built(&format!("jetcell {name}"), feature));
        Outcome::CouldNotRun
    }
}

/// Returns an error that explains how to get `what`.
pub fn not_built(what: &str, feature: &str) -> Failure {
    format!(
        "{what} is not part of this build; build it with `cargo install --path crates/jetcell --features {feature}`, or \
         `--features full` for everything"
    )
    .into()
}
