//! Relation between the histories of two sides.

use std::path::{Path, PathBuf};

use jetcell_copies::{CopyError, HistoryRelation, LogHistory};
use jetcell_input::json_path;
use serde_json::json;

use crate::console;
use crate::outcome::{CommandOutcome, CommandResult};
use crate::shared::remote::CommandFileSystems;

/// Prints the relation between the histories in two directories, and the recommended action.
pub fn print_comparison(
    places: &CommandFileSystems,
    directory: &Path,
    other: &Path,
    as_json: bool,
) -> CommandResult {
    let vfs = places.vfs();
    let history = |directory: &Path, files: &[PathBuf]| {
        let inside = files.iter().filter(|path| path.parent() == Some(directory)).cloned();
        let inside: Vec<PathBuf> = inside.collect();
        LogHistory::from_directory(vfs, directory, &inside)
    };
    let compared = |files: &[PathBuf]| -> Result<(LogHistory, LogHistory, HistoryRelation), CopyError> {
        let (ours, theirs) = (history(directory, files)?, history(other, files)?);
        let relation = ours.compare(&theirs)?;
        Ok((ours, theirs, relation))
    };
    let is_in_doubt = |compared: &Result<(LogHistory, LogHistory, HistoryRelation), CopyError>| match compared
    {
        Ok((_, _, relation)) => relation.is_divergence() || *relation == HistoryRelation::NoCommonLog,
        Err(_) => true,
    };
    let paths = [directory.to_path_buf(), other.to_path_buf()];
    let mut files = places.files(&paths)?;
    let compared = places.with_stable_files(&paths, &mut files, compared, is_in_doubt);
    let (ours, theirs, relation) = compared?;
    let (here, there) = (directory.display(), other.display());
    let is_backup = vfs.exists(&other.join("manifest.json")).unwrap_or(false);
    let first = match relation {
        HistoryRelation::OtherContent(first) => Some(first),
        _ => None,
    };
    let commits = |ours: &LogHistory, theirs: &LogHistory| {
        first.and_then(|first| ours.changes_from(first, theirs).ok()).map(|changes| changes.commits)
    };
    let (only_here, only_there) = (commits(&ours, &theirs), commits(&theirs, &ours));
    let (name, text) = relation_text(relation, &here.to_string(), &there.to_string(), is_backup);
    let mut lines = vec![text];
    for (place, commits) in [(&here, only_here), (&there, only_there)] {
        if let Some(commits) = commits {
            lines.push(format!("  {commits} committed transactions exist only in {place}"));
        }
    }
    console::print_result(
        as_json,
        || {
            json!({
                "path": json_path(directory), "with": json_path(other), "relation": name,
                "first_different_generation": first.map(|first| first.0),
                "commits_only_here": only_here, "commits_only_there": only_there,
            })
        },
        || jetcell_input::printable_rows(&lines) + "\n",
    );
    Ok(CommandOutcome::good_if(!relation.is_divergence() && relation != HistoryRelation::NoCommonLog))
}

/// Describes a relation in one word, and in a sentence that contains the next command to run.
fn relation_text(
    relation: HistoryRelation,
    here: &str,
    there: &str,
    is_backup: bool,
) -> (&'static str, String) {
    let reseed = if is_backup {
        format!("restore the backup into a new directory to use it, or make a new backup of {here}")
    } else {
        format!(
            "decide which of {here} and {there} to keep, then run jetcell reseed --from KEPT --to OTHER \
             --incremental"
        )
    };
    match relation {
        HistoryRelation::Equal => ("equal", format!("{here}: the same logs as in {there}; nothing to do")),
        HistoryRelation::Behind(logs) => (
            "behind",
            format!(
                "{here}: {there} has {logs} more logs of the same history; run jetcell replicate --from \
                 {there} --to {here}"
            ),
        ),
        HistoryRelation::Ahead(logs) if is_backup => {
            ("ahead", format!("{here}: {logs} more logs than the backup, of the same history"))
        }
        HistoryRelation::Ahead(logs) => (
            "ahead",
            format!(
                "{here}: {logs} more logs than {there}, of the same history; run jetcell replicate --from \
                 {here} --to {there}, or jetcell activate {here} if it is a copy"
            ),
        ),
        HistoryRelation::OtherContent(first) => (
            "other_content",
            format!(
                "{here}: log generation {:X} (hexadecimal) differs from that in {there}; {reseed}",
                first.0
            ),
        ),
        HistoryRelation::ForeignPast(first) => (
            "foreign_past",
            format!(
                "{here}: log generation {:X} (hexadecimal) of {there} does not continue the last log here; \
                 {reseed}",
                first.0
            ),
        ),
        HistoryRelation::OtherStream => {
            ("other_stream", format!("{here}: the logs in {there} belong to another log stream (-530)"))
        }
        HistoryRelation::NoCommonLog => (
            "no_common_log",
            format!(
                "{here}: there is a gap between these logs and those in {there}; reseed the copy without \
                 --incremental"
            ),
        ),
    }
}
