//! A copy whose replay rests, so that its files do not change while they are backed up.
//!
//! The pause is a lock, so it ends with its process. A process that follows the copy looks before each batch of logs: it stops
//! its replayer, goes on to copy logs, and removes none.

use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use jetcell_sync::Arc;
use jetcell_vfs::{DirectoryLock, Vfs};

use crate::copy_state::{CopyState, Phase};
use crate::error::{CopyError, Result};

/// The file that is locked during a pause.
pub(crate) const PAUSE_FILE: &str = "copy.pause";
/// How long a batch of logs, and the end of a replayer, may take.
const PATIENCE: Duration = Duration::from_secs(300);
/// A process that follows the copy holds the lock for a moment when it looks.
const PROBED: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(20);

/// The replay of a copy rests until this is dropped.
pub struct Pause {
    _lock: Box<dyn DirectoryLock>,
}

/// Lets the replay of a copy rest, and waits until no process has its databases open.
///
/// Errors: the directory is no copy, or one without whole databases; its replay rests already; it does not come to a rest.
pub fn pause(vfs: &Arc<dyn Vfs>, directory: &Path) -> Result<Pause> {
    let shown = directory.display();
    let Some(state) = CopyState::read(&**vfs, directory)? else {
        return Err(CopyError::Refused(format!("{shown}: this is no copy")));
    };
    if state.phase != Phase::Following {
        let what = "its databases may not be whole; see jetcell copies";
        return Err(CopyError::Refused(format!("{shown}: the copy does not follow its active side: {what}")));
    }
    let held = wait_for(vfs, &directory.join(PAUSE_FILE), PROBED)?;
    let Some(lock) = held else {
        return Err(CopyError::Refused(format!("{shown}: another backup of the copy is running")));
    };
    let base_lock = directory.join(format!("{}.lock", state.base_name));
    let databases = state.databases.iter().map(|database| directory.join(&database.file));
    for path in databases.chain([base_lock]) {
        let there = vfs.exists(&path).map_err(|error| CopyError::io(&path, &error))?;
        if there && wait_for(vfs, &path, PATIENCE)?.is_none() {
            let what = "the process that uses the copy does not pause; stop it, and repeat";
            return Err(CopyError::Refused(format!("{}: {what}", path.display())));
        }
    }
    Ok(Pause { _lock: lock })
}

/// The lock of a file, if it can be had in this time.
fn wait_for(vfs: &Arc<dyn Vfs>, path: &Path, patience: Duration) -> Result<Option<Box<dyn DirectoryLock>>> {
    let clock = vfs.clock();
    let began = clock.monotonic();
    loop {
        match vfs.lock(path) {
            Ok(lock) => return Ok(Some(lock)),
            Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(CopyError::io(path, &error)),
            Err(_) if clock.monotonic() - began >= patience => return Ok(None),
            Err(_) => clock.sleep(LOOK),
        }
    }
}

/// Whether the replay of a copy is to rest.
pub(crate) fn is_paused(vfs: &Arc<dyn Vfs>, directory: &Path) -> bool {
    let path = directory.join(PAUSE_FILE);
    let is_held = || vfs.lock(&path).is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
    vfs.exists(&path).unwrap_or(false) && is_held()
}
