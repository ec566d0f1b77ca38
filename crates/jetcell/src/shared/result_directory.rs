//! Result directories, which contain an HTML page, Markdown, and JSON for programs.

use std::path::Path;

use jetcell_vfs::{create_private_directory, replace_output};

use crate::outcome::{CommandContext, CommandResult};

/// Writes `report.html`, `report.md` and `result.json`. `result.json` is written last, so a directory that contains
/// it is complete.
pub fn store(directory: &Path, html: &str, markdown: &str, json: &str) -> CommandResult<()> {
    let write = || {
        create_private_directory(directory)?;
        replace_output(&directory.join("report.html"), html)?;
        replace_output(&directory.join("report.md"), markdown)?;
        replace_output(&directory.join("result.json"), json)
    };
    write().context(format_args!("{} cannot be written", directory.display()))
}
