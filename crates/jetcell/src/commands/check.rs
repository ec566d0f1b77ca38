//! `jetcell check`: is the file sound, and if not, what is wrong where and what does it mean?

mod output;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use ese_check::{Cancel, CheckOptions, CheckOutcome, FileReport, Format, Throttle, check_files};
use ese_format::PageNumber;
use jetcell_vfs::{RealOptions, RealVfs};

use crate::commands::check::output::{Json, Output, Text};
use crate::outcome::{Outcome, complain};

/// What to check, and how.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Check {
    /// Also walk every tree: order, links, records, indexes, long values, catalog, space
    #[arg(long)]
    structure: bool,
    /// JSON, one object a line: findings as they are found, a summary for each file
    #[arg(long)]
    json: bool,
    /// Spare a disk in use: a pause after each read (`5ms`), or a rate (`20MB/s`)
    #[arg(long, value_name = "PAUSE|RATE", value_parser = throttle)]
    throttle: Option<Throttle>,
    /// Begin at this page; for one database, to go on with a check that was stopped
    #[arg(long, value_name = "PAGE", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    from: u32,
    /// Databases, logs, checkpoints, flush maps; or directories, with everything below them
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
}

const EXAMPLES: &str =
    "Files are told by their content, whatever their names. Nothing is ever written to them.
A dirty database is a state, not damage; the check says which logs it needs.

Examples:
  jetcell check priv1.edb                        every page, about as fast as the disk reads
  jetcell check --structure priv1.edb            every tree, record and index entry, too
  jetcell check /backup/mailbox/                 all databases, logs and checkpoints of a directory
  jetcell check --throttle 20MB/s priv1.edb      on a disk that others need
  jetcell check --from 81920 priv1.edb           go on where Ctrl-C stopped a check
  jetcell check --json /backup | jq 'select(.type == \"summary\")'
Exit code 0: sound. 1: something was found. 2: something could not be checked.";

impl Check {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        match self.check() {
            Ok(outcome) => outcome,
            Err(what) => {
                complain(what);
                Outcome::CouldNotRun
            }
        }
    }

    fn check(self) -> Result<Outcome, String> {
        let (paths, skipped) = expand(&self.paths)?;
        if self.from > 1 && (paths.len() != 1 || self.structure) {
            return Err("--from goes with the path of one database and without --structure".to_owned());
        }
        if paths.is_empty() {
            return Err("there are no files in what was given".to_owned());
        }
        let cancel = Cancel::default();
        stop_on_signals(cancel.clone())?;
        let vfs =
            RealVfs::new(RealOptions::default()).map_err(|error| format!("cannot read files: {error}"))?;
        let output: Arc<dyn Output> =
            if self.json { Arc::new(Json::default()) } else { Arc::new(Text::new(self.structure)) };
        let (sink, watched) = (output.clone(), output.clone());
        let options = CheckOptions {
            structure: self.structure,
            sink: Some(Arc::new(move |finding| sink.finding(finding))),
            progress: Some(Arc::new(move |progress| watched.progress(progress))),
            throttle: self.throttle,
            cancel: cancel.clone(),
            from: PageNumber::new(self.from).ok_or("--from begins at page 1")?,
            ..CheckOptions::default()
        };
        let mut worst = Outcome::Good;
        let mut resume = None;
        let sets = check_files(&vfs, &paths, &options, &mut |report| {
            resume = resume.or(report.resume_from);
            worst = worse(worst, self.outcome(&report));
            output.file(report);
        });
        output.end(&sets, &skipped);
        if cancel.is_cancelled() {
            match resume {
                Some(page) if paths.len() == 1 => complain(format!("stopped; go on with --from {page}")),
                _ => complain("stopped before everything was checked"),
            }
            return Ok(Outcome::CouldNotRun);
        }
        if !skipped.is_empty() {
            worst = Outcome::CouldNotRun;
        }
        Ok(worst)
    }

    /// Other files in a directory are no failure; one that was named is.
    fn outcome(&self, report: &FileReport) -> Outcome {
        match report.outcome {
            CheckOutcome::Sound => Outcome::Good,
            CheckOutcome::Findings => Outcome::Findings,
            CheckOutcome::Unreadable if report.format != Format::Unknown => Outcome::CouldNotRun,
            CheckOutcome::Unreadable if self.paths.contains(&report.path) => {
                for finding in &report.findings {
                    complain(format!("{}: {}", report.path.display(), finding.what));
                }
                Outcome::CouldNotRun
            }
            CheckOutcome::Unreadable => Outcome::Good,
        }
    }
}

fn worse(one: Outcome, other: Outcome) -> Outcome {
    match (one, other) {
        (Outcome::CouldNotRun, _) | (_, Outcome::CouldNotRun) => Outcome::CouldNotRun,
        (Outcome::Findings, _) | (_, Outcome::Findings) => Outcome::Findings,
        _ => Outcome::Good,
    }
}

/// The files that are meant, and directories that could not be looked into, with the reason.
fn expand(paths: &[PathBuf]) -> Result<(Vec<PathBuf>, Vec<String>), String> {
    let (mut files, mut skipped) = (Vec::new(), Vec::new());
    for path in paths {
        let failed = |error: io::Error| format!("{}: {error}", path.display());
        let kind = std::fs::metadata(path).map_err(failed)?;
        if kind.is_dir() {
            walk(path, &mut files, &mut skipped);
        } else {
            files.push(path.clone());
        }
    }
    files.dedup();
    Ok((files, skipped))
}

/// Everything below a directory, by name; links to directories are not followed, so that it ends.
fn walk(directory: &Path, files: &mut Vec<PathBuf>, skipped: &mut Vec<String>) {
    let entries = std::fs::read_dir(directory).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let mut entries = match entries {
        Ok(entries) => entries,
        Err(error) => return skipped.push(format!("{}: {error}", directory.display())),
    };
    entries.sort_by_key(std::fs::DirEntry::path);
    for entry in entries {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => walk(&path, files, skipped),
            _ if path.is_file() => files.push(path),
            _ => {}
        }
    }
}

fn throttle(text: &str) -> Result<Throttle, String> {
    let wrong = || format!("`{text}` is neither a pause such as 5ms nor a rate such as 20MB/s");
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let unit = unit.trim().to_ascii_lowercase();
    let pause = |seconds: f64| Duration::try_from_secs_f64(seconds).map(Throttle::Pause).map_err(|_| wrong());
    let rate = |factor: f64| {
        let bytes = (number * factor) as u64;
        if bytes == 0 { Err(wrong()) } else { Ok(Throttle::BytesPerSecond(bytes)) }
    };
    match unit.strip_suffix("/s").unwrap_or(&unit) {
        "us" => pause(number / 1e6),
        "ms" => pause(number / 1e3),
        "s" => pause(number),
        "kb" => rate(1e3),
        "kib" => rate(1024.0),
        "mb" | "" => rate(1e6),
        "mib" => rate(1_048_576.0),
        "gb" => rate(1e9),
        "gib" => rate(1_073_741_824.0),
        _ => Err(wrong()),
    }
}

/// The first signal asks the check to stop, the second leaves.
fn stop_on_signals(cancel: Cancel) -> Result<(), String> {
    ctrlc::set_handler(move || {
        if cancel.is_cancelled() {
            std::process::exit(130);
        }
        cancel.cancel();
    })
    .map_err(|error| format!("Ctrl-C cannot be handled: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throttles_are_pauses_or_rates() {
        assert_eq!(throttle("5ms"), Ok(Throttle::Pause(Duration::from_millis(5))));
        assert_eq!(throttle("0.5s"), Ok(Throttle::Pause(Duration::from_millis(500))));
        assert_eq!(throttle("20MB/s"), Ok(Throttle::BytesPerSecond(20_000_000)));
        assert_eq!(throttle("1MiB"), Ok(Throttle::BytesPerSecond(1 << 20)));
        assert_eq!(throttle("20"), Ok(Throttle::BytesPerSecond(20_000_000)));
        for wrong in ["", "ms", "-5ms", "5 lightyears", "0MB/s", "1e400s", "999999999999999999999s"] {
            assert!(throttle(wrong).is_err(), "{wrong}");
        }
    }
}
