//! Backups of the log streams of several instances, one after the other.

use std::path::Path;
use std::time::Instant;

use jetcell_backup::StreamBackup;
use jetcell_host::Cancellation;

use crate::outcome::{CommandError, CommandResult};

/// Results of the backups of all log streams. Each stream is either in `made` or in `failures`.
pub struct StreamResults<'a, T> {
    /// The backups, each with its directory and its duration in seconds.
    pub made: Vec<(&'a Path, T, f64)>,
    /// The streams without a backup, each with the directory of the backup and the reason.
    pub failures: Vec<(&'a Path, CommandError)>,
}

/// Backs up each log stream with `back_up`. A failure does not prevent the backups of the other streams. Cancellation
/// does: each stream without a backup is then a failure.
pub fn back_up_each<'a, T>(
    streams: &'a [StreamBackup],
    cancel: &Cancellation,
    mut back_up: impl FnMut(&StreamBackup) -> CommandResult<T>,
) -> StreamResults<'a, T> {
    let mut results = StreamResults { made: Vec::new(), failures: Vec::new() };
    for (index, stream) in streams.iter().enumerate() {
        let directory = stream.directory.as_path();
        // The first backup reports the cancellation itself.
        if index > 0 && cancel.is_cancelled() {
            let stopped = CommandError::new("stopped before this backup began")
                .context(directory.display())
                .advise("the same command makes it");
            results.failures.push((directory, stopped));
            continue;
        }
        let began = Instant::now();
        match back_up(stream) {
            Ok(made) => results.made.push((directory, made, began.elapsed().as_secs_f64())),
            Err(error) => results.failures.push((directory, error)),
        }
    }
    results
}

#[cfg(test)]
#[path = "each_stream_tests.rs"]
mod tests;
