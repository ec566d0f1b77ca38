//! `jetcell backup --age`: reports the age of the last good backup, and the last proof.

use std::path::{Path, PathBuf};
use std::time::Duration;

use jetcell_backup::{BackupList, CompleteBackup};
use jetcell_input::time::format_in_two_units;
use jetcell_input::{json_path, json_paths};
use jetcell_workload::units::TimeSpan;
use serde_json::json;

use crate::console;
use crate::outcome::{CommandOutcome, CommandResult};
use crate::shared::files::vfs;

/// Prints the age of the last good backup. The outcome is a finding if there is no good backup, or if it is older
/// than `most`.
pub fn print_backup_age(directory: &Path, most: Option<TimeSpan>, json: bool) -> CommandResult {
    let vfs = vfs()?;
    let backups = BackupList::find(&vfs, directory)?;
    // Several backups if the last good backup is a set.
    let newest = backups.newest(|backup| backups.is_good(backup));
    // A backup contains everything that was committed before it began.
    let last = newest.iter().min_by_key(|found| found.manifest.began_unix_ms).copied();
    let now = vfs.clock().unix_ms();
    let since = |unix_ms: i64| Duration::from_millis(now.saturating_sub(unix_ms).max(0) as u64);
    let age = |found: &CompleteBackup| since(found.manifest.began_unix_ms);
    let in_time = last.is_some_and(|last| most.is_none_or(|most| age(last) <= most.0));
    let proved = backups.last_proved();
    let paths: Vec<PathBuf> = newest.iter().map(|found| found.directory.clone()).collect();
    let text = if json {
        format!(
            "{}\n",
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
                "last_proved": proved.map(|(backup, proof)| json!({
                    "path": json_path(&backup.directory), "proved_unix_ms": proof.proved_unix_ms,
                    "age_seconds": since(proof.proved_unix_ms).as_secs(),
                })),
                "unusable": backups.unusable.iter().map(|(path, why)| json!({ "path": json_path(path), "why": why })).collect::<Vec<_>>(),
            })
        )
    } else {
        let mut lines = unusable_lines(&backups);
        lines.push(match last {
            None => format!("no good backup in {}", directory.display()),
            Some(last) => {
                let limit = match most {
                    Some(most) if in_time => {
                        format!(", at most {} is allowed", format_in_two_units(most.0))
                    }
                    Some(most) => {
                        format!(", TOO OLD: at most {} is allowed", format_in_two_units(most.0))
                    }
                    None => String::new(),
                };
                let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
                format!(
                    "last good backup: {} ({}), {} old{limit}",
                    names.join(", "),
                    last.manifest.kind.to_engine_kind(),
                    format_in_two_units(age(last))
                )
            }
        });
        lines.push(match proved {
            None => "last proved: never".to_string(),
            Some((backup, proof)) => format!(
                "last proved: {}, {} ago",
                backup.directory.display(),
                format_in_two_units(since(proof.proved_unix_ms))
            ),
        });
        jetcell_input::printable_rows(&lines) + "\n"
    };
    console::print_json_or_lines(json, &text);
    Ok(if in_time { CommandOutcome::Good } else { CommandOutcome::Findings })
}

/// Returns a line for each unusable backup.
pub fn unusable_lines(backups: &BackupList) -> Vec<String> {
    let line = |(path, why): &(PathBuf, String)| format!("not usable: {}: {why}", path.display());
    backups.unusable.iter().map(line).collect()
}
