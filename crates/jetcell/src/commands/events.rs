//! `jetcell events`: shows the events of a run, a recovery or an instance.

use std::io::{self, BufRead, BufReader, Read};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use jetcell_input::{columns, printable};
use jetcell_report::{StyledText, Tone};
use jetcell_vfs::open_input;
use jetcell_workload::EVENT_FILE;
use serde_json::Value;

use crate::console;
use crate::outcome::{CommandError, CommandOutcome, CommandResult};

const EXAMPLES: &str = "\
Examples:
  jetcell events db1/Performance_2026-11-21_09-36-04
      shows the events of a run, the oldest first
  jetcell events jetcell-run --id 721 --id 722
      shows the completed passes of the scan
  jetcell events sru-recovered --severity warning
      shows warnings and errors
  jetcell events out --json | jq 'select(.id == 474) | .page'

Exit code: 0 shown, 1 some lines cannot be read, 2 could not run.";

/// Maximum length of a line in bytes. A longer line is not treated as an event.
const MAX_LINE: u64 = 1 << 20;

/// Show the events of a run, a recovery or maintenance
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct EventsArgs {
    /// The file events.jsonl, or the directory that contains it
    #[arg(value_name = "DIR")]
    path: PathBuf,
    /// Show only events with this ESE event number; may be repeated
    #[arg(long, value_name = "NUMBER")]
    id: Vec<u16>,
    /// Show only events of at least this severity
    #[arg(long, value_enum, value_name = "SEVERITY")]
    severity: Option<EventSeverityFilter>,
    /// Print the lines of the file unchanged
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum EventSeverityFilter {
    /// All events
    Information,
    /// Events that need attention, and errors
    Warning,
    /// Failures only
    Error,
}

impl EventsArgs {
    /// Runs the command.
    pub fn run(self) -> CommandResult {
        let path = if self.path.is_dir() { self.path.join(EVENT_FILE) } else { self.path.clone() };
        let error_with_path = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => CommandError::new(format_args!("{} does not exist", path.display()))
                .advise("specify the directory of a run or a recovery"),
            _ => CommandError::from(error).context(path.display()),
        };
        let mut reader = BufReader::new(open_input(&path).map_err(error_with_path)?);
        let (mut number, mut unreadable, mut line) = (0_u64, 0_u64, Vec::new());
        loop {
            line.clear();
            if (&mut reader).take(MAX_LINE).read_until(b'\n', &mut line).map_err(error_with_path)? == 0 {
                break;
            }
            number += 1;
            let whole = line.ends_with(b"\n");
            let event = serde_json::from_slice::<Value>(&line).ok();
            match event.as_ref().and_then(|event| self.wants(event)) {
                Some(true) if self.json => {
                    console::print_json(&format!("{}\n", String::from_utf8_lossy(&line).trim_end()));
                }
                Some(true) => console::print_wrapped(as_text(&event.unwrap_or_default())),
                Some(false) => {}
                None => {
                    unreadable += 1;
                    console::print_note(&format!("line {number} is not an event and was skipped"));
                }
            }
            if !whole {
                reader.skip_until(b'\n').map_err(error_with_path)?;
            }
        }
        Ok(CommandOutcome::good_if(unreadable == 0))
    }

    /// Returns whether an event should be shown, or `None` if the value is not an event.
    fn wants(&self, event: &Value) -> Option<bool> {
        (event["at"].is_string() && event["event"].is_string()).then_some(())?;
        let named = self.id.is_empty() || self.id.iter().any(|id| event["id"] == *id);
        // Files of earlier versions do not contain a severity.
        let severity = match event["severity"].as_str() {
            Some("error") => EventSeverityFilter::Error,
            Some("warning") => EventSeverityFilter::Warning,
            _ => EventSeverityFilter::Information,
        };
        Some(named && self.severity.is_none_or(|least| severity >= least))
    }
}

/// Formats an event as one line: time, severity, number, and text.
fn as_text(event: &Value) -> StyledText {
    let text = |name: &str| event[name].as_str().unwrap_or_default().to_string();
    let id = event["id"].as_u64().map_or("-".to_string(), |id| id.to_string());
    let what = match event["text"].as_str() {
        Some(text) => text.to_string(),
        None => text("event").replace('_', " "),
    };
    let severity = event["severity"].as_str().unwrap_or("information");
    let tone = match severity {
        "error" => Tone::Bad,
        "warning" => Tone::Warning,
        _ => Tone::Neutral,
    };
    let rest = format!("{:1$}  {id:>3}  {what}", "", 11_usize.saturating_sub(columns(severity)));
    StyledText::from(&*printable(&format!("{}  ", text("at"))))
        .with(&printable(severity), tone)
        .with(&(printable(&rest) + "\n"), Tone::Neutral)
}
