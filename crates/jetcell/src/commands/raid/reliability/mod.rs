//! `jetcell raid reliability`: builds a case from the options, computes the result, and prints or draws it.

mod chart;
mod options;
mod output;
mod result;

use std::path::{Path, PathBuf};

use clap::Args;

pub use self::options::ReliabilityOptions;
use self::result::ReliabilityResult;
use crate::console::print_json_or_lines;
use crate::outcome::{CommandError, CommandOutcome, CommandResult};

const EXAMPLES: &str = "\
Examples:
  jetcell raid reliability
      RAID-DP with 7 data disks and the published parameters, over five years
  jetcell raid reliability --type raid5 --data-disks 7 --groups 6 --afr 1.9% --latent-rate 1.08e-4/h --restore 12h --scrub 168h
      six groups of eight drives, with every rate specified
  jetcell raid reliability --type raid6 --data-disks 10 --drives 48 --mtbf 1200000h --error-rate 1e-15/bit \\
      --capacity 16TB --bandwidth 200MB/s --load 40% --scrub-share 20% --spares 1 --spare-delivery 3d
      rates from the data sheet of a drive, from its load and from the number of spares
  jetcell raid reliability --type raid6 --monte-carlo --seed 7
      a simulation of each drive, with wear
  jetcell raid reliability --data-disks 14 --groups 3 --compare --target 0.1% --chart types.svg
      all RAID types with the same usable capacity, and the smallest layout that reaches the target
  jetcell raid reliability --compare --curve scrub --html page.html
      the same as a page, with charts
  jetcell raid reliability --type raid5 --curve scrub --chart scrub.svg
      the effect of more frequent scrubs
  jetcell raid reliability --array arr1 --years 3
      an array of jetcell raid, with the times of its own rebuilds and scrubs
  jetcell raid simulate --json > experiment.json
  jetcell raid reliability --simulated experiment.json --layout \"RAID 6 (7+2)\"
      a simulated layout, with the time of its rebuild under load
  jetcell raid reliability --type raid6 --explain
      each formula with its numbers, to verify by hand

Every value has a unit: 12h, 7d, 1.9%, 1.08e-4/h, 1e-14/bit or 8e-14/byte, 144GB or 3.6TiB, 27MB/s.
A file for --config has the names of the options as keys: type = \"raid6\", data-disks = 7, afr = \"1.9%\".

Exit code: 0 answered, 2 could not run.";

/// Calculate the probability that an array loses data from its failure, defect, restore and scrub rates
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct RaidReliabilityArgs {
    #[command(flatten)]
    options: ReliabilityOptions,
    /// Use the layout and the measured rates of a jetcell raid array; other options take precedence
    #[arg(long, value_name = "ARRAY")]
    array: Option<PathBuf>,
    /// Use a layout and its rebuild rate from a result of jetcell raid simulate --json; other options take precedence
    #[arg(long, value_name = "FILE", conflicts_with = "array")]
    simulated: Option<PathBuf>,
    /// Name of the layout in --simulated [default: the first write-anywhere layout, or the first layout]
    #[arg(long, value_name = "NAME", requires = "simulated")]
    layout: Option<String>,
    /// Read options from a TOML file; command line options take precedence
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Draw the comparison or the curve to this SVG file
    #[arg(long, value_name = "FILE")]
    chart: Option<PathBuf>,
    /// Write the result to this HTML page, with charts of the comparison and the curve
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print each formula with its numbers
    #[arg(long)]
    explain: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl RaidReliabilityArgs {
    /// Returns the array whose measured rates are used.
    pub fn array(&self) -> Option<&Path> {
        self.array.as_deref()
    }

    /// Returns the simulation result whose rebuild rate is used, and the name of the layout.
    pub fn simulation_result(&self) -> Option<(&Path, Option<&str>)> {
        Some((self.simulated.as_deref()?, self.layout.as_deref()))
    }

    /// Runs the command. `measured` contains the options that were measured on the array.
    pub fn calculate(self, measured: ReliabilityOptions) -> CommandResult {
        let is_json = self.json;
        print_json_or_lines(is_json, &self.format_result(measured)?);
        Ok(CommandOutcome::Good)
    }

    fn format_result(self, measured: ReliabilityOptions) -> CommandResult<String> {
        let options = match &self.config {
            Some(file) => self.options.with_defaults_from(ReliabilityOptions::read(file)?),
            None => self.options,
        };
        let options = options.with_measured(measured);
        let charts = usize::from(options.compare == Some(true)) + usize::from(options.curve.is_some());
        if self.chart.is_some() && charts != 1 {
            return Err(CommandError::new("--chart can show either --compare or --curve")
                .advise("specify only one of them"));
        }
        let answer = ReliabilityResult::new(&options)?;
        if let Some(file) = &self.chart {
            chart::write(&answer, file)?;
        }
        if let Some(file) = &self.html {
            chart::write_page(&answer, file)?;
        }
        if self.json {
            output::json(&answer, self.explain)
        } else {
            Ok(output::text(&answer, self.explain) + "\n")
        }
    }
}
