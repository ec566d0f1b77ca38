//! `jetcell restore`: restores databases from backups.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use ese_format::{LogPosition, LogTime};
use jetcell_backup::{
    BackupList, DamagedLog, RESTORE_MARKER, ReplayEnd, RestoreOptions, RestoreReach, RestoreResult,
    RestoreWindow, restore, restore_window,
};
use jetcell_input::number::human_bytes;
use jetcell_input::quantity::ByteRate;
use jetcell_input::{json_path, json_paths};
use serde_json::json;

use crate::console;
use crate::outcome::{CommandError, CommandOutcome, CommandResult};
use crate::shared::files::{refuse_inside, vfs};
use crate::shared::json::json_with_evidence;
use crate::shared::replay_end::until;
use crate::shared::transfer_progress::TransferProgress;

const EXAMPLES: &str = "Specify a full backup (or a copy) and the backups that continue it, in any order. Their logs are replayed, then the surviving
logs, and unfinished transactions are rolled back. Nothing is used before its checksum is verified. If the restore is already
complete and its databases were not used afterwards, the command reports that. Databases elsewhere are not changed,
even if the logs refer to them; links in the directory are refused.

Examples:
  jetcell restore /backup/sunday --to restored
  jetcell restore /backup/sunday /backup/monday --to restored
  jetcell restore /backup/sunday --logs /var/lib/app --to restored
      up to the last commit in the logs
  jetcell restore /backup/sunday /backup/monday --until 2026-11-23T08:00:00Z --to restored
  jetcell restore /backup/sunday /backup/monday --list
      the positions and times that --until can specify
  jetcell restore /backup/sunday --to /var/lib/app --force
      over the old files; copies only differences
  jetcell check --structure restored

Exit code: 0 restored, 1 restored except for databases with bad pages in the backup, or the logs end before --until, or a log in
--logs has a damaged header (--list: a log is missing or damaged), 2 not restored.";

/// Restore databases from a full backup and the later backups that build on it
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct RestoreArgs {
    /// Directories of the backups, or a directory whose only backup is in a subdirectory
    #[arg(required = true, value_name = "BACKUP")]
    backups: Vec<PathBuf>,
    /// Directory for databases and logs: empty or new, unless --force is specified
    #[arg(long, value_name = "DIR", required_unless_present = "list")]
    to: Option<PathBuf>,
    /// Only show the positions and times that --until can specify
    #[arg(long, conflicts_with_all = ["to", "until", "force", "rate"])]
    list: bool,
    /// Directory with surviving logs, which are replayed after those in the backups
    #[arg(long, value_name = "DIR")]
    logs: Option<PathBuf>,
    /// Stop after a generation, before a log position, or at a time
    #[arg(long, value_name = "GENERATION|POSITION|TIME", value_parser = until)]
    until: Option<ReplayEnd>,
    /// Restore over existing files in the directory; existing logs are replaced
    #[arg(long)]
    force: bool,
    /// Limit the rate of disk transfers
    #[arg(long, value_name = "BYTES/S")]
    rate: Option<ByteRate>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl RestoreArgs {
    /// Runs the command.
    pub fn run(self) -> CommandResult {
        let vfs = vfs()?;
        let only_one = |backup: &PathBuf| BackupList::find_single(&*vfs, backup);
        let backups = self.backups.iter().map(only_one).collect::<Result<Vec<_>, _>>()?;
        let Some(to) = &self.to else {
            let reach = restore_window(&vfs, &backups, self.logs.as_deref())?;
            console::print_result(self.json, || reach_json(&reach), || reach_text(&reach));
            let is_good =
                reach.window.is_some() && reach.problems.is_empty() && reach.damaged_logs.is_empty();
            return Ok(CommandOutcome::good_if(is_good));
        };
        for backup in &backups {
            refuse_inside(backup, to)?;
        }
        let existed = to.exists();
        let (progress, pace) = TransferProgress::start("Restore", self.rate)?;
        let options = RestoreOptions {
            until: self.until,
            logs: self.logs.clone(),
            force: self.force,
            threads: true,
            pace,
        };
        let began = Instant::now();
        let restored = restore(&vfs, &backups, to, &options);
        drop(progress);
        let restored = restored.map_err(|error| {
            if !existed {
                // The directory is removed only if it is empty.
                let _ = std::fs::remove_dir(to);
            }
            let error = CommandError::from(error);
            if to.join(RESTORE_MARKER).exists() {
                error.add_advice(&format!("{} is incomplete: repeat the restore", to.display()))
            } else {
                error
            }
        })?;
        console::print_serialized(
            self.json,
            || json_with_evidence(as_json(to, &restored), backups.iter().chain([to])),
            || as_text(to, &restored, began.elapsed().as_secs_f64()),
        )?;
        let is_good =
            restored.skipped_databases.is_empty() && !restored.ends_early && restored.damaged_logs.is_empty();
        Ok(CommandOutcome::good_if(is_good))
    }
}

fn as_json(to: &Path, restored: &RestoreResult) -> serde_json::Value {
    let left_out: Vec<_> = restored
        .skipped_databases
        .iter()
        .map(|(file, why)| json!({ "file": json_path(file), "why": why }))
        .collect();
    json!({
        "directory": json_path(to),
        "generations": restored.generations.map(|(first, last)| json!({ "first": first.0, "last": last.0 })),
        "position": restored.position.to_string(), "records": restored.records, "changes": restored.changes,
        "undone": restored.rolled_back, "databases": json_paths(&restored.databases), "left_out": left_out,
        "copied_bytes": restored.copied_bytes, "kept_bytes": restored.retained_bytes,
        "already_unix_ms": restored.earlier_restore_unix_ms, "ends_early": restored.ends_early,
        "window": restored.window.as_ref().map(window_json),
        "damaged_logs": damaged_logs_json(&restored.damaged_logs),
    })
}

fn as_text(to: &Path, restored: &RestoreResult, seconds: f64) -> String {
    if let Some(since) = restored.earlier_restore_unix_ms {
        let mut lines = vec![format!(
            "{} was already restored from these backups at {}; no database was used since then, and \
             nothing was changed; to restore again, specify a different directory, or use --force",
            to.display(),
            LogTime::from_unix_ms(since)
        )];
        lines.extend(restored.databases.iter().map(|path| format!("  {}: clean", path.display())));
        lines.extend(
            restored.skipped_databases.iter().map(|(file, why)| format!("  {file}: NOT RESTORED: {why}")),
        );
        lines.extend(missed_end(restored));
        return jetcell_input::printable_rows(&lines) + "\n";
    }
    let mut lines = vec![format!(
        "restored into {} in {seconds:.1} s: {} copied, {} were already correct",
        to.display(),
        human_bytes(restored.copied_bytes),
        human_bytes(restored.retained_bytes)
    )];
    if let Some((first, last)) = restored.generations {
        let records: u64 = restored.records.values().sum();
        lines.push(format!(
            "  replayed log generations {:X} to {:X} (hexadecimal), up to {}: {records} records, {} changes made",
            first.0, last.0, restored.position, restored.changes
        ));
    }
    lines.push(format!("  transactions rolled back: {}", restored.rolled_back));
    lines.extend(restored.databases.iter().map(|path| format!("  {}: clean", path.display())));
    lines.extend(
        restored.skipped_databases.iter().map(|(file, why)| format!("  {file}: NOT RESTORED: {why}")),
    );
    lines.extend(missed_end(restored));
    lines.extend(restored.damaged_logs.iter().map(|log| format!("  DAMAGED LOG: {log}")));
    jetcell_input::printable_rows(&lines) + "\n"
}

fn damaged_logs_json(logs: &[DamagedLog]) -> Vec<serde_json::Value> {
    let item = |log: &DamagedLog| {
        let why = log.error.to_string();
        json!({
            "path": json_path(&log.path), "why": why, "in_backup": log.is_in_backup, "partial": log.is_partial,
        })
    };
    logs.iter().map(item).collect()
}

/// Returns the line that reports logs that end before the requested end.
fn missed_end(restored: &RestoreResult) -> Option<String> {
    let window = restored.window.filter(|_| restored.ends_early)?;
    let last = position_text(window.latest, window.latest_time);
    Some(format!("  NOT REACHED: the logs end at {last}, before the end that --until specifies"))
}

fn position_text(position: LogPosition, time: Option<LogTime>) -> String {
    time.map_or(position.to_string(), |time| format!("{position} ({time})"))
}

fn window_json(window: &RestoreWindow) -> serde_json::Value {
    let time = |time: Option<LogTime>| time.and_then(LogTime::unix_ms);
    json!({
        "earliest": window.earliest.to_string(), "earliest_unix_ms": time(window.earliest_time),
        "latest": window.latest.to_string(), "latest_unix_ms": time(window.latest_time),
    })
}

fn problem_texts(reach: &RestoreReach) -> impl Iterator<Item = String> {
    reach.problems.iter().map(|error| CommandError::from(error.clone()).full_text())
}

fn reach_json(reach: &RestoreReach) -> serde_json::Value {
    let mut value = match &reach.window {
        Some(window) => window_json(window),
        None => json!({
            "earliest": null, "earliest_unix_ms": null, "latest": null, "latest_unix_ms": null,
        }),
    };
    value["problems"] = problem_texts(reach).collect();
    value["damaged_logs"] = damaged_logs_json(&reach.damaged_logs).into();
    value
}

fn reach_text(reach: &RestoreReach) -> String {
    let mut lines = match &reach.window {
        Some(window) => vec![
            format!("earliest position: {}", position_text(window.earliest, window.earliest_time)),
            format!("latest position: {}", position_text(window.latest, window.latest_time)),
        ],
        None => vec!["no position can be reached".to_string()],
    };
    lines.extend(problem_texts(reach).map(|problem| format!("PROBLEM: {problem}")));
    lines.extend(reach.damaged_logs.iter().map(|log| format!("DAMAGED LOG: {log}")));
    jetcell_input::printable_rows(&lines) + "\n"
}
