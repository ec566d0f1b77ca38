//! `jetcell compare`: stored runs side by side.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use jetcell_report::{Comparison, Stored, comparison};
use jetcell_workload::Verdict;

use crate::outcome::{Outcome, complain};
use crate::whole_file;

/// More cannot be told apart in a chart.
const MOST_RUNS: usize = 24;

const EXAMPLES: &str = "\
Examples:
  jetcell compare ext4/Performance_2026-11-21_09-36-04 xfs/Performance_2026-11-21_10-12-44
      the second against the first, in the terminal
  jetcell compare runs/* --base 3 --format html --output comparison.html
      all against the third, with charts
  jetcell compare before after --format json
      for a program

Differences are in percent of the base. Positive is better: for latencies and other figures where less is
better, the sign is turned. Runs made with --repeat have confidence intervals of 95 %; where they overlap,
no difference is shown.

Exit code: 0 every run passed, 1 a run failed or is incomplete, 2 a run could not be read.
Nothing in the directories is changed.";

/// Shows stored runs side by side, with their differences in percent
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Compare {
    /// Directories of runs, or their result.json; two or more
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// The run that the others are compared with: its number, from 1, or its name as given
    #[arg(long, value_name = "RUN", default_value = "1")]
    base: String,
    /// Form of the output
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Write to a file, which is there whole or not at all
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Format {
    /// For a terminal of 100 columns
    Text,
    /// One page without scripts and without anything from elsewhere, with charts
    Html,
    /// Tables of GitHub's dialect
    Markdown,
    /// One line for each figure of each run
    Csv,
    /// Everything, for programs
    Json,
}

impl Compare {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        match self.compare() {
            Ok(outcome) => outcome,
            Err(what) => {
                complain(what);
                Outcome::CouldNotRun
            }
        }
    }

    fn compare(&self) -> Result<Outcome, String> {
        let directories = directories(&self.runs)?;
        let base = self.base(&directories)?;
        let read = |(name, directory): (&PathBuf, &PathBuf)| -> Result<(String, Stored), String> {
            let stored = Stored::read(directory).map_err(|error| error.to_string())?;
            Ok((name.display().to_string(), stored))
        };
        let runs: Vec<(String, Stored)> =
            self.runs.iter().zip(&directories).map(read).collect::<Result<_, _>>()?;
        let comparison = Comparison::of(&runs, base);
        let text = match self.format {
            Format::Text => comparison::text(&comparison),
            Format::Html => comparison::html(&comparison),
            Format::Markdown => comparison::markdown(&comparison),
            Format::Csv => comparison::csv(&comparison),
            Format::Json => comparison::json(&comparison),
        };
        match &self.output {
            Some(path) => whole_file::write(path, &text)
                .map_err(|error| format!("{}: cannot be written: {error}", path.display()))?,
            None => match io::stdout().lock().write_all(text.as_bytes()) {
                // The reader, such as `head`, has seen enough.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
                written => written.map_err(|error| format!("cannot write the output: {error}"))?,
            },
        }
        let all_passed = runs.iter().all(|(_, run)| run.result.verdict == Verdict::Pass);
        Ok(if all_passed { Outcome::Good } else { Outcome::Findings })
    }

    /// Index of the base.
    fn base(&self, directories: &[PathBuf]) -> Result<usize, String> {
        // A name wins over a number: a directory may be called 2.
        let named = |name: &OsStr| -> Vec<usize> {
            let is = |run: &usize| {
                let of = |paths: &[PathBuf]| {
                    paths
                        .get(*run)
                        .is_some_and(|path| path == Path::new(name) || path.file_name() == Some(name))
                };
                of(&self.runs) || of(directories)
            };
            (0..directories.len()).filter(is).collect()
        };
        match (named(OsStr::new(&self.base)).as_slice(), self.base.parse::<usize>()) {
            ([one], _) => Ok(*one),
            ([_, ..], _) => Err(format!("--base {}: several runs are called so: give its number", self.base)),
            ([], Ok(number)) if (1..=directories.len()).contains(&number) => Ok(number - 1),
            ([], _) => Err(format!(
                "--base {}: no run is called so: give a number from 1 to {}, or a run as it was named",
                self.base,
                directories.len()
            )),
        }
    }
}

/// Where the runs are: two or more, each once.
fn directories(runs: &[PathBuf]) -> Result<Vec<PathBuf>, String> {
    if runs.len() < 2 {
        return Err(
            "one run alone cannot be compared: name two or more, or show it with `jetcell report`".into()
        );
    }
    if runs.len() > MOST_RUNS {
        return Err(format!("{} runs: at most {MOST_RUNS} can be compared", runs.len()));
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
                return Err(format!("{}: not a run: name its directory or its result.json", run.display()));
            }
        };
        // What is not there is complained about by reading it.
        let place = fs::canonicalize(&directory).unwrap_or_else(|_| directory.clone());
        if let Some(first) = real.iter().position(|other| *other == place) {
            return Err(format!(
                "{}: named twice, also as run {}: name each run once",
                run.display(),
                first + 1
            ));
        }
        real.push(place);
        directories.push(directory);
    }
    Ok(directories)
}
