//! The table: interleaved rounds of child processes and baselines of the device, medians, ratios, goals.
//!
//! A measurement is repeated if other processes used the processors during it. If that does not help, the rows that
//! it takes part in are marked. Ratios are taken within a round, because a virtual machine is not equally fast at all
//! hours.

mod machine;
mod markdown;
mod measurements;
mod rounds;
mod rows;
mod steps;

pub use measurements::median;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use clap::builder::PossibleValuesParser;

use self::measurements::Measurements;
use self::rounds::TableRounds;

/// The last row.
const LAST_ROW: u8 = 20;
/// File in which the figures of all rounds are stored.
const JSON: &str = "bench/target/result.json";

/// Options of `table`.
#[derive(Args)]
pub struct TableArgs {
    /// Use 256 MiB of records, short windows and one round, as a smoke test
    #[arg(long)]
    quick: bool,
    /// Rows of the table to measure
    #[arg(long, value_delimiter = ',', default_values_t = 1..=LAST_ROW)]
    rows: Vec<u8>,
    /// Number of rounds; default 3, with --quick 1
    #[arg(long)]
    rounds: Option<u32>,
    /// Engines to measure; default: all
    #[arg(long, value_delimiter = ',', value_parser = PossibleValuesParser::new(crate::engines::ALL))]
    engines: Vec<String>,
    /// Directory for stores and files; all engines at full size need 20 GiB
    #[arg(long, default_value = "bench/target/data")]
    dir: PathBuf,
    /// Directory of the engine binaries that run.sh builds
    #[arg(long, default_value = "bench/target/engines")]
    binaries: PathBuf,
    /// Path of the jetcell command, for row 10
    #[arg(long, default_value = "target/release/jetcell")]
    jetcell: PathBuf,
    /// MiB of records; default 2048, with --quick 256
    #[arg(long)]
    size_mib: Option<u64>,
    /// Measured seconds of each mix; default 15, with --quick 5
    #[arg(long)]
    seconds: Option<f64>,
    /// Number of cores that other processes may use before a measurement is repeated
    #[arg(long, default_value_t = 0.3)]
    quiet: f64,
    /// Maximum number of repetitions if other processes were active or the machine was stalled for over 2 % of the
    /// time
    #[arg(long, default_value_t = 3)]
    retries: u32,
    /// File for the figures of all rounds
    #[arg(long, default_value = JSON)]
    json: PathBuf,
    /// Markdown file for the table, such as docs/performance/results.md; default: standard output only
    #[arg(long)]
    output: Option<PathBuf>,
}

impl TableArgs {
    fn size_mib(&self) -> u64 {
        self.size_mib.unwrap_or(if self.quick { 256 } else { 2048 })
    }
}

/// Options of `results`.
#[derive(Args)]
pub struct ResultsArgs {
    /// File with the figures of all rounds
    #[arg(long, default_value = JSON)]
    json: PathBuf,
    /// Markdown file for the table; default: standard output only
    #[arg(long)]
    output: Option<PathBuf>,
}

/// Runs the rounds and prints the table.
pub fn run(args: &TableArgs) -> Result<()> {
    if args.rows.iter().any(|row| !(1..=LAST_ROW).contains(row)) {
        bail!("rows are 1 to {LAST_ROW}");
    }
    fs::create_dir_all(&args.dir).with_context(|| args.dir.display().to_string())?;
    let mut rounds = TableRounds::new(args)?;
    let count = args.rounds.unwrap_or(if args.quick { 1 } else { 3 });
    for round in 0..count {
        eprintln!("round {} of {count}", round + 1);
        rounds.round(&args.rows);
        // Each round is stored, because a later one may be interrupted.
        write_whole(&args.json, &serde_json::to_vec_pretty(&rounds.measurements)?)?;
    }
    print(&rounds.measurements, args.output.as_deref())
}

/// Prints the table of an earlier run.
pub fn render(args: &ResultsArgs) -> Result<()> {
    let bytes = fs::read(&args.json).with_context(|| args.json.display().to_string())?;
    let measurements = serde_json::from_slice(&bytes).with_context(|| args.json.display().to_string())?;
    print(&measurements, args.output.as_deref())
}

/// Prints the table, and writes the page of results if a file is given.
fn print(measurements: &Measurements, output: Option<&Path>) -> Result<()> {
    print!("{}", markdown::table(measurements));
    output.map_or(Ok(()), |path| write_whole(path, markdown::page(measurements).as_bytes()))
}

/// Replaces a file, so that no reader sees half of it.
fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let context = || path.display().to_string();
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory).with_context(context)?;
    }
    let new = path.with_extension("new");
    fs::write(&new, bytes).with_context(context)?;
    fs::rename(&new, path).with_context(context)
}
