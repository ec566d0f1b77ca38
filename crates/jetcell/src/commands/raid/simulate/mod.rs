//! `jetcell raid simulate`: runs an experiment in simulated time, and prints its figures.

mod drives;
mod html;
mod simulation_result;
mod tables;

use std::io::IsTerminal;
use std::path::PathBuf;

use clap::Args;
use jetcell_disk_simulation::config::EXAMPLE;
use jetcell_disk_simulation::{Config, ExperimentResults, run};
use jetcell_report::{ReportTable, table_text, tables_markdown, wrap};
use jetcell_vfs::{read_input, replace_output};

use crate::console;
use crate::outcome::{CommandContext, CommandOutcome, CommandResult};

const EXAMPLES: &str = "\
Without --config, the experiment is that of IBM NS3574-0 (2008): 10,000 users of Exchange 2007 on 63 drives of 15,000 rpm with
RAID-DP and 11 for logs, and RAID 10, 5 and 6 on the same drives. States: normal, a drive lost, a drive rebuilt, and the same with two
drives where the level tolerates it. Time is simulated: a run takes a minute, and the same configuration always has the same result.

Examples:
  jetcell raid simulate
  jetcell raid simulate --html experiment.html --markdown experiment.md --json > experiment.json
  jetcell raid reliability --simulated experiment.json
      the risk with the simulated time of a rebuild
  jetcell raid simulate --drives
      the drives, with their published values and the accuracy of the model
  jetcell raid simulate --example-config > mine.toml
  jetcell raid simulate --config mine.toml

Exit code: 0 simulated, 2 could not run.";

/// Measure the performance of disk layouts under simulated load, in simulated time
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct RaidSimulateArgs {
    /// Read the experiment from a TOML file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print the default experiment as a commented configuration file
    #[arg(long)]
    example_config: bool,
    /// Write the tables and charts to this HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the tables to this Markdown file
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Print the drive table next to the published data, and do not run an experiment
    #[arg(long, conflicts_with_all = ["config", "html", "markdown"])]
    drives: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Maximum size in bytes of a configuration file.
const MAX_CONFIG_BYTES: u64 = 1 << 20;

impl RaidSimulateArgs {
    pub fn simulate(&self) -> CommandResult {
        if self.example_config {
            console::print(EXAMPLE);
            return Ok(CommandOutcome::Good);
        }
        if self.drives {
            let shown = if self.json { drives::json() } else { text_of(&drives::tables(), console::width()) };
            console::print_json_or_lines(self.json, &shown);
            return Ok(CommandOutcome::Good);
        }
        let config = match &self.config {
            None => Config::exchange_2007(),
            Some(path) => {
                let source = format!("--config {}", path.display());
                let text = read_input(path, MAX_CONFIG_BYTES).context(&source)?;
                Config::read(&source, &text)?
            }
        };
        let is_shown = std::io::stderr().is_terminal();
        let experiment = run(&config, &mut |step, steps, what| {
            if is_shown {
                console::print_note(&format!("{} of {steps}: {what}", step + 1));
            }
        });
        let experiment = experiment?;
        let write = |path: &Option<PathBuf>, text: &dyn Fn() -> String| match path {
            Some(path) => {
                replace_output(path, text()).context(format_args!("{}: cannot be written", path.display()))
            }
            None => Ok(()),
        };
        write(&self.html, &|| html::page(&experiment))?;
        write(&self.markdown, &|| {
            tables_markdown(
                "simulated arrays",
                &tables::all_tables(&experiment),
                &[tables::title(&experiment)],
            )
        })?;
        let shown = if self.json { as_json(&experiment)? } else { text(&experiment) };
        console::print_json_or_lines(self.json, &shown);
        Ok(CommandOutcome::Good)
    }
}

fn as_json(experiment: &ExperimentResults) -> CommandResult<String> {
    Ok(format!("{}\n", serde_json::to_value(experiment)?))
}

fn text(experiment: &ExperimentResults) -> String {
    let width = console::width();
    wrap("", &tables::title(experiment), width).to_string() + &text_of(&tables::all_tables(experiment), width)
}

fn text_of(tables: &[ReportTable], width: usize) -> String {
    let mut text = String::new();
    for table in tables {
        text += &format!("\n{}\n{}", table.title, table_text(table, width));
        text += &table.notes.iter().map(|line| wrap("  ", line, width).to_string()).collect::<String>();
    }
    text
}
