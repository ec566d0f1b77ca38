//! `jetcell raid reliability`: options to a case, the case to an answer, the answer to text, JSON or a chart.

mod answer;
mod chart;
mod options;
mod output;

use std::io::Write;
use std::path::PathBuf;

use clap::Args;

use self::answer::Answer;
use self::options::Options;
use crate::outcome::{Outcome, complain};

const EXAMPLES: &str = "\
Examples:
  jetcell raid reliability
      RAID-DP with 7 data disks and the published parameters, over five years
  jetcell raid reliability --type raid5 --data-disks 7 --groups 6 --afr 1.9% --latent-rate 1.08e-4/h --restore 12h --scrub 168h
      six groups of eight drives, every rate said
  jetcell raid reliability --type raid6 --data-disks 10 --drives 48 --mtbf 1200000h --error-rate 1e-15/bit \\
      --capacity 16TB --bandwidth 200MB/s --load 40% --scrub-share 20% --spares 1 --spare-delivery 3d
      rates from the data sheet of a drive, from its load and from the spares on the shelf
  jetcell raid reliability --type raid6 --monte-carlo --seed 7
      drives that wear out, simulated one by one
  jetcell raid reliability --data-disks 14 --groups 3 --compare --target 0.1% --chart types.svg
      every RAID type with the same usable capacity, and the smallest layout that is safe enough
  jetcell raid reliability --type raid5 --curve scrub --chart scrub.svg
      what more frequent scrubs buy
  jetcell raid reliability --type raid6 --explain
      each formula with its numbers, to check by hand

Units are part of every value: 12h, 7d, 1.9%, 1.08e-4/h, 1e-14/bit or 8e-14/byte, 144GB or 3.6TiB, 27MB/s.
A file for --config has the names of the options as keys: type = \"raid6\", data-disks = 7, afr = \"1.9%\".

Exit code: 0 answered, 2 could not run.";

/// Probability of data loss of an array from failure, defect, restore and scrub rates
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct RaidReliability {
    #[command(flatten)]
    options: Options,
    /// Options from a TOML file; the command line wins
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Draw the comparison or the curve into an SVG file
    #[arg(long, value_name = "FILE")]
    chart: Option<PathBuf>,
    /// Print each formula with its numbers
    #[arg(long)]
    explain: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl RaidReliability {
    /// Answers the question.
    pub fn run(self) -> Outcome {
        match self.answer() {
            Ok(text) => {
                // A reader that has seen enough, such as head, is no failure.
                let _ = writeln!(std::io::stdout(), "{text}");
                Outcome::Good
            }
            Err(complaint) => {
                complain(complaint);
                Outcome::CouldNotRun
            }
        }
    }

    fn answer(self) -> Result<String, String> {
        let options = match &self.config {
            Some(file) => self.options.over(Options::read(file)?),
            None => self.options,
        };
        let charts = usize::from(options.compare == Some(true)) + usize::from(options.curve.is_some());
        if self.chart.is_some() && charts != 1 {
            return Err("--chart draws either --compare or --curve: give one of them".into());
        }
        let answer = Answer::new(&options)?;
        if let Some(file) = &self.chart {
            chart::write(&answer, file)?;
        }
        if self.json { output::json(&answer, self.explain) } else { Ok(output::text(&answer, self.explain)) }
    }
}
