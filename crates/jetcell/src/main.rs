//! Command line interface of Jetcell, an ESE-compatible storage engine with storage tests.
//!
//! Every command prints results to stdout, and progress and errors to stderr. Exit codes: 0 good, 1 findings or a
//! failed verdict, 2 could not run.

#![forbid(unsafe_code)]

mod colour;
mod commands;
mod console;
mod decompressing_vfs;
#[cfg(not(feature = "full"))]
mod disabled_command;
mod in_use;
mod live;
mod measured_window;
mod outcome;
mod process_requirements;
mod remedy;
mod terminal;
mod version;

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};
use jetcell_vfs::report_file_size_limit;

use crate::colour::Colour;
use crate::commands::activate::ActivateArgs;
use crate::commands::backup::BackupArgs as MakeBackup;
use crate::commands::check::CheckArgs;
use crate::commands::compare::CompareArgs;
use crate::commands::completions::CompletionsArgs;
use crate::commands::copies::CopiesArgs;
#[cfg(feature = "lab")]
use crate::commands::disk::DiskCommand;
use crate::commands::doctor::DoctorArgs;
use crate::commands::dump::DumpCommand;
#[cfg(feature = "lab")]
use crate::commands::durability::DurabilityTestArgs;
use crate::commands::events::EventsArgs;
use crate::commands::export::ExportArgs;
#[cfg(feature = "lab")]
use crate::commands::filesystems::CompareFilesystemsArgs;
#[cfg(feature = "fleet")]
use crate::commands::fleet::FleetCommand;
use crate::commands::maintain::MaintainArgs;
use crate::commands::man::ManualArgs;
use crate::commands::power::PowerCommand;
#[cfg(feature = "arrays")]
use crate::commands::raid::RaidCommand;
use crate::commands::recover::RecoverArgs;
use crate::commands::replicate::ReplicateArgs;
use crate::commands::report::ReportArgs;
use crate::commands::reseed::ReseedArgs;
use crate::commands::restore::RestoreArgs;
use crate::commands::serve::ServeArgs;
#[cfg(feature = "sizing")]
use crate::commands::size::SizeArgs;
use crate::commands::storage_test::{Backup, Performance, Recovery, Replication, StorageTestArgs, Stress};
use crate::outcome::{CommandOutcome, print_error};
use crate::process_requirements::ProcessRequirements;

/// Memory allocator. The load allocates many records slightly larger than a kilobyte, for which the C library's
/// allocator is slow.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const EXAMPLES: &str = "\
Examples:
  jetcell test performance --dir jetcell-run --duration 60s
      tests the storage under a directory for a minute
  jetcell check --structure priv1.edb
      verifies a database
  jetcell export ntds.dit --format csv --output tables/
      writes all tables of a database as CSV

jetcell COMMAND --help has examples of each command.
Exit code: 0 good, 1 findings or a failed verdict, 2 could not run.";

const DUMP_EXAMPLES: &str = "\
Examples:
  jetcell dump header priv1.edb
      state of a database, and the logs that it needs
  jetcell dump schema --table MSysLocales priv1.edb
      columns and indexes of a table
  jetcell dump log --page 13 E0000000042.log
      changes to a page in a log

Exit code: 0 shown, 1 part of the file is damaged, 2 could not run.";

const TEST_EXAMPLES: &str = "\
Examples:
  jetcell test performance --dir jetcell-run --size 1GiB --duration 60s
      a first test: one database of 1 GiB, measured for a minute

  jetcell test stress --dir jetcell-run --open --duration 10m
      detects drift in ten minutes; without --duration, in a day
  jetcell test backup --dir jetcell-run --open
      reads and verifies all pages, as a backup does
  jetcell test recovery --dir jetcell-run --open --logs 50
      generates 50 logs under load, and replays them
  jetcell test durability /mnt/tested/run --witness tcp:otherhost:9200
      writes until the power is cut, and reports acknowledged writes to another host

jetcell test performance --help has more. Exit code: 0 pass, 1 fail or stopped early, 2 could not run.";

/// Test storage with a real ESE database engine, and check, dump and export ESE files
#[derive(Parser)]
#[command(name = "jetcell", version, long_version = version::long(), arg_required_else_help = true)]
#[command(after_help = EXAMPLES)]
struct JetcellArgs {
    /// When to colour the output; the environment variable NO_COLOR disables colours by default
    #[arg(long, global = true, value_enum, default_value_t = Colour::Auto, value_name = "WHEN")]
    color: Colour,
    #[command(subcommand)]
    command: JetcellCommand,
}

#[derive(Subcommand)]
enum JetcellCommand {
    /// Verify databases, logs, checkpoints and flush maps
    Check(Box<CheckArgs>),
    /// Show the contents of a database, log, checkpoint or flush map
    #[command(subcommand, after_help = DUMP_EXAMPLES)]
    Dump(Box<DumpCommand>),
    /// Size storage for mailboxes: I/O, space, memory, arrays, cost
    #[cfg(feature = "sizing")]
    Size(Box<SizeArgs>),
    /// Size storage for mailboxes: I/O, space, memory, arrays, cost (not in this build: feature sizing)
    #[cfg(not(feature = "sizing"))]
    Size(disabled_command::DisabledCommand),
    /// Recover dirty databases with their logs, including databases from Windows
    Recover(Box<RecoverArgs>),
    /// Back up the databases and logs of a stopped instance
    Backup(Box<MakeBackup>),
    /// Make a passive copy of an instance, and update it by replaying the logs
    Replicate(Box<ReplicateArgs>),
    /// Share directories of this host with copies on other hosts
    Serve(Box<ServeArgs>),
    /// Show the state of copies: queues, lag and health
    Copies(CopiesArgs),
    /// Make a copy the active side
    Activate(ActivateArgs),
    /// Resynchronize a copy, or a side that has diverged, with the active side
    Reseed(Box<ReseedArgs>),
    /// Verify the pages of a stopped instance, and overwrite deleted data
    Maintain(Box<MaintainArgs>),
    /// Restore databases from backups
    Restore(Box<RestoreArgs>),
    /// Write the tables of a database as CSV, JSON Lines, Parquet or SQLite
    Export(ExportArgs),
    /// Test storage: run a load, measure, verify and judge the result
    #[command(subcommand, after_help = TEST_EXAMPLES)]
    Test(TestSubcommand),
    /// Test many hosts together, with one test and one verdict
    #[cfg(feature = "fleet")]
    #[command(subcommand, after_help = commands::fleet::EXAMPLES)]
    Fleet(FleetCommand),
    /// Test many hosts together, with one test and one verdict (not in this build: feature fleet)
    #[cfg(not(feature = "fleet"))]
    Fleet(disabled_command::DisabledCommand),
    /// Show the reports of stored runs
    Report(ReportArgs),
    /// Show the events of a run, a recovery or maintenance
    Events(EventsArgs),
    /// Compare stored runs
    Compare(CompareArgs),
    /// Create, monitor, repair and destroy RAID arrays, and calculate their reliability
    #[cfg(feature = "arrays")]
    #[command(subcommand, after_help = commands::raid::EXAMPLES)]
    Raid(RaidCommand),
    /// Create, monitor, repair and destroy RAID arrays, and calculate their reliability (not in this build: feature
    /// arrays)
    #[cfg(not(feature = "arrays"))]
    Raid(disabled_command::DisabledCommand),
    /// Examine drives and file systems
    #[cfg(feature = "lab")]
    #[command(subcommand, after_help = commands::disk::EXAMPLES)]
    Disk(DiskCommand),
    /// Examine drives and file systems (not in this build: feature lab)
    #[cfg(not(feature = "lab"))]
    Disk(disabled_command::DisabledCommand),
    /// Record the power use of a test, and calculate its cost
    #[command(subcommand, after_help = commands::power::EXAMPLES)]
    Power(PowerCommand),
    /// Show which of this machine's resources a test will use, and what to change before a test
    Doctor(DoctorArgs),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
    /// Write manual pages
    Man(ManualArgs),
}

#[derive(Subcommand)]
enum TestSubcommand {
    /// Run a mail load on ESE databases and judge throughput and latency
    ///
    /// Create ESE databases, run a mail load on them, verify every page and judge the storage
    Performance(Box<StorageTestArgs<Performance>>),
    /// Run a mail load for 24 hours and judge it with lenient limits; it can be continued after a crash
    ///
    /// Run a mail load on ESE databases for a day, verify every page, judge the storage and detect drift
    Stress(Box<StorageTestArgs<Stress>>),
    /// Read and verify all pages as a backup does, and measure the rate
    ///
    /// Read the pages of all ESE databases concurrently, verify each page, and show the rate, with or without a
    /// concurrent load
    Backup(Box<StorageTestArgs<Backup>>),
    /// Generate logs under load and measure how fast they are replayed
    ///
    /// Generate logs with a mail load on ESE databases, restore the databases to their earlier state, replay the logs
    /// and verify every page
    Recovery(Box<StorageTestArgs<Recovery>>),
    /// Let passive copies follow a load, and compare their I/O with that of the active side
    ///
    /// Seed passive copies of ESE databases under a mail load, make them follow and catch up, and compare the I/O of
    /// both sides
    Replication(Box<StorageTestArgs<Replication>>),
    /// Test whether storage keeps acknowledged writes when the power is cut
    ///
    /// Write to storage until it is cut off, report acknowledged writes to a witness on another host, and verify them
    /// after the cut
    #[cfg(feature = "lab")]
    Durability(Box<DurabilityTestArgs>),
    /// Test whether storage keeps acknowledged writes when the power is cut (not in this build: feature lab)
    #[cfg(not(feature = "lab"))]
    Durability(disabled_command::DisabledCommand),
    /// Run the mail load on several file systems alternately, and compare them
    ///
    /// Run the mail load on directories of several file systems alternately, until the difference can be
    /// distinguished from noise
    #[cfg(feature = "lab")]
    Filesystems(Box<CompareFilesystemsArgs>),
    /// Run the mail load on several file systems alternately, and compare them (not in this build: feature lab)
    #[cfg(not(feature = "lab"))]
    Filesystems(disabled_command::DisabledCommand),
}

impl JetcellCommand {
    /// Returns what the command needs from the process.
    fn needs(&self) -> ProcessRequirements {
        match self {
            JetcellCommand::Size(_)
            | JetcellCommand::Report(_)
            | JetcellCommand::Events(_)
            | JetcellCommand::Compare(_)
            | JetcellCommand::Doctor(_)
            | JetcellCommand::Completions(_)
            | JetcellCommand::Man(_) => ProcessRequirements::Nothing,
            _ => ProcessRequirements::ThreadsAndMemory,
        }
    }
}

/// Formats a command line error like all other errors: the problem, and the remedy.
fn one_line(text: &str, kind: ErrorKind) -> String {
    let mut lines = text.lines().map(str::trim);
    let what = lines.next().unwrap_or_default().trim_start_matches("error: ");
    let details: Vec<&str> = lines
        .take_while(|line| !line.starts_with("Usage:"))
        .filter(|line| !line.is_empty() && !line.starts_with("For more"))
        .map(|line| line.trim_start_matches("tip: ").trim_start_matches('[').trim_end_matches(']'))
        .collect();
    let what = match what.strip_suffix(':') {
        // For most invalid values, the text already contains the remedy.
        _ if kind == ErrorKind::ValueValidation && what.contains("; ") => return what.to_string(),
        _ if kind == ErrorKind::ValueValidation => what.to_string(),
        Some(what) => format!("{what}: {}", details.join(", ")),
        None => [&[what][..], &details].concat().join("; "),
    };
    format!("{what}; see --help")
}

/// Returns the value of `--color` from a command line that is not executed, such as one with `--help`.
fn requested_colour(mut words: impl Iterator<Item = String>) -> Colour {
    let value = std::iter::from_fn(|| {
        let word = words.next()?;
        Some(match word.strip_prefix("--color") {
            Some("") => words.next(),
            Some(rest) => rest.strip_prefix('=').map(str::to_string),
            None => None,
        })
    });
    value
        .flatten()
        .find_map(|value| <Colour as clap::ValueEnum>::from_str(&value, true).ok())
        .unwrap_or(Colour::Auto)
}

fn main() -> ExitCode {
    report_file_size_limit();
    let arguments = match JetcellArgs::try_parse() {
        Ok(arguments) => arguments,
        // Clap also returns help and version output as errors.
        Err(error) if !error.use_stderr() => {
            colour::set_colour(requested_colour(std::env::args()));
            console::print_unescaped(
                &(if colour::is_enabled() {
                    error.render().ansi().to_string()
                } else {
                    error.render().to_string()
                }),
            );
            return ExitCode::SUCCESS;
        }
        Err(error) if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            return CommandOutcome::CouldNotRun.into();
        }
        Err(error) => {
            print_error(one_line(&error.render().to_string(), error.kind()));
            return CommandOutcome::CouldNotRun.into();
        }
    };
    colour::set_colour(arguments.color);
    if !arguments.command.needs().are_met() {
        return CommandOutcome::CouldNotRun.into();
    }
    let outcome = match arguments.command {
        JetcellCommand::Check(command) => command.run(),
        JetcellCommand::Dump(command) => command.run(),
        #[cfg(feature = "sizing")]
        JetcellCommand::Size(command) => command.run(),
        #[cfg(not(feature = "sizing"))]
        JetcellCommand::Size(command) => command.run("size", "sizing"),
        JetcellCommand::Recover(command) => command.run(),
        JetcellCommand::Backup(command) => command.run(),
        JetcellCommand::Replicate(command) => command.run(),
        JetcellCommand::Serve(command) => command.run(),
        JetcellCommand::Copies(command) => command.run(),
        JetcellCommand::Activate(command) => command.run(),
        JetcellCommand::Reseed(command) => command.run(),
        JetcellCommand::Maintain(command) => command.run(),
        JetcellCommand::Restore(command) => command.run(),
        JetcellCommand::Export(command) => command.run(),
        JetcellCommand::Test(TestSubcommand::Performance(command)) => command.run(),
        JetcellCommand::Test(TestSubcommand::Stress(command)) => command.run(),
        JetcellCommand::Test(TestSubcommand::Backup(command)) => command.run(),
        JetcellCommand::Test(TestSubcommand::Recovery(command)) => command.run(),
        JetcellCommand::Test(TestSubcommand::Replication(command)) => command.run(),
        #[cfg(feature = "lab")]
        JetcellCommand::Test(TestSubcommand::Durability(command)) => command.run(),
        #[cfg(not(feature = "lab"))]
        JetcellCommand::Test(TestSubcommand::Durability(command)) => command.run("test durability", "lab"),
        #[cfg(feature = "lab")]
        JetcellCommand::Test(TestSubcommand::Filesystems(command)) => command.run(),
        #[cfg(not(feature = "lab"))]
        JetcellCommand::Test(TestSubcommand::Filesystems(command)) => command.run("test filesystems", "lab"),
        #[cfg(feature = "fleet")]
        JetcellCommand::Fleet(command) => command.run(),
        #[cfg(not(feature = "fleet"))]
        JetcellCommand::Fleet(command) => command.run("fleet", "fleet"),
        JetcellCommand::Report(command) => command.run(),
        JetcellCommand::Events(command) => command.run(),
        JetcellCommand::Compare(command) => command.run(),
        #[cfg(feature = "arrays")]
        JetcellCommand::Raid(command) => command.run(),
        #[cfg(not(feature = "arrays"))]
        JetcellCommand::Raid(command) => command.run("raid", "arrays"),
        #[cfg(feature = "lab")]
        JetcellCommand::Disk(command) => command.run(),
        #[cfg(not(feature = "lab"))]
        JetcellCommand::Disk(command) => command.run("disk", "lab"),
        JetcellCommand::Power(command) => command.run(),
        JetcellCommand::Doctor(command) => command.run(),
        JetcellCommand::Completions(command) => command.run(JetcellArgs::command()),
        JetcellCommand::Man(command) => command.run(JetcellArgs::command()),
    };
    outcome.into()
}
