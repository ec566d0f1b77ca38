//! `jetcell raid`: creates, monitors, repairs and destroys arrays, and calculates their reliability.

mod array_operation;
mod bench;
mod create;
mod destroy;
mod grow;
mod lun;
mod maintenance;
mod measured_options;
mod members;
mod operation_output;
mod output_options;
mod reliability;
mod serve;
mod simulate;
mod snapshot;
mod status;

use clap::Subcommand;

use self::create::RaidCreateArgs;
use self::destroy::RaidDestroyArgs;
use self::grow::RaidGrowArgs;
use self::lun::LunCommand;
use self::maintenance::{RaidRebuildArgs, RaidScrubArgs};
use self::measured_options::MeasuredOptions;
use self::members::{RaidFailArgs, RaidReplaceArgs, RaidSpareArgs};
use self::reliability::{RaidReliabilityArgs, ReliabilityOptions};
use self::serve::RaidServeArgs;
use self::simulate::RaidSimulateArgs;
use self::snapshot::SnapshotCommand;
use self::status::ArrayStatusArgs;
use crate::console::print_note;
use crate::outcome::CommandResult;

/// Examples shown below the list of commands.
pub const EXAMPLES: &str = "\
The commands take the directory of an array, which contains the list of members and the events. Members are files or block
devices of equal size. While jetcell raid serve or a test uses an array, commands that change members, LUNs or snapshots run in that
process, concurrently with its load; destroy and bench refuse an array in use.

Examples:
  jetcell raid create arr1 --level raid-dp --members m1 m2 m3 m4 m5 m6 --size 256MiB
      creates six files and an array with four data members and two parity members
  jetcell raid status arr1 --watch
      shows its state each second, also while another process uses it
  jetcell raid fail arr1 m2
      removes a member
  jetcell raid replace arr1 m2 m7
      replaces the member, and rebuilds its slot
  jetcell raid scrub arr1
      reads and verifies everything
  jetcell raid serve arr1
      exports it as a network block device for virtual machines and nbd-client
  jetcell raid lun create arr2 mail --size 1TiB
  jetcell raid snapshot create arr2 mail before-update
      thin devices with snapshots, on an array that contains nothing else
  jetcell raid simulate --html experiment.html
      10,000 mailboxes on RAID 10, 5, 6 and RAID-DP of 63 simulated disks
  jetcell raid reliability --compare
      compares the risk of layouts of the same disks

jetcell raid COMMAND --help has more. Exit code: 0 good, 1 findings or stopped early, 2 could not run.";

/// Examples shown below the LUN commands.
const LUN_EXAMPLES: &str = "\
Examples:
  jetcell raid lun create arr2 mail --size 1TiB
  jetcell raid lun list arr2
      names, sizes and used space

Exit code: 0 done, 2 could not run.";

/// Examples shown below the snapshot commands.
const SNAPSHOT_EXAMPLES: &str = "\
Examples:
  jetcell raid snapshot create arr2 mail before-update
  jetcell raid snapshot rollback arr2 mail before-update --force
      restores the state of the LUN

Exit code: 0 done, 2 could not run.";

/// Commands for RAID arrays.
#[derive(Subcommand)]
pub enum RaidCommand {
    /// Create an array from files or block devices
    Create(RaidCreateArgs),
    /// Show the state of an array, its slots and its members
    Status(ArrayStatusArgs),
    /// Remove a member from an array, as if it had failed
    Fail(RaidFailArgs),
    /// Replace the member of a slot, and rebuild or copy its data
    Replace(RaidReplaceArgs),
    /// Add a spare that replaces the next member that fails
    Spare(RaidSpareArgs),
    /// Continue a rebuild, or start it on a spare
    Rebuild(RaidRebuildArgs),
    /// Read and verify all blocks, and repair damaged blocks
    Scrub(RaidScrubArgs),
    /// Serve an array, or the LUNs on it, as network block devices (NBD)
    Serve(RaidServeArgs),
    /// Create, list, clean and delete LUNs: thin devices with a write-anywhere layout
    #[command(subcommand, after_help = LUN_EXAMPLES)]
    Lun(LunCommand),
    /// Create, list, delete, clone and restore snapshots of LUNs
    #[command(subcommand, after_help = SNAPSHOT_EXAMPLES)]
    Snapshot(SnapshotCommand),
    /// Add members and their space
    Grow(RaidGrowArgs),
    /// Destroy an array: its members become ordinary files
    Destroy(RaidDestroyArgs),
    /// Measure an array, or a LUN on it, and compare it with plain files
    Bench(bench::RaidBenchArgs),
    /// Measure layouts of simulated disks under load
    Simulate(RaidSimulateArgs),
    /// Calculate the probability that an array loses data during its service life
    Reliability(Box<RaidReliabilityArgs>),
}

impl RaidCommand {
    /// Runs the command.
    pub fn run(self) -> CommandResult {
        match self {
            RaidCommand::Create(command) => command.create(),
            RaidCommand::Status(command) => command.show(),
            RaidCommand::Fail(command) => command.run(),
            RaidCommand::Replace(command) => command.run(),
            RaidCommand::Spare(command) => command.run(),
            RaidCommand::Rebuild(command) => command.run(),
            RaidCommand::Scrub(command) => command.run(),
            RaidCommand::Serve(command) => command.serve(),
            RaidCommand::Lun(command) => command.run(),
            RaidCommand::Snapshot(command) => command.run(),
            RaidCommand::Grow(command) => command.run(),
            RaidCommand::Destroy(command) => command.destroy(),
            RaidCommand::Bench(command) => command.run(),
            RaidCommand::Simulate(command) => command.simulate(),
            RaidCommand::Reliability(command) => reliability(*command),
        }
    }
}

fn reliability(command: RaidReliabilityArgs) -> CommandResult {
    let MeasuredOptions { options, notes } = match (command.array(), command.simulation_result()) {
        (Some(array), _) => MeasuredOptions::from_array(array)?,
        (None, Some((result, layout))) => MeasuredOptions::from_simulation(result, layout)?,
        (None, None) => return command.calculate(ReliabilityOptions::default()),
    };
    notes.iter().for_each(|line| print_note(line));
    command.calculate(options)
}
