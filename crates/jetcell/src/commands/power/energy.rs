//! `jetcell power energy`: evaluates a meter's log.

use std::path::PathBuf;

use clap::Args;
use jetcell_input::number::decimal;
use jetcell_power::{EnergyEstimate, EnergyUse, MeterScope, PowerLog};
use jetcell_report::{ReportCell, ReportTable, StoredRun, table_text, tables_html, tables_markdown, wrap};
use serde_json::json;

use crate::console;
use crate::outcome::{CommandError, CommandOutcome, CommandResult};
use crate::shared::empty_directory::require_empty;
use crate::shared::result_directory::store;
use crate::shared::tariff::{TariffOptions, above_zero};

const EXAMPLES: &str = "\
A log is a CSV file with a time column (unix_ms, unix_seconds, or time as RFC 3339) and a column watts, joules or kwh; joules and kwh
are counters. The log comes from jetcell power record, or from any meter. For a run, only the measured window is used. The log must
cover this window without gaps of more than a tenth of it.

Examples:
  jetcell power energy power.csv
  jetcell power energy power.csv --run run --price-per-kwh 0.30 --currency EUR --co2-kg-per-kwh 0.38
      also joules per transactional I/O, and cost and carbon dioxide per year
  jetcell power energy meter.csv --scope server --run run --json
  jetcell power energy --kwh 1.10 --hours 27.5 --scope server --price-per-kwh 0.185 --currency USD
      entered by hand, from a meter without an interface
  jetcell power energy power.csv --run run --output energy
      also as an HTML page and as Markdown

Exit code: 0 shown, 2 no result.";

/// Joules per kilowatt-hour.
const JOULES_PER_KWH: f64 = 3.6e6;

/// Show the energy use of a run, or the energy recorded in a log
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct ShowEnergyArgs {
    /// Log file of a meter
    #[arg(value_name = "LOG", required_unless_present = "kwh", conflicts_with = "kwh")]
    log: Option<PathBuf>,
    /// Kilowatt-hours counted by a meter, instead of a log
    #[arg(long, value_name = "KWH", requires_all = ["hours", "scope"], value_parser = above_zero)]
    kwh: Option<f64>,
    /// Duration of this measurement in hours
    #[arg(long, value_name = "H", requires = "kwh", value_parser = above_zero)]
    hours: Option<f64>,
    /// Scope of the meter, if the log does not contain it: drive, enclosure, server or processor
    #[arg(long, value_name = "SCOPE")]
    scope: Option<MeterScope>,
    /// Evaluate only the measured time of this run
    #[arg(long, value_name = "DIR")]
    run: Option<PathBuf>,
    #[command(flatten)]
    tariff: TariffOptions,
    /// Directory for result.json, report.html and report.md; it must be empty or new
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Print the figures as JSON
    #[arg(long)]
    json: bool,
}

/// Energy use, and the source of the data.
struct EnergyOutput<'s> {
    energy: EnergyEstimate,
    seconds: f64,
    joules: f64,
    /// Source of the data, in words.
    source: &'static str,
    /// The run's transactional I/O operations per second.
    iops: Option<f64>,
    currency: Option<&'s str>,
}

impl ShowEnergyArgs {
    /// Runs the command.
    pub fn run(self) -> CommandResult {
        require_empty(self.output.as_deref(), "result")?;
        let shown = self.measured_energy()?;
        let (tables, remarks) = ([shown.table()], shown.notes());
        if let Some(output) = &self.output {
            let html = tables_html("Energy", &tables, &remarks);
            store(output, &html, &tables_markdown("energy", &tables, &remarks), &shown.json())?;
        }
        console::print_result(
            self.json,
            || shown.json(),
            || {
                let table = table_text(&tables[0], console::width());
                let lines = remarks.iter().map(|line| wrap("", line, console::width()).to_string());
                format!("{table}{}", lines.collect::<String>())
            },
        );
        Ok(CommandOutcome::Good)
    }

    /// Returns the energy that was read from the log or entered by the user.
    fn measured_energy(&self) -> CommandResult<EnergyOutput<'_>> {
        let run = self.run.as_deref().map(StoredRun::read).transpose()?;
        let (used, scope, source) = match (&self.log, self.kwh, self.hours, self.scope) {
            (None, Some(kwh), Some(hours), Some(scope)) => {
                let used = EnergyUse { joules: kwh * JOULES_PER_KWH, seconds: hours * 3600.0, counted: true };
                (used, scope, "entered: kWh over hours")
            }
            (Some(path), ..) => {
                let log = PowerLog::read(path, self.scope)?;
                let used = match &run {
                    None => log.total_energy(),
                    Some(run) => {
                        let (from, to) = run.result.measured_window()?;
                        log.energy_between(from, to)
                    }
                };
                let used = used?;
                let source = if used.counted { "meter counter" } else { "integrated meter power" };
                (used, log.scope, source)
            }
            _ => return Err(CommandError::new("specify a log, or --kwh, --hours and --scope")),
        };
        Ok(EnergyOutput {
            energy: EnergyEstimate::from_watts(used.watts(), scope, &self.tariff.tariff()),
            seconds: used.seconds,
            joules: used.joules,
            source,
            iops: run.as_ref().map(|run| run.result.achieved_transactional_iops),
            currency: self.tariff.currency.as_deref(),
        })
    }
}

impl EnergyOutput<'_> {
    fn joules_per_io(&self) -> Option<f64> {
        self.iops.and_then(|iops| self.energy.joules_per(iops))
    }

    fn json(&self) -> String {
        let shown = json!({
            "schema": 1, "seconds": self.seconds, "joules": self.joules, "source": self.source, "energy": self.energy,
            "transactional_iops": self.iops, "joules_per_io": self.joules_per_io(), "currency": self.currency,
        });
        format!("{shown}\n")
    }

    fn table(&self) -> ReportTable {
        let energy = &self.energy;
        let money = self.currency.unwrap_or("money");
        let per_io = self.joules_per_io();
        let rows = [
            ("Measured", Some(energy.scope.to_string())),
            ("Source", Some(self.source.to_string())),
            ("Time", Some(format!("{} s", decimal(self.seconds, 1)))),
            ("Energy", Some(format!("{} J", decimal(self.joules, 0)))),
            ("Power", Some(format!("{} W", decimal(energy.watts, 1)))),
            ("Transactional I/O", self.iops.map(|iops| format!("{} /s", decimal(iops, 1)))),
            ("Energy per transactional I/O", per_io.map(|joules| format!("{} J", decimal(joules, 3)))),
            ("Energy per year", Some(format!("{} kWh", decimal(energy.kwh_per_year, 1)))),
            ("Cost per year", energy.cost_per_year.map(|cost| format!("{} {money}", decimal(cost, 2)))),
            ("CO2 per year", energy.co2_kg_per_year.map(|kilograms| format!("{} kg", decimal(kilograms, 1)))),
        ];
        let rows = rows
            .into_iter()
            .filter_map(|(name, value)| Some(vec![ReportCell::from(name), ReportCell::from(value?)]));
        ReportTable::facts("Energy").rows(rows)
    }

    fn notes(&self) -> Vec<String> {
        let scope = self.energy.scope;
        let other = format!("These figures apply to {scope}, not to a single drive.");
        (!scope.is_storage()).then_some(other).into_iter().collect()
    }
}
