//! Benchmarks that compare Jetcell's engine with the device and with other embedded engines on the same work.
//!
//! One process measures one thing: `load`, `run`, `crash` and `recover` work on a store under a memory limit and
//! print JSON. `table` starts such processes in turn and prints the table; `results` renders the table of an earlier
//! run.

mod backup;
mod control_group;
mod device;
mod disk_limit;
mod driver;
mod engines;
mod key_order;
mod maintenance;
mod measure;
mod page_io;
mod replay;
mod stall_monitor;
mod store;
mod store_args;
mod table;
mod usage;
mod workload;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::store_args::{MixArgs, StoreArgs};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
#[command(about = "Benchmarks Jetcell's engine against the device and other engines")]
struct BenchArgs {
    #[command(subcommand)]
    command: BenchCommand,
}

#[derive(Subcommand)]
enum BenchCommand {
    /// Fills a new store with records in key order
    Load {
        #[command(flatten)]
        store: StoreArgs,
    },
    /// Drives a store with the mail mix; fills the store first if it does not exist
    Run {
        #[command(flatten)]
        store: StoreArgs,
        #[command(flatten)]
        mix: MixArgs,
        /// Measured time in seconds; the warm-up is a quarter of it, at least 3 s
        #[arg(long, default_value_t = 15.0)]
        seconds: f64,
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
    },
    /// Makes updates after a checkpoint, commits the last update durably and kills itself
    Crash {
        #[command(flatten)]
        store: StoreArgs,
        #[command(flatten)]
        mix: MixArgs,
        /// Number of updates
        #[arg(long, default_value_t = 60_000)]
        updates: u64,
        /// Let the engine decide when to checkpoint
        #[arg(long)]
        no_checkpoint: bool,
    },
    /// Times the opening of a store after a crash, without the store in the kernel's cache
    Recover {
        #[command(flatten)]
        store: StoreArgs,
    },
    /// Times the replay of a filled store's logs by a passive copy, without the copy in the kernel's cache
    Replay {
        #[command(flatten)]
        store: StoreArgs,
        #[command(flatten)]
        mix: MixArgs,
        /// Number of updates in the logs
        #[arg(long, default_value_t = 60_000)]
        updates: u64,
    },
    /// Reads a store alternately as a backup and without verification
    Backup {
        #[command(flatten)]
        store: StoreArgs,
    },
    /// Scans and zeroes a newly loaded store, and compares it with reads and writes of the same sizes
    Maintenance {
        #[command(flatten)]
        store: StoreArgs,
    },
    /// Prints the version of an engine's library
    Version {
        #[command(flatten)]
        store: StoreArgs,
    },
    /// Runs interleaved rounds of all measurements and prints the table
    Table(table::TableArgs),
    /// Renders the table of an earlier run
    Results(table::ResultsArgs),
}

fn main() -> ExitCode {
    match execute(BenchArgs::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("jetcell-bench: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn execute(command: BenchCommand) -> Result<()> {
    match command {
        BenchCommand::Load { store } => measure::load(&store),
        BenchCommand::Run { store, mix, seconds, json } => measure::run(&store, &mix, seconds, json),
        BenchCommand::Crash { store, mix, updates, no_checkpoint } => {
            measure::crash(&store, &mix, updates, no_checkpoint)
        }
        BenchCommand::Recover { store } => measure::recover(&store),
        BenchCommand::Backup { store } => backup::backup(&store),
        BenchCommand::Maintenance { store } => maintenance::maintenance(&store),
        BenchCommand::Replay { store, mix, updates } => replay::replay(&store, &mix, updates),
        BenchCommand::Version { store } => {
            println!("{}", engines::version(&store.engine)?);
            Ok(())
        }
        BenchCommand::Table(args) => table::run(&args),
        BenchCommand::Results(args) => table::render(&args),
    }
}
