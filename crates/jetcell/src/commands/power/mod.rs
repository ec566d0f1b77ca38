//! `jetcell power`: records the power use of a test, and calculates its cost.

mod energy;
mod record;

use clap::Subcommand;
use jetcell_power::detect_meters;

use self::energy::ShowEnergyArgs;
use self::record::RecordPowerArgs;
use crate::console::print;
use crate::outcome::{CommandError, CommandOutcome, CommandResult};

/// Examples shown below the list of commands.
pub const EXAMPLES: &str = "\
Examples:
  jetcell power meters
      the meters of this machine
  jetcell power record --meter tasmota=http://192.168.1.20 --scope server --output power.csv -- jetcell test performance --dir /mnt/data --output run
      reads a smart plug each second while the test runs
  jetcell power energy power.csv --run run --price-per-kwh 0.30 --currency EUR
      watts, joules per transactional I/O, kWh and cost per year

jetcell power COMMAND --help has more. Exit code: 0 good, 1 no meter found, 2 could not run.";

const METERS_EXAMPLES: &str = "\
Examples:
  jetcell power meters
      the processor counters, sensors and board controller of this machine; processor counters require root

Exit code: 0 a meter returns readings, 1 no meter does.";

/// Commands for power meters.
#[derive(Subcommand)]
pub enum PowerCommand {
    /// Show the power meters of this machine, and why a meter has no reading
    #[command(after_help = METERS_EXAMPLES)]
    Meters,
    /// Read a meter while a command runs, or until Ctrl-C
    Record(RecordPowerArgs),
    /// Show the energy use of a run, or the energy recorded in a log
    Energy(ShowEnergyArgs),
}

impl PowerCommand {
    /// Runs the command.
    pub fn run(self) -> CommandResult {
        match self {
            PowerCommand::Meters => Ok(meters()),
            PowerCommand::Record(command) => command.run(),
            PowerCommand::Energy(command) => command.run(),
        }
    }
}

fn meters() -> CommandOutcome {
    let meters = detect_meters();
    let is_found = meters.iter().any(|(_, opened)| opened.is_ok());
    for (kind, opened) in meters {
        let scope = kind.scope().map_or_else(|| "specify --scope".to_string(), |scope| scope.to_string());
        match opened {
            Ok(()) => print(&format!("meter {kind}: returns readings; scope: {scope}\n")),
            Err(error) => print(&format!("no reading: {}\n", CommandError::from(error).full_text())),
        }
    }
    print(
        "Smart plugs are not detected automatically; specify them as tasmota=URL, shelly=URL or \
     shelly1=URL\n",
    );
    CommandOutcome::good_if(is_found)
}
