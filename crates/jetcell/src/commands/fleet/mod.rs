//! `jetcell fleet`: runs one test across many hosts.

mod connection;
mod join;
mod metrics;
mod monitor;
mod page;
mod run;
mod ssh;
mod store;
mod tables;
mod view;

use clap::Subcommand;

use self::join::FleetJoinArgs;
use self::run::FleetRunArgs;
use crate::outcome::CommandResult;

/// Examples shown below the list of commands.
pub const EXAMPLES: &str = "\
Examples:
  jetcell fleet run --example-config > FLEET.toml
      a configuration with comments
  jetcell fleet run --config FLEET.toml
      coordinates; starts nats-server on 127.0.0.1 if --nats is not specified
  jetcell fleet join --fleet mail-cluster --rank 0 --allow-dir /srv/jetcell
      joins as the first host
  srun -N4 -n4 jetcell fleet join --fleet mail-cluster --nats nats://head:4222 --token-file /etc/jetcell/token --allow-dir /srv/jetcell
      four Slurm hosts join; ranks come from the environment

jetcell fleet COMMAND --help has more. Exit code: 0 pass, 1 fail, invalid or stopped early, 2 could not run.";

/// Commands for fleet tests.
#[derive(Subcommand)]
pub enum FleetCommand {
    /// Coordinate a test across many hosts, and combine their results into one
    Run(Box<FleetRunArgs>),
    /// Take part in a fleet test, within limits that this host sets
    Join(Box<FleetJoinArgs>),
}

impl FleetCommand {
    /// Runs the command.
    pub fn run(self) -> CommandResult {
        match self {
            FleetCommand::Run(command) => command.run(),
            FleetCommand::Join(command) => command.run(),
        }
    }
}
