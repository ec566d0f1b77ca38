//! `jetcell backup --age`: reports the age of the last good backup, and the last proof.

use std::path::{Path, PathBuf};
use std::time::Duration;

use jetcell_backup::{BackupFault, BackupList, CompleteBackup};
use jetcell_input::time::format_in_two_units;
use jetcell_input::{json_path, json_paths, printable_rows};
use jetcell_workload::units::TimeSpan;
use serde_json::{Value, json};

use crate::console;
use crate::outcome::{CommandError, CommandOutcome, CommandResult};
use crate::shared::files::vfs;

/// Prints the age of the last good backup. The outcome is a finding if there is no good backup, if it is older
/// than `most`, or if a backup cannot be read.
pub fn print_backup_age(directory: &Path, most: Option<TimeSpan>, json: bool) -> CommandResult {
    let vfs = vfs()?;
    let backups = BackupList::find(&*vfs, directory)?;
    // There are several backups if the last good backup is a set.
    let newest = backups.last_good();
    // A backup contains everything that was committed before it began.
    let last = newest.iter().min_by_key(|found| found.manifest.began_unix_ms).copied();
    let now = vfs.clock().unix_ms();
    let since = |unix_ms: i64| Duration::from_millis(now.saturating_sub(unix_ms).max(0) as u64);
    let age = |found: &CompleteBackup| since(found.manifest.began_unix_ms);
    let in_time = last.is_some_and(|last| most.is_none_or(|most| age(last) <= most.0));
    let proved = backups.last_proved();
    let paths: Vec<PathBuf> = newest.iter().map(|found| found.directory.clone()).collect();
    let as_json = || {
        json!({
            "path": last.map(|last| json_path(&last.directory)),
            "paths": json_paths(&paths),
            "id": last.map(|last| &last.manifest.id),
            "kind": last.map(|last| last.manifest.kind),
            "began_unix_ms": last.map(|last| last.manifest.began_unix_ms),
            "ended_unix_ms": last.map(|last| last.manifest.ended_unix_ms),
            "age_seconds": last.map(|last| age(last).as_secs()),
            "max_age_seconds": most.map(|most| most.0.as_secs()),
            "in_time": in_time,
            "last_proved": proved.map(|(directory, proof)| json!({
                "path": json_path(directory), "proved_unix_ms": proof.proved_unix_ms,
                "age_seconds": since(proof.proved_unix_ms).as_secs(),
            })),
            "unusable": unusable_json(&backups),
        })
    };
    let as_text = || {
        let mut lines = unusable_lines(&backups);
        lines.push(match last {
            None => format!("no good backup in {}", directory.display()),
            Some(last) => {
                let limit = most.map(|most| {
                    let late = if in_time { "" } else { "TOO OLD: " };
                    format!(", {late}at most {} is allowed", format_in_two_units(most.0))
                });
                let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
                format!(
                    "last good backup: {} ({}), {} old{}",
                    names.join(", "),
                    last.manifest.kind.to_engine_kind(),
                    format_in_two_units(age(last)),
                    limit.unwrap_or_default()
                )
            }
        });
        lines.push(match proved {
            None => "last proved: never".to_string(),
            Some((directory, proof)) => format!(
                "last proved: {}, {} ago",
                directory.display(),
                format_in_two_units(since(proof.proved_unix_ms))
            ),
        });
        printable_rows(lines)
    };
    console::print_result(json, as_json, as_text);
    // A backup that cannot be read could be newer than the last good one.
    Ok(CommandOutcome::good_if(in_time && !backups.is_incomplete()))
}

/// Returns the unusable backups as JSON.
pub fn unusable_json(backups: &BackupList) -> Vec<Value> {
    let item =
        |(path, why): &(PathBuf, BackupFault)| json!({ "path": json_path(path), "why": reason_text(why) });
    backups.unusable.iter().map(item).collect()
}

/// Returns a line for each unusable backup.
pub fn unusable_lines(backups: &BackupList) -> Vec<String> {
    let line = |(path, why): &(PathBuf, BackupFault)| {
        format!("not usable: {}: {}", path.display(), reason_text(why))
    };
    backups.unusable.iter().map(line).collect()
}

fn reason_text(why: &BackupFault) -> String {
    match why {
        BackupFault::Unreadable(error) => CommandError::from(error.clone()).full_text(),
        why => why.to_string(),
    }
}
