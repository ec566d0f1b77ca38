//! `jetcell backup --age`: reports the age of the last good backup.

use std::path::Path;
use std::time::Duration;

use jetcell_workload::units::TimeSpan;
use serde_json::json;

use crate::commands::backup::backup_list::{CompleteBackup, find_backups};
use crate::commands::backup::vfs;
use crate::console;
use crate::outcome::{CommandError, CommandOutcome};

/// Prints the age of the last good backup. The outcome is a finding if there is no good backup, or if it is older
/// than `most`.
pub fn print_backup_age(
    directory: &Path,
    most: Option<TimeSpan>,
    json: bool,
) -> Result<CommandOutcome, CommandError> {
    let vfs = vfs()?;
    let backups = find_backups(&vfs, directory)?;
    let good = |found: &&CompleteBackup| backups.is_complete(found);
    // A backup contains everything that was committed before it began.
    let last = backups.complete.iter().filter(good).max_by_key(|found| found.manifest.began_unix_ms);
    let now = vfs.clock().unix_ms();
    let age = |found: &CompleteBackup| {
        Duration::from_millis(now.saturating_sub(found.manifest.began_unix_ms).max(0) as u64)
    };
    let in_time = last.is_some_and(|last| most.is_none_or(|most| age(last) <= most.0));
    let text = if json {
        format!(
            "{}\n",
            json!({
                "path": last.map(|last| &last.directory),
                "id": last.map(|last| &last.manifest.id),
                "kind": last.map(|last| last.manifest.kind),
                "began_unix_ms": last.map(|last| last.manifest.began_unix_ms),
                "ended_unix_ms": last.map(|last| last.manifest.ended_unix_ms),
                "age_seconds": last.map(|last| age(last).as_secs()),
                "max_age_seconds": most.map(|most| most.0.as_secs()),
                "in_time": in_time,
                "unusable": backups.unusable.iter().map(|(path, why)| json!({ "path": path, "why": why })).collect::<Vec<_>>(),
            })
        )
    } else {
        let mut lines: Vec<String> = backups
            .unusable
            .iter()
            .map(|(path, why)| format!("not usable: {}: {why}", path.display()))
            .collect();
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
                format!(
                    "last good backup: {} ({}), {} old{limit}",
                    last.directory.display(),
                    last.manifest.kind.to_engine_kind(),
                    format_in_two_units(age(last))
                )
            }
        });
        jetcell_input::printable_rows(&lines) + "\n"
    };
    console::print_json_or_lines(json, &text);
    Ok(if in_time { CommandOutcome::Good } else { CommandOutcome::Findings })
}

/// Formats a duration in its two largest units.
fn format_in_two_units(time: Duration) -> String {
    let seconds = time.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, minutes) => format!("{minutes} min {} s", seconds % 60),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (days, hours, _) => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_shows_the_two_largest_units() {
        let cases = [(5, "5 s"), (65, "1 min 5 s"), (3720, "1 h 2 min"), (90_000, "1 d 1 h")];
        for (seconds, text) in cases {
            assert_eq!(format_in_two_units(Duration::from_secs(seconds)), text);
        }
    }
}
