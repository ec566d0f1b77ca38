//! `jetcell report`: shows stored runs.

mod esrp;

use std::path::PathBuf;

use clap::Args;
use jetcell_input::{Printable, json_pretty};
use jetcell_report::{StoredRun, StyledText};
use jetcell_workload::Verdict;

use crate::console::{self, print, print_json};
use crate::outcome::{CommandError, CommandOutcome, CommandResult};
use crate::shared::run_list;

const EXAMPLES: &str = "\
Examples:
  jetcell report db1/Performance_2026-11-21_09-36-04
      shows the summary of a run
  jetcell report db1/Performance_2026-11-21_09-36-04 --format html > report.html
      writes the HTML report again, also for a run that was killed
  jetcell report db1
      lists the runs below a directory, one line each
  jetcell report db1/Performance_* --format csv > runs.csv
      writes all figures of several runs, for a spreadsheet or a script
  jetcell report --example-esrp > solution.toml
      prints the commented configuration of an ESRP document
  jetcell report --esrp solution.toml server1/*_2026-11-* server2/*_2026-11-* --output esrp.html
      writes the ESRP document for two servers, and lists its inconsistencies

Exit code: 0 every run passed, 1 a run failed or is incomplete, or an ESRP document is inconsistent,
2 a run could not be read.
The command changes nothing in the directories.";

/// Show the reports of stored runs, including runs that were killed
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct ReportArgs {
    /// Run directories, which contain result.json and samples.csv; if a parent directory is specified, its runs are
    /// listed
    #[arg(required_unless_present = "example_esrp", value_name = "DIR")]
    directories: Vec<PathBuf>,
    /// Output format [default: text; with --esrp, html, or markdown if FILE ends in .md]
    #[arg(long, value_enum)]
    format: Option<ReportFormat>,
    /// Write the ESRP document for the runs of one or several servers, with the vendor's tables and text from this
    /// TOML file
    #[arg(long, value_name = "CONFIG", help_heading = "ESRP document")]
    esrp: Option<PathBuf>,
    /// Write the document atomically to this file, and print its inconsistencies to standard output
    #[arg(long, alias = "out", value_name = "FILE", requires = "esrp", help_heading = "ESRP document")]
    output: Option<PathBuf>,
    /// Print a commented configuration for --esrp, and exit
    #[arg(long, help_heading = "ESRP document", exclusive = true)]
    example_esrp: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ReportFormat {
    /// Verdict, rules, advice, throughput and latencies on one screen
    Text,
    /// A single HTML page for one run, without external resources
    Html,
    /// Markdown with all tables of the HTML page
    #[value(alias = "md")]
    Markdown,
    /// CSV with one value per line: run, table, row, column, value
    Csv,
    /// The content of result.json; a list if several runs are specified
    Json,
}

impl ReportArgs {
    /// Runs the command.
    pub fn run(self) -> CommandResult {
        if self.example_esrp {
            print(jetcell_report::esrp::EXAMPLE);
            return Ok(CommandOutcome::Good);
        }
        if let Some(configuration) = &self.esrp {
            return esrp::write(configuration, &self.directories, self.format, self.output.as_deref());
        }
        self.show(self.format.unwrap_or(ReportFormat::Text))
    }

    fn show(&self, format: ReportFormat) -> CommandResult {
        if format == ReportFormat::Html && self.directories.len() > 1 {
            return Err(
                CommandError::new("--format html can show only one run").advise("specify one directory")
            );
        }
        if let ([directory], ReportFormat::Text) = (self.directories.as_slice(), format)
            && !directory.join("result.json").exists()
            && let Some(listed) = run_list::list_runs(directory)
        {
            console::print_wrapped(listed.text);
            return Ok(listed.outcome);
        }
        // All runs are read before anything is printed, so an unreadable run does not leave partial output.
        let stored: Vec<StoredRun> =
            self.directories.iter().map(|dir| StoredRun::read(dir)).collect::<Result<_, _>>()?;
        match format {
            ReportFormat::Text => {
                let mut text = StyledText::new();
                for (number, (dir, run)) in self.directories.iter().zip(&stored).enumerate() {
                    text += if number > 0 { "\n" } else { "" };
                    if stored.len() > 1 {
                        text += &format!("{}\n", Printable(dir.display()));
                    }
                    text.append(jetcell_report::text(&run.result, &run.samples, console::width()));
                }
                console::print_wrapped(text);
            }
            ReportFormat::Html => {
                stored.iter().for_each(|run| print(&jetcell_report::html(&run.result, &run.samples)));
            }
            ReportFormat::Markdown => {
                let report_markdown = |run: &StoredRun| jetcell_report::markdown(&run.result, &run.samples);
                print(&stored.iter().map(report_markdown).collect::<Vec<_>>().join("\n"));
            }
            ReportFormat::Csv => {
                let names: Vec<String> =
                    self.directories.iter().map(|dir| dir.display().to_string()).collect();
                let runs = names.iter().zip(&stored);
                let runs = runs.map(|(name, run)| (name.as_str(), &run.result, run.samples.as_slice()));
                print(&jetcell_report::csv(runs));
            }
            ReportFormat::Json => match stored.as_slice() {
                [run] => print_json(&json_pretty(&run.result)?),
                runs => {
                    let texts =
                        runs.iter().map(|run| json_pretty(&run.result)).collect::<Result<Vec<_>, _>>()?;
                    print_json(&format!("[\n{}]\n", texts.join(",")));
                }
            },
        }
        let passed = stored.iter().all(|run| run.result.verdict == Verdict::Pass);
        Ok(CommandOutcome::good_if(passed))
    }
}
