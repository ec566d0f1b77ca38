//! `jetcell`: an ESE-compatible storage engine and the test cell around it, on the command line.
//!
//! Every command: results on stdout, progress and complaints on stderr, exit code 0 = good, 1 = findings or a
//! failed verdict, 2 = could not run.

mod commands;
mod outcome;
mod progress;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::commands::dump::Dump;
use crate::commands::test_performance::TestPerformance;
use crate::outcome::Outcome;

/// Tests storage with a real ESE database engine.
#[derive(Parser)]
#[command(name = "jetcell", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show what is inside a database, log, checkpoint or flush map
    #[command(subcommand)]
    Dump(Box<Dump>),
    /// Load storage, measure, verify and judge
    #[command(subcommand)]
    Test(Test),
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
            // Help and version are not mistakes.
            let _ = error.print();
            return if error.use_stderr() { Outcome::CouldNotRun.into() } else { ExitCode::SUCCESS };
        }
    };
    let outcome = match arguments.command {
        Command::Dump(command) => command.run(),
        Command::Test(Test::Performance(command)) => command.run(),
    };
    outcome.into()
}
