//! `jetcell`: an ESE-compatible storage engine and the test cell around it, on the command line.
//!
//! Every command: results on stdout, progress and complaints on stderr, exit code 0 = good, 1 = findings or a
//! failed verdict, 2 = could not run.

mod commands;
mod live;
mod outcome;
mod whole_file;

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};

use crate::commands::check::Check;
use crate::commands::compare::Compare;
use crate::commands::dump::Dump;
use crate::commands::export::Export;
use crate::commands::raid_reliability::RaidReliability;
use crate::commands::report::Report;
use crate::commands::size::Size;
use crate::commands::test_performance::TestPerformance;
use crate::outcome::{Outcome, complain};

/// Records just above a kilobyte take the slow path of the C library's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Tests storage with a real ESE database engine.
#[derive(Parser)]
#[command(name = "jetcell", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Find out whether databases, logs, checkpoints and flush maps are sound
    Check(Box<Check>),
    /// Show what is inside a database, log, checkpoint or flush map
    #[command(subcommand)]
    Dump(Box<Dump>),
    /// From mailboxes to disks: I/O, space, memory, arrays, cost
    Size(Box<Size>),
    /// Write the tables of a database as CSV, JSON Lines, Parquet or SQLite
    Export(Export),
    /// Load storage, measure, verify and judge
    #[command(subcommand)]
    Test(Test),
    /// Show stored runs again
    Report(Report),
    /// Show stored runs side by side, with their differences
    Compare(Compare),
    /// RAID: the numbers before the purchase
    #[command(subcommand)]
    Raid(Raid),
}

#[derive(Subcommand)]
enum Raid {
    /// Probability of data loss of an array over its life
    Reliability(Box<RaidReliability>),
}

#[derive(Subcommand)]
enum Test {
    /// Mail load on ESE databases: throughput and latency against limits
    Performance(Box<TestPerformance>),
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // A value that makes no sense gets one line; usage would hide it.
            if error.kind() == ErrorKind::ValueValidation {
                let text = error.render().to_string();
                complain(text.lines().next().unwrap_or_default().trim_start_matches("error: "));
                return Outcome::CouldNotRun.into();
            }
            // Help and version are not mistakes.
            let _ = error.print();
            return if error.use_stderr() { Outcome::CouldNotRun.into() } else { ExitCode::SUCCESS };
        }
    };
    let outcome = match arguments.command {
        Command::Check(command) => command.run(),
        Command::Dump(command) => command.run(),
        Command::Size(command) => command.run(),
        Command::Export(command) => command.run(),
        Command::Test(Test::Performance(command)) => command.run(),
        Command::Report(command) => command.run(),
        Command::Compare(command) => command.run(),
        Command::Raid(Raid::Reliability(command)) => command.run(),
    };
    outcome.into()
}
