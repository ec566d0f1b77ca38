//! The table: interleaved rounds of child processes and yardsticks, medians, ratios, goals.
//!
//! A measurement is repeated when other processes used the processors meanwhile; when that does not help, what it
//! took part in is marked. Ratios are taken within a round, because the machine of another hour is another machine.

mod machine;
mod rounds;
mod rows;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use clap::builder::PossibleValuesParser;
use serde_json::json;

use self::rounds::Rounds;

/// What `table` takes.
#[derive(Args)]
pub struct TableArgs {
    /// 256 MiB of records, short windows, one round: to see that everything works
    #[arg(long)]
    quick: bool,
    /// Rows of the table to measure
    #[arg(long, value_delimiter = ',', default_values_t = 1..=13)]
    rows: Vec<u8>,
    /// Rounds; default 3, with --quick 1
    #[arg(long)]
    rounds: Option<u32>,
    /// Engines to measure; default: all
    #[arg(long, value_delimiter = ',', value_parser = PossibleValuesParser::new(crate::engines::ALL))]
    engines: Vec<String>,
    /// Directory of stores and files; 20 GiB for all engines at full size
    #[arg(long, default_value = "bench/target/data")]
    dir: PathBuf,
    /// Binaries of the engines, as run.sh builds them
    #[arg(long, default_value = "bench/target/engines")]
    binaries: PathBuf,
    /// Our command line, for row 10
    #[arg(long, default_value = "target/release/jetcell")]
    jetcell: PathBuf,
    /// MiB of records; default 2048, with --quick 256
    #[arg(long)]
    size_mib: Option<u64>,
    /// Measured seconds of a mix; default 15, with --quick 5
    #[arg(long)]
    seconds: Option<f64>,
    /// Cores that others may use before a measurement is repeated
    #[arg(long, default_value_t = 0.3)]
    quiet: f64,
    /// How often a measurement is repeated for that, or because the machine stood still for more than 2 % of it
    #[arg(long, default_value_t = 3)]
    retries: u32,
    /// Where all figures of all rounds go
    #[arg(long, default_value = "bench/target/result.json")]
    json: PathBuf,
}

/// Runs the rounds and prints the table.
pub fn run(args: &TableArgs) -> Result<()> {
    if args.rows.iter().any(|row| !(1..=13).contains(row)) {
        bail!("rows are 1 to 13");
    }
    fs::create_dir_all(&args.dir).with_context(|| args.dir.display().to_string())?;
    let mut rounds = Rounds::new(args)?;
    let count = args.rounds.unwrap_or(if args.quick { 1 } else { 3 });
    for round in 0..count {
        eprintln!("round {} of {count}", round + 1);
        rounds.round(&args.rows);
        // Every round is kept, should a later one be interrupted.
        write_json(args, &rounds)?;
    }
    print!("{}", rows::report(&rounds, &args.rows, &machine::describe(&args.dir)));
    Ok(())
}

fn write_json(args: &TableArgs, rounds: &Rounds) -> Result<()> {
    if let Some(directory) = args.json.parent() {
        fs::create_dir_all(directory)?;
    }
    let all = json!({
        "machine": machine::describe(&args.dir),
        "size_mib": rounds.size_mib(),
        "missing": rounds.missing,
        "samples": rounds.samples,
        "failures": rounds.failures,
    });
    let beside = args.json.with_extension("new");
    fs::write(&beside, serde_json::to_vec_pretty(&all)?)?;
    fs::rename(&beside, &args.json).with_context(|| args.json.display().to_string())
}
