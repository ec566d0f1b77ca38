//! `jetcell disk`: examines drives and file systems.

mod fragmentation;

use clap::Subcommand;

use self::fragmentation::ShowFragmentation;
use crate::outcome::Outcome;

/// Shown below the list of the commands.
pub const EXAMPLES: &str = "\
Examples:
  jetcell disk fragmentation priv1.edb
      extents of a database, and the share of its reads that cross a border

jetcell disk COMMAND --help has more. Exit code: 0 good, 2 could not run.";

/// The commands of drives and file systems.
#[derive(Subcommand)]
pub enum Disk {
    /// Show where databases are on their device: extents, distances, and reads that are split
    Fragmentation(ShowFragmentation),
}

impl Disk {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        match self {
            Disk::Fragmentation(command) => command.run(),
        }
    }
}
