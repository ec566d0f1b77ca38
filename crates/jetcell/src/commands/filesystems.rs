//! `jetcell test filesystems`: the mail load on directories of several file systems, in turns.

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use jetcell_lab::filesystems::{FilesystemTest, Limits, ROWS, TestedDirectory, compare};
use jetcell_report::filesystems_text;
use jetcell_workload::Options;
use jetcell_workload::units::{DatabaseSize, TimeSpan};

use crate::commands::empty_directory::require_empty;
use crate::commands::load_turns::{
    LoadTurns, Stopped, json, load_options, look_at_space, size, span, store, tested,
};
use crate::console::{self, print};
use crate::outcome::{Failure, Outcome};

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

fn percent(text: &str) -> Result<f64, String> {
    let value = text.trim_end_matches('%').trim().parse::<f64>().ok();
    value
        .filter(|value| (0.01..=100.0).contains(value))
        .ok_or_else(|| format!("`{text}` is no precision; write percent, from 0.01 to 100"))
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
            Err(stopped) => stopped.outcome(),
        }
    }

    fn test(&self) -> Result<FilesystemTest, Stopped> {
        let options = self.prepare().map_err(Stopped::Failed)?;
        let turns = LoadTurns::new(options)?;
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
            let output = self.output.join(format!("runs/{}-{}", at + 1, turn + 1));
            turns.measure(&path, &output, turn > 0)
        };
        let mut result = compare(("File systems", &ROWS), directories, limits, measure, &|| began.elapsed())?;
        look_at_space(&mut result);
        store(&result, &self.output, &json(&result))?;
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
        load_options(given, self.config.as_deref(), &self.directories)
    }
}
