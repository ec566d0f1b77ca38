//! `jetcell raid destroy`: destroys an array.

use std::path::PathBuf;

use clap::Args;
use jetcell_array_service::{ArrayDirectory, DestroyedArray};
use jetcell_input::{json_paths, printable_rows};
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
another array is not changed either. One that cannot be read is not changed, and is listed.

Examples:
  jetcell raid destroy arr1 --force

Exit code: 0 destroyed, 1 destroyed, but a former member cannot be read, 2 could not run.")]
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
        let DestroyedArray { erased, unreadable } = directory.destroy(&array_environment()?)?;
        let mut lines =
            vec![format!("{shown}: the array was destroyed; {erased} files are no longer members")];
        let line = |path: &PathBuf| {
            format!(
                "{}: NOT ERASED: this former member may still have a superblock of the array",
                path.display()
            )
        };
        lines.extend(unreadable.iter().map(line));
        self.shown.print(
            &json!({ "members": erased, "unreadable": json_paths(&unreadable) }),
            &printable_rows(&lines),
        );
        Ok(CommandOutcome::good_if(unreadable.is_empty()))
    }
}
