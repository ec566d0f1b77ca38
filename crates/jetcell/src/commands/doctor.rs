//! `jetcell doctor`: shows which of this machine's resources a test will use, and what to change before a
//! measurement.

use std::path::PathBuf;

use clap::Args;
use jetcell_host::readiness::{ObservationSeverity, ReadinessReport};
use jetcell_input::{Printable, json_pretty};
use jetcell_report::{StyledText, Tone};

use crate::console;
use crate::outcome::{CommandOutcome, CommandResult};

const EXAMPLES: &str = "\
Examples:
  jetcell doctor
      the machine, and the storage under the current directory
  jetcell doctor /mnt/databases /mnt/logs
      the machine, and the storage under two directories
  jetcell doctor --json /mnt/databases | jq '.observations[] | select(.weight == \"change\")'
      what to change, for a script

Nothing is changed, and no file is left in the directories. The command takes about two seconds.
Exit code: 0 nothing to change, 1 something to change before a measurement, 2 could not run.";

/// Show which of this machine's resources a test will use, and what to change before a measurement
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct DoctorArgs {
    /// Directories that a test will use
    #[arg(value_name = "DIR", default_value = ".")]
    directories: Vec<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl DoctorArgs {
    /// Runs the command.
    pub fn run(self) -> CommandResult {
        let report = ReadinessReport::examine(&self.directories)?;
        console::print_serialized(self.json, || json_pretty(&report), || text(&report))?;
        Ok(CommandOutcome::good_if(report.changes == 0))
    }
}

fn tone(severity: ObservationSeverity) -> Tone {
    match severity {
        ObservationSeverity::Good => Tone::Good,
        ObservationSeverity::Note => Tone::Neutral,
        ObservationSeverity::Change => Tone::Warning,
    }
}

/// Formats a block of lines for the machine and for each directory. Each observation is followed by its advice.
fn text(report: &ReadinessReport) -> StyledText {
    let mut out = StyledText::new();
    let mut about = None;
    for each in &report.observations {
        if about != Some(&each.about) {
            out += if about.is_some() { "\n" } else { "" };
            out += &format!("{}\n", Printable(&each.about));
            about = Some(&each.about);
        }
        out += "  ";
        let label = each.weight.label();
        out.push(label, tone(each.weight));
        out += &format!("{:1$} {2:<20} {3}\n", "", 7 - label.len(), each.subject, Printable(&each.state));
        if let Some(advice) = &each.advice {
            out += "  ";
            out.push("→", Tone::Warning);
            out += &format!(" {}\n", Printable(advice));
        }
    }
    out += &match report.changes {
        0 => "\nNothing to change before a measurement\n".to_string(),
        1 => "\n1 thing to change before a measurement\n".to_string(),
        many => format!("\n{many} things to change before a measurement\n"),
    };
    out
}

#[cfg(test)]
mod tests {
    use jetcell_host::readiness::Observation;

    use super::*;

    #[test]
    fn advice_follows_each_observation_and_changes_are_counted() {
        let observations = vec![
            Observation::ok("Machine", "processors", "2"),
            Observation::recommendation("Machine", "clock", "hpet", "boot with clocksource=tsc"),
            Observation::information("/mnt/a", "mount", "ext4", None),
        ];
        let shown = text(&ReadinessReport { changes: 1, observations }).to_string();
        let expected = "Machine\n  good    processors           2\n  change  clock                hpet\n  \
                        → boot with clocksource=tsc\n\n/mnt/a\n  note    mount                ext4\n\n\
                        1 thing to change before a measurement\n";
        assert_eq!(shown, expected);
    }
}
