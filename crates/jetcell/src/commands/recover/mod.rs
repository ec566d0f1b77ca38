//! `jetcell recover`: replays logs on databases and brings them to a clean state.

mod options;

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use clap::Args;
use jetcell_backup::{
    IgnoredFile, LostGenerations, RecoveredDatabase, RecoveryPhase, RecoveryReport, RecoveryRequest,
    RecoveryTarget, ReplayEnd, ReplayedGenerations,
};
use jetcell_report::{StyledText, Tone};

use self::options::mapping;
use crate::console;
use crate::outcome::{CommandOutcome, CommandResult};
use crate::shared::files::{event_sink, vfs};
use crate::shared::json::json_with_evidence;
use crate::shared::replay_end::until;

const EXAMPLES: &str = r"The logs may come from Windows or from Jetcell. The type of a file is determined from its content. All logs are verified before
anything is changed. Without --in-place, the command works on a copy, and the specified files are not changed.

Examples:
  jetcell recover --dry-run /evidence/sru
      which logs would be replayed, and which are missing
  jetcell recover /evidence/sru --into sru-recovered
      makes a copy, and recovers the databases in it
  jetcell recover logs/ mail.edb --map 'D:\Mail\db1.edb=mail.edb' --into recovered
  jetcell recover logs/ old.edb --until 5B --into before
      the state at the end of generation 5B, from an older copy of the database
  jetcell recover logs/ old.edb --until 2026-11-23T08:00:00Z --keep-dirty --into before
  jetcell recover --in-place /var/lib/app/logs
      changes the files themselves
  jetcell recover --json /evidence/sru --into out | jq .databases

Exit code: 0 recovered, 1 recovered with the loss that --allow-loss allowed, databases or logs of other streams were ignored, or
no database was recovered, 2 could not recover, and nothing was changed. After an I/O error with --in-place, repeat the command.";

/// Recover dirty databases with their logs, including databases from Windows
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct RecoverArgs {
    /// Logs and databases, or directories that contain them
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Copy the files into this directory, which must be empty or not exist, and recover the copies [default: the
    /// first path with "-recovered" appended to its name]
    #[arg(long, value_name = "DIR", conflicts_with = "in_place")]
    into: Option<PathBuf>,
    /// Modify the files themselves, after a trial run that changes nothing. The files are locked during the recovery,
    /// and an interrupted recovery can be repeated
    #[arg(long)]
    in_place: bool,
    /// Use the database or directory NEW where the log refers to OLD. A database whose name and signature match the
    /// log needs no mapping
    #[arg(long, value_name = "OLD=NEW", value_parser = mapping)]
    map: Vec<(String, PathBuf)>,
    /// Stop after a generation, before a log position, or at a time
    #[arg(long, value_name = "GENERATION|POSITION|TIME", value_parser = until)]
    until: Option<ReplayEnd>,
    /// Do not roll back unfinished transactions: the databases stay dirty, and more logs can be replayed
    #[arg(long)]
    keep_dirty: bool,
    /// Accept missing databases, and missing or damaged logs if the databases are consistent without them
    #[arg(long)]
    allow_loss: bool,
    /// Only show what would be replayed, and which logs are missing. The command fails where the recovery would fail,
    /// except at damaged pages, which only the replay reads
    #[arg(long)]
    dry_run: bool,
    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
}

impl RecoverArgs {
    /// Runs the command.
    pub fn run(self) -> CommandResult {
        let target =
            if self.in_place { RecoveryTarget::Originals } else { RecoveryTarget::Copies(self.into) };
        let request = RecoveryRequest {
            paths: self.paths,
            target,
            map: self.map,
            until: self.until,
            keep_dirty: self.keep_dirty,
            allow_loss: self.allow_loss,
            dry_run: self.dry_run,
        };
        let open_events = |directory: &Path| event_sink(directory, false);
        let report = request.run(&vfs()?, &open_events, &show_step)?;
        let json = || json_with_evidence(&report, request.paths.iter().chain(&report.directory));
        console::print_serialized(self.json, json, || text(&report))?;
        Ok(CommandOutcome::good_if(report.is_complete()))
    }
}

/// Prints the current step if stderr is a terminal.
fn show_step(step: RecoveryPhase) {
    if io::stderr().is_terminal() {
        console::print_note(&step.to_string());
    }
}

/// Formats the report as text.
fn text(report: &RecoveryReport) -> StyledText {
    let mut out = StyledText::new();
    let ReplayedGenerations { first, last } = report.generations;
    let verb = if report.dry_run { "would replay" } else { "replayed" };
    let upto = report.position.as_ref().map(|position| format!(", up to {position}")).unwrap_or_default();
    out.add_line(&format!("{verb} log generations {first:X} to {last:X} (hexadecimal){upto}"));
    if !report.dry_run {
        let all: u64 = report.records.values().sum();
        let mut types: Vec<_> = report.records.iter().collect();
        types.sort_by_key(|(name, count)| (std::cmp::Reverse(**count), **name));
        let types: Vec<String> = types.iter().map(|(name, count)| format!("{name} {count}")).collect();
        out.add_line(&format!("records: {all} ({})", types.join(", ")));
        out.add_line(&format!(
            "pages: {} changes made, {} pages read, {} written",
            report.pages.changes, report.pages.read, report.pages.written
        ));
        out.add_line(&format!("transactions rolled back: {}", report.undone));
        if report.incomplete_macros > 0 {
            let count = report.incomplete_macros;
            out.add_line(&format!("macros truncated by the end of the log, not replayed: {count}"));
        }
    }
    for LostGenerations { first, last, why } in &report.lost {
        let range = if first == last { format!("{first:X}") } else { format!("{first:X} to {last:X}") };
        out.push("LOST", Tone::Bad);
        out.add_line(&format!(": log generations {range}: {why}"));
    }
    for IgnoredFile { path, why } in &report.ignored {
        out.add_line(&format!("ignored: {}: {why}", path.display()));
    }
    for RecoveredDatabase { path, before, after } in &report.databases {
        let state = if report.dry_run { before.to_string() } else { format!("{before} -> {after}") };
        out.add_line(&format!("{}: {state}", path.display()));
    }
    if report.has_no_database() {
        out.push("NO DATABASE", Tone::Bad);
        out.add_line(": the logs were replayed, but no database was recovered");
    }
    out
}
