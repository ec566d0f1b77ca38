//! `jetcell report --esrp`: writes the ESRP document for several runs.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use jetcell_input::printable;
use jetcell_report::esrp::{Configuration, Source, Submission};

use super::Format;
use crate::console::{note, print};
use crate::outcome::{Failure, Outcome};
use crate::whole_file;

/// Writes the document and lists its inconsistencies on standard output, or on standard error if the document is
/// written to standard output.
pub(super) fn write(
    configuration: &Path,
    runs: &[PathBuf],
    format: Option<Format>,
    out: Option<&Path>,
) -> Result<Outcome, Failure> {
    let is_markdown = out.and_then(Path::extension) == Some(OsStr::new("md"));
    let format = format.unwrap_or(if is_markdown { Format::Markdown } else { Format::Html });
    let render: fn(&Submission) -> String = match format {
        Format::Html => Submission::html,
        Format::Markdown => Submission::markdown,
        Format::Text | Format::Csv | Format::Json => {
            return Err(
                "an ESRP document is HTML or Markdown; give --format html or --format markdown".into()
            );
        }
    };
    let configuration = Configuration::read(configuration).map_err(|error| error.to_string())?;
    let sources: Result<Vec<Source>, _> = runs.iter().map(|run| Source::read(run)).collect();
    let sources = sources.map_err(|error| error.to_string())?;
    let submission = Submission::of(configuration, sources).map_err(|error| error.to_string())?;
    let document = render(&submission);
    let findings = submission.findings();
    match out {
        Some(path) => {
            whole_file::write(path, &document).map_err(|error| {
                format!("{}: cannot be written: {error}; give another --out", path.display())
            })?;
            let lines = findings.iter().map(|line| printable(line) + "\n");
            print(&lines.collect::<String>());
        }
        None => {
            findings.iter().for_each(|line| note(line));
            print(&document);
        }
    }
    Ok(if submission.is_good() { Outcome::Good } else { Outcome::Findings })
}
