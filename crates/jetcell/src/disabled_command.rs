//! Commands and options that are missing from this build because their Cargo feature is disabled.

use std::ffi::OsString;

use clap::Args;

use crate::outcome::{CommandError, CommandResult};

/// Placeholder for a command whose feature is disabled. It accepts all arguments, so that every use of the command
/// explains how to get it.
#[derive(Args)]
#[command(disable_help_flag = true)]
pub struct DisabledCommand {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _arguments: Vec<OsString>,
}

impl DisabledCommand {
    /// Explains how to get the command `name`.
    pub fn run(self, name: &str, feature: &str) -> CommandResult {
        Err(disabled_feature_error(&format!("jetcell {name}"), feature))
    }
}

/// Returns an error that explains how to get `what`.
pub fn disabled_feature_error(what: &str, feature: &str) -> CommandError {
    CommandError::new(format_args!("{what} is not part of this build")).advise(format!(
        "build it with `cargo install --path crates/jetcell --features {feature}`, or `--features full` for everything"
    ))
}
