//! Pauses the replay of a copy. During the pause, the copy's files do not change and can be backed up.
//!
//! The pause is a file lock, so it ends when the process that holds it exits. A process that follows the copy checks
//! the lock before each batch of logs. While the lock is held, that process stops its replayer, continues to copy
//! logs, and does not remove any logs.

use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use jetcell_sync::Arc;
use jetcell_vfs::{DirectoryLock, Vfs};

use crate::copy_state::{CopyPhase, CopyState};
use crate::error::{CopyError, Refusal, Result};

/// Name of the file that is locked during a pause.
pub(crate) const PAUSE_FILE: &str = "copy.pause";
/// Maximum time to wait for the end of a batch of logs and for the replayer to stop.
const REPLAY_STOP_TIMEOUT: Duration = Duration::from_secs(300);
/// Maximum time to wait for the pause lock. A process that follows the copy holds the lock briefly while it checks
/// for a pause.
const PAUSE_LOCK_TIMEOUT: Duration = Duration::from_secs(2);
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A guard that pauses a copy's replay until it is dropped.
pub struct ReplayPause {
    _lock: Box<dyn DirectoryLock>,
}

/// Pauses the replay of a copy, and waits until no process has its databases open.
///
/// # Errors
///
/// Returns an error if the directory is not a copy or has no complete databases, or if its replay is already paused
/// or does not stop in time.
pub fn pause_replay(vfs: &Arc<dyn Vfs>, directory: &Path) -> Result<ReplayPause> {
    let Some(state) = CopyState::read(&**vfs, directory)? else {
        return Err(Refusal::NotACopy.at(directory));
    };
    if state.phase != CopyPhase::Following {
        return Err(Refusal::NotFollowing.at(directory));
    }
    let held = wait_for_lock(vfs, &directory.join(PAUSE_FILE), PAUSE_LOCK_TIMEOUT)?;
    let Some(lock) = held else {
        return Err(Refusal::BackupRunning.at(directory));
    };
    let base_lock = directory.join(format!("{}.lock", state.base_name));
    let databases = state.databases.iter().map(|database| directory.join(&database.file));
    for path in databases.chain([base_lock]) {
        let there = vfs.exists(&path).map_err(|error| CopyError::io(&path, &error))?;
        if there && wait_for_lock(vfs, &path, REPLAY_STOP_TIMEOUT)?.is_none() {
            return Err(Refusal::DidNotPause.at(&path));
        }
    }
    Ok(ReplayPause { _lock: lock })
}

/// Acquires a file lock, or returns `None` if it does not become available within `timeout`.
fn wait_for_lock(
    vfs: &Arc<dyn Vfs>,
    path: &Path,
    timeout: Duration,
) -> Result<Option<Box<dyn DirectoryLock>>> {
    let clock = vfs.clock();
    let began = clock.monotonic();
    loop {
        match vfs.lock(path) {
            Ok(lock) => return Ok(Some(lock)),
            Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(CopyError::io(path, &error)),
            Err(_) if clock.monotonic() - began >= timeout => return Ok(None),
            Err(_) => clock.sleep(LOCK_POLL_INTERVAL),
        }
    }
}

/// Returns true if the replay of a copy must pause.
pub(crate) fn is_paused(vfs: &Arc<dyn Vfs>, directory: &Path) -> bool {
    let path = directory.join(PAUSE_FILE);
    let is_held = || vfs.lock(&path).is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
    vfs.exists(&path).unwrap_or(false) && is_held()
}
