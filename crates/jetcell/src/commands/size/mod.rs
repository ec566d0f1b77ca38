//! `jetcell size`: sizes storage from a configuration. Prints text, JSON, CSV or formulas, and writes an HTML page
//! and a test configuration.

mod page;
mod risk;
mod tables;

use std::path::{Path, PathBuf};

use clap::Args;
use jetcell_input::json_pretty;
use jetcell_input::number::grouped;
use jetcell_report::{table_csv, table_text, wrap};
use jetcell_sizing::catalogue::DEFAULT_DISKS;
use jetcell_sizing::platform::PLATFORMS;
use jetcell_sizing::{Config, DiskCatalogue, EXAMPLE, SizingResult, size};
use jetcell_vfs::{read_input, replace_output};

use crate::console::{self, print_json_or_lines};
use crate::outcome::{CommandContext, CommandError, CommandOutcome, CommandResult};

const EXAMPLES: &str = "\
Examples:
  jetcell size --example > site.toml
      a complete configuration with explanations, as a template
  jetcell size --config site.toml
      a table of designs with disks, power, price and probability of loss; the load in five states; space, memory, network, backup
  jetcell size --config site.toml --html sizing.html --csv > designs.csv
      the same as a page with charts, and the table of designs for a spreadsheet
  jetcell size --config site.toml --explain
      also every formula with its numbers, to verify by hand
  jetcell size --config site.toml --test-config test.toml && jetcell test performance --config test.toml
      runs the test that verifies the design
  jetcell size --list-disks > my-disks.toml; jetcell size --config site.toml --disks my-disks.toml
      adds disks to the catalogue

Exit code: 0 sized, 2 could not run.";

/// Maximum size of a configuration file in bytes.
const MAX_FILE: u64 = 1 << 20;
/// Maximum width of a paragraph in characters.
const REPORT_WIDTH: usize = 120;

/// Size storage for mailboxes: I/O, space, memory, network, backup windows, arrays, cost
#[derive(Args)]
#[command(after_help = EXAMPLES, arg_required_else_help = true)]
pub struct SizeArgs {
    /// Configuration file (TOML); see --example
    #[arg(long, value_name = "FILE", required_unless_present_any = ["example", "list_disks", "list_platforms"])]
    config: Option<PathBuf>,
    /// Catalogue file with additional disks; see --list-disks
    #[arg(long, value_name = "FILE")]
    disks: Vec<PathBuf>,
    /// Print every formula with its numbers
    #[arg(long, conflicts_with = "json")]
    explain: bool,
    /// Print all results as JSON
    #[arg(long)]
    json: bool,
    /// Print the table of designs as CSV
    #[arg(long, conflicts_with_all = ["json", "explain"])]
    csv: bool,
    /// Write the result to this HTML page, with charts
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the configuration for a test that verifies the design to this file
    #[arg(long, value_name = "FILE")]
    test_config: Option<PathBuf>,
    /// Print a complete configuration with comments
    #[arg(long, exclusive = true)]
    example: bool,
    /// Print the built-in disk catalogue, which also serves as an example of the file format
    #[arg(long, exclusive = true)]
    list_disks: bool,
    /// Print the coefficients of the mail platforms with their sources
    #[arg(long, exclusive = true)]
    list_platforms: bool,
}

impl SizeArgs {
    /// Runs the command.
    pub fn run(self) -> CommandResult {
        let text = match (self.example, self.list_disks, self.list_platforms) {
            (true, _, _) => EXAMPLE.to_string(),
            (_, true, _) => DEFAULT_DISKS.to_string(),
            (_, _, true) => PLATFORMS.to_string(),
            _ => self.calculate()?,
        };
        print_json_or_lines(self.json, &text);
        Ok(CommandOutcome::Good)
    }

    fn calculate(&self) -> CommandResult<String> {
        let path = self
            .config
            .as_deref()
            .ok_or_else(|| CommandError::new("no configuration").advise("add --config FILE"))?;
        let config = Config::read(&format!("--config {}", path.display()), &read("--config", path)?)?;
        let mut catalogue = DiskCatalogue::built_in();
        for path in &self.disks {
            catalogue.add_file(&format!("--disks {}", path.display()), &read("--disks", path)?)?;
        }
        let sizing = size(&config, &catalogue).context(format_args!("--config {}", path.display()))?;
        if let Some(target) = &self.test_config {
            replace_output(target, &sizing.test_config)
                .context(format_args!("--test-config {} cannot be written", target.display()))?;
        }
        let risks = sizing
            .designs
            .iter()
            .map(|design| risk::design_loss_probability(design, &config, &catalogue))
            .collect();
        let sized = SizingWithRisk { sizing, risks };
        if let Some(target) = &self.html {
            replace_output(target, page::page(&sized))
                .context(format_args!("--html {} cannot be written", target.display()))?;
        }
        if self.json {
            return as_json(&sized).context("could not write the result as JSON");
        }
        if self.csv {
            return Ok(table_csv(&tables::designs(&sized)));
        }
        let summary = summary(&sized);
        Ok(if self.explain { format!("{summary}{}", sized.sizing.sheet) } else { summary })
    }
}

fn as_json(sized: &SizingWithRisk) -> serde_json::Result<String> {
    let mut value = serde_json::to_value(&sized.sizing)?;
    let designs = value.get_mut("designs").and_then(serde_json::Value::as_array_mut);
    for (design, risk) in designs.into_iter().flatten().zip(&sized.risks) {
        design["probability_of_loss"] = serde_json::to_value(risk)?;
    }
    json_pretty(&value)
}

fn read(option: &str, path: &Path) -> CommandResult<String> {
    read_input(path, MAX_FILE).context(format_args!("{option} {}: cannot be read", path.display()))
}

/// A sizing, with each design's risk of data loss.
pub struct SizingWithRisk {
    sizing: SizingResult,
    /// Probability of data loss for each design, in the same order as the designs.
    risks: Vec<Option<f64>>,
}

/// Describes in one line what the sizing is for.
fn subject(sized: &SizingWithRisk) -> String {
    let inputs = &sized.sizing.inputs;
    format!(
        "{} mailboxes on {} servers, {} copies, {}",
        grouped(inputs.mailboxes.count as f64),
        inputs.servers.count,
        inputs.servers.copies,
        inputs.platform
    )
}

fn summary(sized: &SizingWithRisk) -> String {
    let width = console::width();
    let mut out = subject(sized) + "\n";
    let mut all = vec![
        tables::designs(sized),
        tables::states(sized),
        tables::requirements(sized),
        tables::server(sized),
    ];
    all.extend((!sized.sizing.comparisons.is_empty()).then(|| tables::drives(sized)));
    for table in all {
        out += &format!("\n{}\n{}", table.title, table_text(&table, width));
        let notes = table.notes.iter().map(|note| wrap("  ", note, width.min(REPORT_WIDTH)).to_string());
        out += &notes.collect::<String>();
    }
    out += &sized
        .sizing
        .server
        .warnings
        .iter()
        .map(|line| format!("\n{}", wrap("Note: ", line, width.min(REPORT_WIDTH))))
        .collect::<String>();
    out
}
