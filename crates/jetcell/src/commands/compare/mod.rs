//! `jetcell compare`: compares stored runs or drives.

#[cfg(feature = "lab")]
mod drives;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use jetcell_report::{RunComparison, StoredRun, StyledText, comparison};
use jetcell_vfs::replace_output;
use jetcell_workload::Verdict;

use crate::console;
#[cfg(not(feature = "lab"))]
use crate::disabled_command::disabled_feature_error;
use crate::outcome::{CommandContext, CommandError, CommandOutcome, CommandResult};

/// Maximum number of runs in a comparison. A chart with more lines would not be readable.
const MAX_RUNS: usize = 24;

const EXAMPLES: &str = "\
Examples:
  jetcell compare ext4/Performance_2026-11-21_09-36-04 xfs/Performance_2026-11-21_10-12-44
      compares the second with the first, in the terminal
  jetcell compare runs/* --base 3 --format html --output comparison.html
      compares all with the third, with charts
  jetcell compare before after --format json
      for programs
  jetcell compare --drives drives.toml --format html --output drives.html
      compares drives for a purchase: tests, mail load, price and energy of each; docs/choose-drives.md explains the list

Differences are in percent of the base. A positive difference is better: for latencies and other figures
where less is better, the sign is reversed. Runs with --repeat have 95 % confidence intervals; if noise
could explain a difference, no difference is shown.

Exit code: 0 every run passed, 1 a run failed or is incomplete, 2 a run could not be read.
The command changes nothing in the directories.";

/// Compare stored runs, with their differences in percent
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct CompareArgs {
    /// Two or more runs: their directories or their result.json
    #[arg(required_unless_present = "drives", value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// Compare the drives in this list: drive tests, mail load, price, energy
    #[arg(long, value_name = "FILE", conflicts_with_all = ["runs", "base"])]
    drives: Option<PathBuf>,
    /// Run to compare the others with: its number, counted from 1, or its name
    #[arg(long, value_name = "RUN", default_value = "1")]
    base: String,
    /// Output format
    #[arg(long, value_enum, default_value_t = ComparisonFormat::Text)]
    format: ComparisonFormat,
    /// Write to this file, atomically
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ComparisonFormat {
    /// Text for a terminal, in lines of at most 100 columns
    Text,
    /// A single page with charts, without external resources
    Html,
    /// Markdown with tables in GitHub's dialect
    Markdown,
    /// CSV, one line for each value of each run
    Csv,
    /// JSON with all values
    Json,
}

/// A comparison in one of the formats. Only human-readable text is coloured and wrapped.
enum ComparisonOutput {
    Terminal(StyledText),
    File(String),
}

impl CompareArgs {
    /// Runs the command.
    pub fn run(self) -> CommandResult {
        #[cfg(feature = "lab")]
        if let Some(list) = &self.drives {
            self.write_output(drives::compare_drives(list, self.format)?)?;
            return Ok(CommandOutcome::Good);
        }
        #[cfg(not(feature = "lab"))]
        if self.drives.is_some() {
            return Err(disabled_feature_error("--drives", "lab"));
        }
        let directories = directories(&self.runs)?;
        let base = self.find_base(&directories)?;
        let read = |(name, directory): (&PathBuf, &PathBuf)| -> CommandResult<(String, StoredRun)> {
            let stored = StoredRun::read(directory)?;
            Ok((name.display().to_string(), stored))
        };
        let runs: Vec<(String, StoredRun)> =
            self.runs.iter().zip(&directories).map(read).collect::<Result<_, _>>()?;
        check_same_kind(&runs)?;
        let comparison = RunComparison::new(&runs, base);
        let text = match self.format {
            ComparisonFormat::Text => {
                ComparisonOutput::Terminal(comparison::text(&comparison, console::width()))
            }
            ComparisonFormat::Html => ComparisonOutput::File(comparison::html(&comparison)),
            ComparisonFormat::Markdown => ComparisonOutput::File(comparison::markdown(&comparison)),
            ComparisonFormat::Csv => ComparisonOutput::File(comparison::csv(&comparison)),
            ComparisonFormat::Json => ComparisonOutput::File(comparison::json(&comparison)?),
        };
        self.write_output(text)?;
        let all_passed = runs.iter().all(|(_, run)| run.result.verdict == Verdict::Pass);
        Ok(CommandOutcome::good_if(all_passed))
    }

    fn write_output(&self, output: ComparisonOutput) -> CommandResult<()> {
        match (&self.output, output) {
            (Some(path), output) => {
                let text = match &output {
                    ComparisonOutput::Terminal(text) => text.as_str(),
                    ComparisonOutput::File(text) => text,
                };
                replace_output(path, text).context(format_args!("{}: cannot be written", path.display()))?;
            }
            (None, ComparisonOutput::Terminal(text)) => console::print_wrapped(text),
            (None, ComparisonOutput::File(text)) => {
                console::print_json_or_lines(self.format == ComparisonFormat::Json, &text);
            }
        }
        Ok(())
    }

    /// Returns the index of the base run.
    fn find_base(&self, directories: &[PathBuf]) -> CommandResult<usize> {
        // A name takes precedence over a number, because a directory may be named 2.
        let runs_named = |name: &OsStr| -> Vec<usize> {
            let is_named = |run: &usize| {
                let has_path_named = |paths: &[PathBuf]| {
                    paths
                        .get(*run)
                        .is_some_and(|path| path == Path::new(name) || path.file_name() == Some(name))
                };
                has_path_named(&self.runs) || has_path_named(directories)
            };
            (0..directories.len()).filter(is_named).collect()
        };
        match (runs_named(OsStr::new(&self.base)).as_slice(), self.base.parse::<usize>()) {
            ([one], _) => Ok(*one),
            ([_, ..], _) => {
                Err(CommandError::new(format_args!("--base {}: several runs have this name", self.base))
                    .advise("use the number of the run instead"))
            }
            ([], Ok(number)) if (1..=directories.len()).contains(&number) => Ok(number - 1),
            ([], _) => Err(CommandError::new(format_args!("--base {}: no run has this name", self.base))
                .advise(format!("use a number from 1 to {}, or the name of a run", directories.len()))),
        }
    }
}

/// Fails if the runs come from different kinds of tests, because their results are not comparable.
fn check_same_kind(runs: &[(String, StoredRun)]) -> CommandResult<()> {
    let Some((first, rest)) = runs.split_first() else { return Ok(()) };
    let test = |run: &(String, StoredRun)| run.1.result.test.name();
    match rest.iter().find(|run| test(run) != test(first)) {
        Some(other) => Err(CommandError::new(format_args!(
            "{} is a {} test and {} a {} test",
            first.0,
            test(first),
            other.0,
            test(other)
        ))
        .advise("compare runs of the same test")),
        None => Ok(()),
    }
}

/// Returns the directories of the runs. Fails unless there are at least two runs and all are different.
fn directories(runs: &[PathBuf]) -> CommandResult<Vec<PathBuf>> {
    if runs.len() < 2 {
        return Err(CommandError::new("a comparison needs two or more runs")
            .advise("add another run, or show one run with jetcell report"));
    }
    if runs.len() > MAX_RUNS {
        return Err(CommandError::new(format_args!(
            "{} runs: at most {MAX_RUNS} can be compared",
            runs.len()
        ))
        .advise("specify fewer runs"));
    }
    let mut real: Vec<PathBuf> = Vec::new();
    let mut directories = Vec::new();
    for run in runs {
        let directory = match (run.is_file(), run.file_name() == Some(OsStr::new("result.json"))) {
            (false, _) => run.clone(),
            (true, true) => match run.parent() {
                Some(parent) if parent != Path::new("") => parent.into(),
                _ => PathBuf::from("."),
            },
            (true, false) => {
                return Err(CommandError::new(format_args!("{} is not a run", run.display()))
                    .advise("specify the directory or the result.json of a run"));
            }
        };
        // If the directory does not exist, the error is reported when the run is read.
        let place = fs::canonicalize(&directory).unwrap_or_else(|_| directory.clone());
        if let Some(first) = real.iter().position(|other| *other == place) {
            return Err(CommandError::new(format_args!(
                "{} is specified twice: it is already run {}",
                run.display(),
                first + 1
            ))
            .advise("omit the second"));
        }
        real.push(place);
        directories.push(directory);
    }
    Ok(directories)
}
