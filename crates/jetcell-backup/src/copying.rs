//! Copies the databases of a backup, several of them concurrently.

use std::collections::VecDeque;
use std::path::Path;

use ese_engine::DatabasePageReader;
use jetcell_sync::Mutex;

use crate::backup_directory::BackupDirectory;
use crate::database_copy::DatabaseCopy;
use crate::error::{BackupError, Result};
use crate::options::BackupOptions;
use crate::set_error::BackupSetError;
use crate::transfer_control::TransferMeter;

/// Maximum number of databases that are copied concurrently. Each database already has eight reads in flight, so more
/// threads would only use more memory.
const MAX_THREADS: usize = 16;

/// A database that is being copied to a backup. The caller identifies the original by `S`.
pub struct PendingCopy<S> {
    pub source: S,
    pub copy: DatabaseCopy,
    pub reader: DatabasePageReader,
}

/// A database whose pages have been copied to a backup.
pub struct CompletedCopy<S> {
    pub source: S,
    pub copy: DatabaseCopy,
}

/// Copies the pages of all databases. `path` returns the path of an original.
///
/// # Errors
///
/// If any copy fails, returns the first error after all threads have stopped. Also fails if every database has bad
/// pages (-1018).
pub fn copy_pages<S: Send>(
    databases: Vec<PendingCopy<S>>,
    path: impl Fn(&S) -> &Path + Sync,
    destination: &BackupDirectory,
    options: &BackupOptions,
    gauge: &TransferMeter,
) -> Result<Vec<CompletedCopy<S>>> {
    let copy = |PendingCopy { source, mut copy, reader }: PendingCopy<S>| {
        let result = copy.copy(reader, path(&source), destination, options, gauge);
        if result.is_err() {
            gauge.fail();
        }
        result.map(|()| CompletedCopy { source, copy })
    };
    let results = in_threads(databases, options.threads, copy);
    // Skip copies that stopped only because another copy failed: their errors do not show the cause.
    let mut copied = Vec::new();
    let mut failure = None;
    for result in results {
        match (result, &failure) {
            (Ok(database), _) => copied.push(database),
            (Err(error), None | Some(BackupError::Stopped)) => failure = Some(error),
            (Err(_), Some(_)) => {}
        }
    }
    if let Some(error) = failure {
        return Err(error);
    }
    if !copied.is_empty() && !copied.iter().any(|database| database.copy.is_usable()) {
        let bad = copied.iter().map(|database| database.copy.bad_database(path(&database.source)));
        return Err(BackupSetError::BadPages(bad.collect()).into());
    }
    Ok(copied)
}

/// Calls `work` for each item, in several threads if `threads` is true. Returns the results in item order.
fn in_threads<T: Send, R: Send>(items: Vec<T>, threads: bool, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    if !threads || items.len() < 2 {
        return items.into_iter().map(work).collect();
    }
    let count = items.len().min(MAX_THREADS);
    let queue: Mutex<VecDeque<(usize, T)>> = Mutex::new(items.into_iter().enumerate().collect());
    let take = || queue.lock().pop_front();
    let run = || {
        let mut ended = Vec::new();
        while let Some((index, item)) = take() {
            ended.push((index, work(item)));
        }
        ended
    };
    let mut ended: Vec<(usize, R)> = jetcell_sync::thread::scope(|scope| {
        let threads: Vec<_> = (0..count).map(|_| scope.spawn(run)).collect();
        let join = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        join.flatten().collect()
    });
    ended.sort_by_key(|(index, _)| *index);
    ended.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jetcell_sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn items_are_processed_in_parallel_with_results_in_order() {
        let (running, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let work = |item: usize| {
            most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(20));
            running.fetch_sub(1, Ordering::SeqCst);
            item * 2
        };
        let items: Vec<usize> = (0..40).collect();
        let expected: Vec<usize> = items.iter().map(|item| item * 2).collect();
        assert_eq!(in_threads(items.clone(), true, work), expected);
        let at_once = most.swap(0, Ordering::SeqCst);
        assert!((2..=MAX_THREADS).contains(&at_once), "{at_once}");
        assert_eq!(in_threads(items, false, |item| item * 2), expected);
    }
}
