//! Command line interface of Jetcell, an ESE-compatible storage engine with storage tests.
//!
//! Every command prints results to stdout, and progress and errors to stderr. Exit codes: 0 good, 1 findings or a
//! failed verdict, 2 could not run.

#![forbid(unsafe_code)]

mod advised_errors;
mod colour;
mod command_line_error;
mod commands;
mod console;
mod decompressing_vfs;
#[cfg(not(feature = "full"))]
mod disabled_command;
mod in_use;
mod live;
mod outcome;
mod packed_members;
mod process_requirements;
mod shared;
mod terminal;
mod version;

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, CommandFactory, Parser, Subcommand};
use jetcell_vfs::report_file_size_limit;

use crate::colour::Colour;
use crate::command_line_error::command_line_error;
use crate::commands::activate::ActivateArgs;
use crate::commands::backup::BackupArgs as MakeBackup;
use crate::commands::check::CheckArgs;
use crate::commands::compare::CompareArgs;
use crate::commands::compare_files::CompareFilesArgs;
use crate::commands::completions::CompletionsArgs;
use crate::commands::copies::CopiesArgs;
#[cfg(feature = "lab")]
use crate::commands::disk::DiskCommand;
use crate::commands::doctor::DoctorArgs;
use crate::commands::dump::DumpCommand;
use crate::commands::events::EventsArgs;
use crate::commands::export::ExportArgs;
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
use crate::commands::test::TestCommand;
use crate::outcome::{CommandOutcome, CommandResult};
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
    #[command(subcommand, after_help = commands::dump::EXAMPLES)]
    Dump(Box<DumpCommand>),
    /// Compare two versions of a database, row by row and page by page
    CompareFiles(CompareFilesArgs),
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
    /// Share directories on this host, so that other hosts can keep copies
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
    #[command(subcommand, after_help = commands::test::EXAMPLES)]
    Test(TestCommand),
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

impl JetcellCommand {
    /// Returns the process resources that the command requires.
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

    fn run(self) -> CommandResult {
        self.needs().check()?;
        match self {
            JetcellCommand::Check(command) => command.run(),
            JetcellCommand::Dump(command) => command.run(),
            JetcellCommand::CompareFiles(command) => command.run(),
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
            JetcellCommand::Test(command) => command.run(),
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
        }
    }
}

/// Returns the value of `--color` on a command line that is not executed, because it asks for help or the version.
fn requested_colour() -> Colour {
    let flag = |name| Arg::new(name).long(name).global(true).action(ArgAction::SetTrue);
    let command = JetcellArgs::command()
        .disable_help_flag(true)
        .disable_version_flag(true)
        .disable_help_subcommand(true)
        .arg(flag("help").short('h'))
        .arg(flag("version").short('V'))
        .ignore_errors(true);
    let matches = command.try_get_matches().ok();
    matches.and_then(|matches| matches.get_one("color").copied()).unwrap_or(Colour::Auto)
}

fn main() -> ExitCode {
    report_file_size_limit();
    version::build().register();
    let arguments = match JetcellArgs::try_parse() {
        Ok(arguments) => arguments,
        // Clap also returns help and version output as errors.
        Err(error) if !error.use_stderr() => {
            colour::set_colour(requested_colour());
            console::print_coloured(&error.render().ansi().to_string());
            return ExitCode::SUCCESS;
        }
        Err(error) if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            return CommandOutcome::CouldNotRun.into();
        }
        Err(error) => {
            return command_line_error(&error).print().into();
        }
    };
    colour::set_colour(arguments.color);
    arguments.command.run().unwrap_or_else(|error| error.print()).into()
}
