//! `jetcell power energy`: what a log says.

use std::path::PathBuf;

use clap::Args;
use jetcell_power::{Energy, PowerLog, Scope};
use jetcell_report::{Cell, Stored, Table, decimal, printable, table_text};
use serde_json::json;

use super::tariff::TariffOptions;
use crate::console::{self, print};
use crate::measured_window::measured_window;
use crate::outcome::{Failure, Outcome, print_error};

const EXAMPLES: &str = "\
A log is CSV with a column of the time (unix_ms, unix_seconds, or time as RFC 3339) and one of watts, joules or kwh; joules and kwh
are counters. It comes from jetcell power record, or from any meter. Of a run, the window in which it measured counts, and the log must cover it
without gaps of more than a tenth of it.

Examples:
  jetcell power energy power.csv
  jetcell power energy power.csv --run run --price-per-kwh 0.30 --currency EUR --co2-kg-per-kwh 0.38
      also joules for each transactional I/O, and cost and carbon dioxide of a year
  jetcell power energy meter.csv --scope server --run run --json

Exit code: 0 shown, 2 there is no figure.";

/// Shows the energy of a log, or of a run
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct ShowEnergy {
    /// Log of a meter
    #[arg(value_name = "LOG")]
    log: PathBuf,
    /// What the meter measured, if the log does not say it: drive, enclosure, server or processor
    #[arg(long, value_name = "SCOPE")]
    scope: Option<Scope>,
    /// Only the measured time of this run
    #[arg(long, value_name = "DIR")]
    run: Option<PathBuf>,
    #[command(flatten)]
    tariff: TariffOptions,
    /// Print the figures as JSON
    #[arg(long)]
    json: bool,
}

impl ShowEnergy {
    /// Runs the command.
    pub fn run(self) -> Outcome {
        match self.show() {
            Ok(()) => Outcome::Good,
            Err(what) => {
                print_error(what);
                Outcome::CouldNotRun
            }
        }
    }

    fn show(&self) -> Result<(), Failure> {
        let failed = |error: jetcell_power::PowerError| Failure::from(error.to_string());
        let log = PowerLog::read(&self.log, self.scope).map_err(failed)?;
        let run = self.run.as_deref().map(Stored::read).transpose().map_err(|error| error.to_string())?;
        let used = match &run {
            None => log.whole(),
            Some(run) => {
                let (from, to) = measured_window(&run.result)?;
                log.between(from, to)
            }
        };
        let used = used.map_err(failed)?;
        let energy = Energy::of(used.watts(), log.scope, &self.tariff.tariff());
        let currency = self.tariff.currency.as_deref();
        let iops = run.as_ref().map(|run| run.result.achieved_transactional_iops);
        let joules_per_io = iops.and_then(|iops| energy.joules_per(iops));
        if self.json {
            let shown = json!({
                "schema": 1, "seconds": used.seconds, "joules": used.joules, "energy": energy,
                "transactional_iops": iops, "joules_per_io": joules_per_io, "currency": currency,
            });
            print(&format!("{shown}\n"));
            return Ok(());
        }
        let money = currency.unwrap_or("money");
        let rows = [
            ("Measured".to_string(), Some(energy.scope.to_string())),
            ("Time".into(), Some(format!("{} s", decimal(used.seconds, 1)))),
            ("Energy".into(), Some(format!("{} J", decimal(used.joules, 0)))),
            ("Power".into(), Some(format!("{} W", decimal(energy.watts, 1)))),
            ("Transactional I/O".into(), iops.map(|iops| format!("{} /s", decimal(iops, 1)))),
            (
                "Energy of a transactional I/O".into(),
                joules_per_io.map(|joules| format!("{} J", decimal(joules, 3))),
            ),
            ("Energy of a year".into(), Some(format!("{} kWh", decimal(energy.kwh_per_year, 1)))),
            (
                "Cost of a year".into(),
                energy.cost_per_year.map(|cost| format!("{} {money}", decimal(cost, 2))),
            ),
            (
                "CO2 of a year".into(),
                energy.co2_kg_per_year.map(|kilograms| format!("{} kg", decimal(kilograms, 1))),
            ),
        ];
        let rows =
            rows.into_iter().filter_map(|(name, value)| Some(vec![Cell::from(name), Cell::from(value?)]));
        let table = Table::facts("Energy").rows(rows);
        print(&format!("{}\n", table_text(&table, console::width()).trim_end_matches('\n')));
        if !energy.scope.is_storage() {
            let scope = printable(&energy.scope.to_string()).into_owned();
            print(&format!("These figures are those of {scope}. They say nothing about a drive alone.\n"));
        }
        Ok(())
    }
}
