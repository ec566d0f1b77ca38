//! `jetcell disk`: tests and examines drives and file systems.

mod experiment;
mod fragmentation;
mod test;

use clap::Subcommand;

use self::experiment::FragmentationExperimentArgs;
use self::fragmentation::ShowFragmentationArgs;
use self::test::DiskTestArgs;
#[cfg(feature = "arrays")]
pub use self::test::MeasurementOptions;
use crate::outcome::CommandResult;

/// Examples shown below the list of commands.
pub const EXAMPLES: &str = "\
Examples:
  jetcell disk test /mnt/data
      transfer rates, access times, queue depths and sync latency of a file system
  jetcell disk test /mnt/green /mnt/black
      two drives alternately, with differences and their significance
  jetcell disk fragmentation priv1.edb
      extents of a database, and the share of its reads that cross a boundary
  jetcell disk experiment /mnt/data/experiment --output result
      the same database contiguous and scattered: scan, backup and mail load on both

jetcell disk COMMAND --help has more. Exit code: 0 good, 1 findings, 2 could not run.";

/// Commands for drives and file systems.
#[derive(Subcommand)]
pub enum DiskCommand {
    /// Measure drives and file systems: transfer rates, access times, queue depths, syncs, mixed loads
    Test(Box<DiskTestArgs>),
    /// Show where databases are located on their device: extents, distances, and split reads
    Fragmentation(ShowFragmentationArgs),
    /// Measure the cost of fragmentation on a drive: compare a contiguous and a scattered database, under reads and
    /// under the mail load
    Experiment(Box<FragmentationExperimentArgs>),
}

impl DiskCommand {
    /// Runs the command.
    pub fn run(self) -> CommandResult {
        match self {
            DiskCommand::Test(command) => command.run(),
            DiskCommand::Fragmentation(command) => command.run(),
            DiskCommand::Experiment(command) => command.run(),
        }
    }
}
