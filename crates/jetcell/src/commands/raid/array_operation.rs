//! Runs one operation on an array and prints the result.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use jetcell_array_service::{
    ArrayOperation, ArrayStartOptions, OperationControl, OperationProgress, perform,
};
use jetcell_backup::{BackupProgress, TransferControl};

use super::operation_output;
use super::output_options::OutputOptions;
use crate::console;
use crate::outcome::{CommandError, CommandOutcome, CommandResult};
use crate::shared::array_environment::array_environment;
use crate::shared::transfer_progress::TransferProgress;

/// Options for starting an array.
#[derive(Args)]
pub struct ArrayStartArgs {
    /// Directory of the array
    #[arg(value_name = "ARRAY")]
    pub array: PathBuf,
    /// Start even if the array was not shut down cleanly and members are missing; the last writes may be lost
    #[arg(long)]
    start_degraded: bool,
}

/// Options of a command that runs an operation on an array.
#[derive(Args)]
pub struct ArrayOperationArgs {
    #[command(flatten)]
    pub start: ArrayStartArgs,
    #[command(flatten)]
    shown: OutputOptions,
}

/// Fails unless the user confirmed an operation that loses data of an array.
pub fn require_force(force: bool, array: &Path, what: impl Display) -> CommandResult<()> {
    if force {
        return Ok(());
    }
    Err(CommandError::new(format_args!("{}: this would {what}", array.display()))
        .advise("to continue, add --force"))
}

/// Returns the title of the progress display, or `None` if the operation does not show progress.
fn progress_title(operation: &ArrayOperation) -> Option<&'static str> {
    match operation {
        ArrayOperation::Replace { .. } | ArrayOperation::Rebuild { .. } => Some("Rebuild"),
        ArrayOperation::Scrub { .. } => Some("Scrub"),
        _ => None,
    }
}

impl ArrayStartArgs {
    pub fn options(&self) -> ArrayStartOptions {
        ArrayStartOptions { array: self.array.clone(), start_degraded: self.start_degraded }
    }
}

impl ArrayOperationArgs {
    /// Runs an operation on the array, in this process or in the process that uses the array, and prints the result.
    pub fn perform(&self, operation: ArrayOperation) -> CommandResult {
        let (shown, pace) = match progress_title(&operation) {
            Some(title) => {
                let (shown, pace) = TransferProgress::start(title, None)?;
                (Some(shown), pace)
            }
            None => (None, TransferControl::default()),
        };
        let performed =
            perform(&self.start.options(), operation, &array_environment()?, operation_control(pace))?;
        drop(shown);
        let name = self.start.array.display();
        console::print_result(
            self.shown.json,
            || operation_output::json(&performed.result),
            || operation_output::text(&performed, name),
        );
        Ok(CommandOutcome::good_if(performed.result.is_good()))
    }
}

fn operation_control(pace: TransferControl) -> OperationControl {
    let progress = pace.progress.map(|show| {
        let show = move |OperationProgress { done, total, moved }| {
            show(BackupProgress { done, total, transferred: moved });
        };
        Arc::new(show) as Arc<dyn Fn(OperationProgress) + Send + Sync>
    });
    OperationControl { cancel: pace.cancel, progress }
}
