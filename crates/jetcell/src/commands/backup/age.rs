//! `jetcell backup --age`: reports the age of the last good backup.

use std::path::Path;
use std::time::Duration;

use jetcell_backup::{BackupError, BackupList, CompleteBackup};
use jetcell_input::time::format_in_two_units;
use jetcell_input::{json_path, printable_rows};
use jetcell_workload::units::TimeSpan;
use serde_json::json;

use crate::console;
use crate::outcome::{CommandError, CommandOutcome, CommandResult};
use crate::shared::files::vfs;

/// Prints the age of the last good backup. The outcome is a finding if there is no good backup, or if it is older
/// than `most`.
pub fn print_backup_age(directory: &Path, most: Option<TimeSpan>, json: bool) -> CommandResult {
    let vfs = vfs()?;
    let backups = BackupList::find(&*vfs, directory)?;
    let why = |error: &Option<BackupError>| match error {
        Some(error) => CommandError::from(error.clone()).full_text(),
        None => "interrupted and incomplete".to_string(),
    };
    let last = backups.last_good();
    let now = vfs.clock().unix_ms();
    let age = |found: &CompleteBackup| {
        Duration::from_millis(now.saturating_sub(found.manifest.began_unix_ms).max(0) as u64)
    };
    let in_time = last.is_some_and(|last| most.is_none_or(|most| age(last) <= most.0));
    let as_json = || {
        let unusable = backups.unusable.iter();
        json!({
            "path": last.map(|last| json_path(&last.directory)),
            "id": last.map(|last| &last.manifest.id),
            "kind": last.map(|last| last.manifest.kind),
            "began_unix_ms": last.map(|last| last.manifest.began_unix_ms),
            "ended_unix_ms": last.map(|last| last.manifest.ended_unix_ms),
            "age_seconds": last.map(|last| age(last).as_secs()),
            "max_age_seconds": most.map(|most| most.0.as_secs()),
            "in_time": in_time,
            "unusable": unusable.map(|(path, error)| json!({ "path": json_path(path), "why": why(error) })).collect::<Vec<_>>(),
        })
    };
    let as_text = || {
        let unusable = backups.unusable.iter();
        let mut lines: Vec<String> =
            unusable.map(|(path, error)| format!("not usable: {}: {}", path.display(), why(error))).collect();
        lines.push(match last {
            None => format!("no good backup in {}", directory.display()),
            Some(last) => {
                let limit = most.map(|most| {
                    let late = if in_time { "" } else { "TOO OLD: " };
                    format!(", {late}at most {} is allowed", format_in_two_units(most.0))
                });
                format!(
                    "last good backup: {} ({}), {} old{}",
                    last.directory.display(),
                    last.manifest.kind.to_engine_kind(),
                    format_in_two_units(age(last)),
                    limit.unwrap_or_default()
                )
            }
        });
        printable_rows(&lines)
    };
    console::print_result(json, as_json, as_text);
    Ok(CommandOutcome::good_if(in_time))
}
