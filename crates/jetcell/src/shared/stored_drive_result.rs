//! Stored results of `jetcell disk test`.

use std::path::Path;

use jetcell_input::error_line;
use jetcell_lab::drive::{self, DriveTest};
use jetcell_report::MAX_RESULT_BYTES;
use jetcell_vfs::read_input_bytes;

use crate::outcome::{CommandContext, CommandError, CommandResult};

/// Returns the test result in a directory, and the index of the target with this name. Without a name, the test must
/// have only one target.
pub fn stored_drive_test(directory: &Path, target: Option<&str>) -> CommandResult<(DriveTest, usize)> {
    let path = directory.join("result.json");
    let shown = path.display();
    let text = read_input_bytes(&path, MAX_RESULT_BYTES).context(&shown)?;
    let test: DriveTest = serde_json::from_slice(&text).map_err(|error| {
        let error = error_line(&error);
        CommandError::new(format_args!("{shown}: not a result of `jetcell disk test`: {error}"))
            .advise("specify a directory that jetcell disk test wrote with --output")
    })?;
    if test.schema != drive::SCHEMA {
        return Err(CommandError::new(format_args!(
            "{shown}: its format is version {}, but this program can read only version {}",
            test.schema,
            drive::SCHEMA
        ))
        .advise("use the version of jetcell that wrote it, or test the drive again"));
    }
    let names: Vec<&str> = test.targets.iter().map(|target| target.name.as_str()).collect();
    let at = match target {
        Some(name) => names.iter().position(|known| *known == name),
        None => Some(0).filter(|_| names.len() == 1),
    };
    let at = at.ok_or_else(|| {
        let problem = match target {
            Some(name) => format!("{shown}: no target is named {name}"),
            None => format!("{shown}: the result has {} targets", names.len()),
        };
        CommandError::new(problem)
            .advise(format!("specify a target; available targets: {}", names.join(", ")))
    })?;
    Ok((test, at))
}
