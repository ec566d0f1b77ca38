//! `jetcell raid destroy`: destroys an array.

use std::path::PathBuf;

use clap::Args;
use jetcell_array_service::ArrayDirectory;
use serde_json::json;

use super::array_operation::require_force;
use super::output_options::OutputOptions;
use crate::outcome::{CommandOutcome, CommandResult};
use crate::shared::array_environment::array_environment;

/// Destroy an array: its members become ordinary files, and its content is lost
#[derive(Args)]
#[command(after_help = "\
Overwrites the superblocks of the members and of former members; the files and the events remain. The command also works for an array
that cannot start. A path that is now a link to a file is not changed, and a note is printed. A former member that now belongs to
another array is not changed either.

Examples:
  jetcell raid destroy arr1 --force

Exit code: 0 destroyed, 2 could not run.")]
pub struct RaidDestroyArgs {
    /// Directory of the array
    #[arg(value_name = "ARRAY")]
    array: PathBuf,
    /// Confirm the loss of the array's content
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    shown: OutputOptions,
}

impl RaidDestroyArgs {
    pub fn destroy(&self) -> CommandResult {
        let directory = ArrayDirectory::open(&self.array)?;
        require_force(self.force, &self.array, "delete all data in the array")?;
        let shown = self.array.display();
        let erased = directory.destroy(&array_environment()?)?;
        self.shown.print(
            &json!({ "members": erased }),
            &format!("{shown}: the array was destroyed; {erased} files are no longer members"),
        );
        Ok(CommandOutcome::Good)
    }
}
