//! `jetcell report --esrp`: writes the ESRP document for several runs.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use jetcell_input::printable;
use jetcell_report::esrp::{EsrpSubmission, ResultSource, SubmissionConfiguration};
use jetcell_vfs::replace_output;

use super::ReportFormat;
use crate::console::{print, print_note};
use crate::outcome::{CommandContext, CommandError, CommandOutcome, CommandResult};

/// Writes the document and lists its inconsistencies on standard output, or on standard error if the document is
/// written to standard output.
pub(super) fn write(
    configuration: &Path,
    runs: &[PathBuf],
    format: Option<ReportFormat>,
    out: Option<&Path>,
) -> CommandResult {
    let is_markdown = out.and_then(Path::extension) == Some(OsStr::new("md"));
    let format = format.unwrap_or(if is_markdown { ReportFormat::Markdown } else { ReportFormat::Html });
    let render: fn(&EsrpSubmission) -> String = match format {
        ReportFormat::Html => EsrpSubmission::html,
        ReportFormat::Markdown => EsrpSubmission::markdown,
        ReportFormat::Text | ReportFormat::Csv | ReportFormat::Json => {
            return Err(CommandError::new("an ESRP document can only be HTML or Markdown")
                .advise("use --format html or --format markdown"));
        }
    };
    let configuration = SubmissionConfiguration::read(configuration)?;
    let sources: Result<Vec<ResultSource>, _> = runs.iter().map(|run| ResultSource::read(run)).collect();
    let submission = EsrpSubmission::new(configuration, sources?)?;
    let document = render(&submission);
    let findings = submission.findings();
    match out {
        Some(path) => {
            replace_output(path, &document)
                .context(format_args!("{}: cannot be written", path.display()))
                .advise("specify a different --output")?;
            let lines = findings.iter().map(|line| printable(line) + "\n");
            print(&lines.collect::<String>());
        }
        None => {
            findings.iter().for_each(|line| print_note(line));
            print(&document);
        }
    }
    Ok(CommandOutcome::good_if(submission.is_passed()))
}
