//! `jetcell test filesystems`: the mail load on directories of several file systems, in turns.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use jetcell_lab::filesystems::{FilesystemTest, Limits, ROWS, TestedDirectory, compare, figures};
use jetcell_report::{filesystems_html, filesystems_markdown, filesystems_text};
use jetcell_workload::engine_ese::{Backend, EseEngine};
use jetcell_workload::machine::Storage;
use jetcell_workload::profile::Configuration;
use jetcell_workload::units::{DatabaseSize, TimeSpan};
use jetcell_workload::{Observer, Options, ParseError, Phase, StopSignal, TestKind, run};

use crate::commands::empty_directory::require_empty;
use crate::console::{self, print};
use crate::outcome::{Failure, Outcome, print_error};
use crate::whole_file;

const EXAMPLES: &str = "\
Examples:
  jetcell test filesystems /mnt/ext4/run /mnt/xfs/run --output result
      the load of jetcell test performance on both in turns, until the difference is known within 2 %
  jetcell test filesystems /mnt/ext4/run /mnt/btrfs/run --size 20GiB --duration 10m --turns 4 --output result
      larger databases, longer turns, four turns at most
  jetcell test filesystems /mnt/a/run /mnt/b/run --config load.toml --output result --json | jq '.rows[0].differences'
      another load, from the configuration file of jetcell test performance

Files:
  DIR/                         the databases, in new or empty directories; they stay, remove them when you are done
  OUTPUT/                      result.json, report.md, report.html with charts
  OUTPUT/runs/N-T/             each run: number of the directory and of the turn; jetcell report shows it

Exit code: 0 compared, 1 stopped early, 2 could not run.";

/// Runs the mail load on several file systems in turns, and compares them with confidence intervals
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct FilesystemsTest {
    /// New or empty directories, one on each file system
    #[arg(value_name = "DIR", required = true, num_args = 2..)]
    directories: Vec<PathBuf>,
    /// Directory for the result; it must be empty or new
    #[arg(long, value_name = "DIR")]
    output: PathBuf,
    /// Size of the database in each directory [default: 1GiB, or as in --config]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    size: Option<DatabaseSize>,
    /// Measured time of a turn in each directory [default: 60s, or as in --config]
    #[arg(long, value_name = "TIME", value_parser = span)]
    duration: Option<TimeSpan>,
    /// Other options of the load: a configuration file of jetcell test performance
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// End when the intervals of the differences of transactional I/O are within so many percent to both sides
    #[arg(long, value_name = "PERCENT", default_value_t = 2.0, value_parser = percent)]
    precision: f64,
    /// Fewest turns
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=1000))]
    fewest_turns: u16,
    /// Most turns
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1000))]
    turns: u16,
    /// Begin no further turn after this time
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = span)]
    longest: TimeSpan,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// Print no progress
    #[arg(long)]
    quiet: bool,
}

fn size(text: &str) -> Result<DatabaseSize, String> {
    text.parse().map_err(|error: ParseError| error.to_string())
}

fn span(text: &str) -> Result<TimeSpan, String> {
    text.parse().map_err(|error: ParseError| error.to_string())
}

fn percent(text: &str) -> Result<f64, String> {
    let value = text.trim_end_matches('%').trim().parse::<f64>().ok();
    value
        .filter(|value| (0.01..=100.0).contains(value))
        .ok_or_else(|| format!("`{text}` is no precision; write percent, from 0.01 to 100"))
}

/// Why a turn has no figures.
enum Stopped {
    Early,
    Failed(Failure),
}

impl FilesystemsTest {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        match self.test() {
            Ok(result) => {
                print(&match self.json {
                    true => json(&result),
                    false => filesystems_text(&result, console::width()),
                });
                Outcome::Good
            }
            Err(Stopped::Early) => {
                print_error("stopped; there is no result of a part of a test");
                Outcome::Findings
            }
            Err(Stopped::Failed(failure)) => {
                print_error(failure);
                Outcome::CouldNotRun
            }
        }
    }

    fn test(&self) -> Result<FilesystemTest, Stopped> {
        let options = self.prepare().map_err(Stopped::Failed)?;
        let stop = StopSignal::default();
        let asked = stop.clone();
        ctrlc::set_handler(move || match asked.is_set() {
            true => std::process::exit(130),
            false => asked.stop(),
        })
        .map_err(|error| Stopped::Failed(format!("Ctrl-C cannot be handled: {error}").into()))?;
        let engine = EseEngine::with_mounts(Backend::Auto, Vec::new())
            .map_err(|error| Stopped::Failed(format!("the I/O backend cannot start: {error}").into()))?;
        let directories: Vec<TestedDirectory> = self.directories.iter().map(|path| tested(path)).collect();
        let limits = Limits {
            fewest: self.fewest_turns.min(self.turns).into(),
            most: self.turns.into(),
            precision_percent: self.precision,
            longest: self.longest.0,
        };
        let began = Instant::now();
        let measure = &mut |at: usize, turn: usize| {
            let path = self.directories.get(at).cloned().unwrap_or_default();
            if !self.quiet {
                console::note(&format!("turn {}: {}", turn + 1, path.display()));
            }
            let options = Options {
                dirs: vec![path.clone()],
                open: Some(turn > 0),
                output: Some(self.output.join(format!("runs/{}-{}", at + 1, turn + 1))),
                ..options.clone()
            };
            self.measure(options, &engine, &stop).map_err(|stopped| match stopped {
                Stopped::Failed(failure) => Stopped::Failed(format!("{}: {failure}", path.display()).into()),
                Stopped::Early => Stopped::Early,
            })
        };
        let mut result = compare(directories, limits, measure, &|| began.elapsed())?;
        for one in &mut result.directories {
            (one.file_bytes, one.allocated_bytes) = space(&one.directory);
            // The directory may have been made by the first turn.
            one.storage = Storage::under(&one.directory);
        }
        store(&result, &self.output)
            .map_err(|error| format!("{} cannot be written: {error}", self.output.display()))
            .map_err(|what| Stopped::Failed(what.into()))?;
        Ok(result)
    }

    /// The options of the load, after everything is checked that can be before anything is written.
    fn prepare(&self) -> Result<Options, Failure> {
        require_empty(&self.output, "result")?;
        for (at, path) in self.directories.iter().enumerate() {
            require_empty(path, "databases")?;
            let same = |other: &PathBuf| std::path::absolute(other).ok() == std::path::absolute(path).ok();
            if self.directories.iter().take(at).any(same) {
                return Err(format!("{} is given twice; give each directory once", path.display()).into());
            }
        }
        let given = Options { size: self.size, duration: self.duration, ..Options::default() };
        let first = |mistakes: Vec<jetcell_workload::Mistake>| {
            Failure::from(mistakes.first().map(ToString::to_string).unwrap_or_default())
        };
        let file = match &self.config {
            Some(path) => Configuration::read(path, TestKind::Performance, &given).map_err(first)?,
            None => Configuration::default(),
        };
        let options = Options { log_dirs: Vec::new(), ..given.over(file.options) };
        for path in &self.directories {
            let options = Options { dirs: vec![path.clone()], ..options.clone() };
            options.resolve_for(TestKind::Performance).map_err(first)?;
        }
        Ok(options)
    }

    fn measure(
        &self,
        options: Options,
        engine: &EseEngine,
        stop: &StopSignal,
    ) -> Result<[f64; ROWS.len()], Stopped> {
        let mistakes = |mistakes: Vec<jetcell_workload::Mistake>| {
            Stopped::Failed(mistakes.first().map(ToString::to_string).unwrap_or_default().into())
        };
        let output = options.output.clone().unwrap_or_default();
        let profile = options.resolve_for(TestKind::Performance).map_err(mistakes)?;
        let failed = |what: String| Stopped::Failed(what.into());
        let finished = run(&profile, engine, &mut Silent, stop).map_err(|error| failed(error.to_string()))?;
        finished
            .result
            .write(&output.join("result.json"))
            .map_err(|error| failed(format!("{} cannot be written: {error}", output.display())))?;
        if stop.is_set() { Err(Stopped::Early) } else { Ok(figures(&finished.result)) }
    }
}

/// The phases of a turn are not shown.
struct Silent;

impl Observer for Silent {
    fn begin(&mut self, _: Phase, _: u64) {}
    fn advance(&mut self, _: u64, _: &str) {}
    fn log(&mut self, _: &str) {}
}

fn tested(path: &Path) -> TestedDirectory {
    TestedDirectory {
        name: path.display().to_string(),
        directory: path.into(),
        storage: Storage::under(path),
        file_bytes: 0,
        allocated_bytes: 0,
    }
}

/// Bytes of the files below a directory, and of the space that they use. What cannot be read counts as nothing.
fn space(directory: &Path) -> (u64, u64) {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.fold((0, 0), |(bytes, allocated), entry| {
        let (more, used) = match entry.metadata() {
            Ok(found) if found.is_dir() => space(&entry.path()),
            Ok(found) => (found.len(), found.blocks() * 512),
            Err(_) => (0, 0),
        };
        (bytes + more, allocated + used)
    })
}

fn json(result: &FilesystemTest) -> String {
    serde_json::to_string_pretty(result).expect("text and numbers can be written as JSON") + "\n"
}

/// The result is written last, so a directory with a result has everything.
fn store(result: &FilesystemTest, output: &Path) -> std::io::Result<()> {
    fs::create_dir_all(output)?;
    whole_file::write(&output.join("report.html"), &filesystems_html(result))?;
    whole_file::write(&output.join("report.md"), &filesystems_markdown(result))?;
    whole_file::write(&output.join("result.json"), &json(result))
}
