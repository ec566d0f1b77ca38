//! Atomic replacement and durable removal of whole files on a [`Vfs`].

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use jetcell_sync::atomic::{AtomicU64, Ordering};

use crate::path_names::{UNFINISHED, with_ending};
use crate::{IoBuffer, IoReason, OpenMode, Vfs, parent_directory};

/// Returns a unique path for an incomplete file: no other call returns it, in this or any other process, on this or
/// any other host.
pub fn unique_unfinished(path: &Path) -> PathBuf {
    // The hasher's keys are random in each process.
    static PROCESS: LazyLock<u64> = LazyLock::new(|| RandomState::new().build_hasher().finish());
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let call = CALLS.fetch_add(1, Ordering::Relaxed);
    with_ending(path, &format!("{:x}-{call:x}.{UNFINISHED}", *PROCESS))
}

/// Creates a file or replaces its content, durably: writes a new file, syncs it, renames it, and syncs the directory.
///
/// After a crash, and to concurrent readers, the file has either the complete old or the complete new content. A link
/// at `path` is replaced, not followed. Concurrent calls do not interfere with each other: the last call determines
/// the content.
///
/// # Errors
/// Returns an error if an operation fails. The file then has its old content, or the new content if only the
/// directory sync failed.
pub fn replace_file(vfs: &dyn Vfs, path: &Path, content: &[u8], reason: IoReason) -> io::Result<()> {
    replace_file_through(vfs, path, &vfs.unfinished_path(path), content, reason)
}

/// Like [`replace_file`], but uses a given path for the new file. No other process may use that path. An existing
/// file at that path is removed.
///
/// # Errors
/// Returns the errors of [`replace_file`].
pub fn replace_file_through(
    vfs: &dyn Vfs,
    path: &Path,
    unfinished: &Path,
    content: &[u8],
    reason: IoReason,
) -> io::Result<()> {
    replace_file_unsynced(vfs, path, unfinished, content, reason)?;
    vfs.sync_directory(parent_directory(path))
}

/// Like [`replace_file_through`], but does not sync the directory. A power failure may restore the old file, but never
/// leaves an incomplete one.
///
/// # Errors
/// Returns the errors of [`replace_file`].
pub fn replace_file_unsynced(
    vfs: &dyn Vfs,
    path: &Path,
    unfinished: &Path,
    content: &[u8],
    reason: IoReason,
) -> io::Result<()> {
    remove_if_exists(vfs, unfinished)?;
    let file = vfs.open(unfinished, OpenMode::CreateNew)?;
    let write_and_rename = || {
        let mut bytes = IoBuffer::zeroed(content.len());
        bytes.copy_from_slice(content);
        file.write_at(0, &bytes, reason)?;
        file.sync(reason)?;
        vfs.rename(unfinished, path)
    };
    write_and_rename().inspect_err(|_| {
        // If the removal fails too, only the first error is reported.
        let _ = vfs.remove(unfinished);
    })
}

/// Removes temporary files for a path that are left over from interrupted calls of [`replace_file`]. The caller holds
/// the lock that protects the replacement, so no call is running. Links and files owned by other users are not
/// removed.
pub fn remove_unfinished(vfs: &dyn Vfs, path: &Path) {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    for left in vfs.list(parent_directory(path)).unwrap_or_default() {
        let is_left =
            left.file_name().and_then(|left| left.to_str()).is_some_and(|left| is_leftover(left, &name));
        // A leftover file that cannot be opened or removed does no harm, because listings skip it.
        if is_left && vfs.open(&left, OpenMode::WriteOwn).is_ok() {
            let _ = vfs.remove(&left);
        }
    }
}

/// Returns true if `left` is the name of a temporary file for a file named `name`: `name.unfinished` or
/// `name.PROCESS-CALL.unfinished`.
fn is_leftover(left: &str, name: &str) -> bool {
    let middle = left.strip_prefix(name).and_then(|rest| rest.strip_suffix(UNFINISHED));
    let is_number =
        |text: &str| matches!(text.len(), 1..=16) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    match middle {
        Some(".") => true,
        Some(middle) => middle
            .strip_prefix('.')
            .and_then(|middle| middle.strip_suffix('.'))
            .and_then(|middle| middle.split_once('-'))
            .is_some_and(|(process, call)| is_number(process) && is_number(call)),
        None => false,
    }
}

/// Removes a file or a link. Returns true if it existed. Durable after `sync_directory`.
///
/// # Errors
/// Returns an error if the file exists and cannot be removed.
pub fn remove_if_exists(vfs: &dyn Vfs, path: &Path) -> io::Result<bool> {
    match vfs.remove(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        removed => removed.map(|()| true),
    }
}

/// Removes a file or a link durably. Returns true if it existed.
///
/// # Errors
/// Returns an error if the file exists and cannot be removed, or if its directory cannot be synced.
pub fn remove_durably(vfs: &dyn Vfs, path: &Path) -> io::Result<bool> {
    let existed = remove_if_exists(vfs, path)?;
    if existed {
        vfs.sync_directory(parent_directory(path))?;
    }
    Ok(existed)
}

#[cfg(test)]
#[path = "replaced_file_tests.rs"]
mod tests;
