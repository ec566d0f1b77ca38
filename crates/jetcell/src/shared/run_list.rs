//! List of the runs below a directory.

use std::fs;
use std::path::{Path, PathBuf};

use jetcell_report::{RunReadError, StoredRun, run_lines};
use jetcell_workload::Verdict;

use crate::console;
use crate::outcome::{CommandError, CommandOutcome};

/// Maximum search depth. Runs are stored in database directories, so a deeper search is not needed.
const MAX_DEPTH: usize = 3;

/// A list of runs with their combined outcome.
pub struct RunList {
    /// A table with one line for each run, the oldest first.
    pub text: String,
    /// Good if every run passed.
    pub outcome: CommandOutcome,
}

/// Lists the runs below a directory. Returns `None` if there are no runs.
pub fn list_runs(directory: &Path) -> Option<RunList> {
    let mut found = Vec::new();
    find_runs(directory, MAX_DEPTH, &mut found);
    let (mut runs, mut outcome) = (Vec::new(), CommandOutcome::Good);
    for path in found {
        let name = path.strip_prefix(directory).unwrap_or(&path).display().to_string();
        match StoredRun::read(&path) {
            Ok(run) => runs.push((name, run.result)),
            // The result of a disk test may be stored among the runs.
            Err(RunReadError::OtherCommand { .. }) => {}
            Err(error) => outcome = CommandError::from(error).print(),
        }
    }
    if outcome == CommandOutcome::Good && runs.iter().any(|(_, run)| run.verdict != Verdict::Pass) {
        outcome = CommandOutcome::Findings;
    }
    runs.sort_by(|(one, a), (other, b)| a.started.cmp(&b.started).then(one.cmp(other)));
    (!runs.is_empty()).then(|| RunList { text: run_lines(&runs, console::width()), outcome })
}

fn find_runs(directory: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    let mut entries: Vec<_> = entries.filter_map(Result::ok).collect();
    entries.sort_by_key(fs::DirEntry::path);
    for entry in entries {
        // Links are not followed, because they may form a loop.
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            let path = entry.path();
            if path.join("result.json").is_file() {
                found.push(path);
            } else if depth > 1 {
                find_runs(&path, depth - 1, found);
            }
        }
    }
}
