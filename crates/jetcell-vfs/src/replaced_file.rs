//! Atomic replacement of whole files.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use jetcell_sync::atomic::{AtomicU64, Ordering};

use crate::path_names::{UNFINISHED, with_ending};
use crate::{IoBuffer, IoReason, OpenMode, OutputFile, Vfs, parent_directory};

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
/// An operation failed. The file has its old content, or the new content if only the directory sync failed.
pub fn replace_file(vfs: &dyn Vfs, path: &Path, content: &[u8], reason: IoReason) -> io::Result<()> {
    replace_file_through(vfs, path, &vfs.unfinished_path(path), content, reason)
}

/// Like [`replace_file`], but uses a given path for the new file. No other process may use that path. An existing
/// file at that path is removed.
///
/// # Errors
/// Errors of [`replace_file`].
pub fn replace_file_through(
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
    })?;
    vfs.sync_directory(parent_directory(path))
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

/// A temporary file that replaces another file when it is complete. Dropping it without finishing removes it.
///
/// Used for command output that is not written through a [`Vfs`]; otherwise like [`replace_file`].
#[derive(Debug)]
pub struct UnfinishedFile {
    file: OutputFile,
    unfinished: PathBuf,
    path: PathBuf,
    finished: bool,
}

impl UnfinishedFile {
    /// Creates the file under a temporary name in the directory of `path`.
    ///
    /// # Errors
    /// The file cannot be created; `path` has no file name.
    pub fn create(path: &Path) -> io::Result<UnfinishedFile> {
        path.file_name().ok_or(io::ErrorKind::IsADirectory)?;
        let unfinished = unique_unfinished(path);
        let file = OutputFile::create(&unfinished)?;
        Ok(UnfinishedFile { file, unfinished, path: path.to_path_buf(), finished: false })
    }

    /// Renames the file to its final name, durably.
    pub fn finish(mut self) -> io::Result<()> {
        self.file.sync()?;
        self.rename()?;
        OutputFile::sync_directory(parent_directory(&self.path))
    }

    /// Renames the file to its final name. The file may be lost in a power failure.
    pub fn finish_unsynced(mut self) -> io::Result<()> {
        self.rename()
    }

    fn rename(&mut self) -> io::Result<()> {
        std::fs::rename(&self.unfinished, &self.path)?;
        self.finished = true;
        Ok(())
    }
}

impl Write for UnfinishedFile {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.file.write(data)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for UnfinishedFile {
    fn drop(&mut self) {
        if !self.finished {
            let _ = std::fs::remove_file(&self.unfinished);
        }
    }
}

/// Removes a file or a link. Returns true if it existed. Durable after `sync_directory`.
///
/// # Errors
/// The file exists and cannot be removed.
pub fn remove_if_exists(vfs: &dyn Vfs, path: &Path) -> io::Result<bool> {
    match vfs.remove(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        removed => removed.map(|()| true),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;
    use crate::{RealOptions, RealVfs, SimVfs, is_unfinished};

    #[test]
    fn replacing_a_file_leaves_no_temporary_file() {
        let disk = SimVfs::new();
        disk.create_directory(Path::new("/d")).unwrap();
        let path = Path::new("/d/state.json");
        // A temporary file left over from a crash.
        disk.put(Path::new("/d/state.json.unfinished"), b"old");
        for content in ["longer content", "short", ""] {
            replace_file(&disk, path, content.as_bytes(), IoReason::Other).unwrap();
            assert_eq!(disk.contents(path).unwrap(), content.as_bytes());
            assert_eq!(disk.list(Path::new("/d")).unwrap(), [path]);
        }
        disk.fail_at(disk.operations() + 2, io::ErrorKind::StorageFull);
        replace_file(&disk, path, b"new", IoReason::Other).unwrap_err();
        assert_eq!(disk.contents(path).unwrap(), b"");
        assert_eq!(disk.list(Path::new("/d")).unwrap(), [path]);
    }

    #[test]
    fn leftovers_from_a_killed_process_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let vfs = RealVfs::new(RealOptions::default()).unwrap();
        let path_to = |name: &str| dir.path().join(name);
        let path = path_to("copy.json");
        let left = vfs.unfinished_path(&path);
        for name in ["copy.json", "copy.json.unfinished", "copy.json.1f-0.unfinished"] {
            std::fs::write(path_to(name), name).unwrap();
        }
        std::fs::write(&left, "left").unwrap();
        let mut others = vec![
            "copy.json",
            "copy.json.bak",
            "copy.json.bak.unfinished",
            "copy.json.1f-zz.unfinished",
            "copy.json-1f-0.unfinished",
            "scan.json.1f-0.unfinished",
            "copy.json.2-3.unfinished.old",
            "victim",
        ];
        others.iter().for_each(|name| std::fs::write(path_to(name), name).unwrap());
        symlink(path_to("victim"), path_to("copy.json.2-2.unfinished")).unwrap();
        std::fs::hard_link(path_to("victim"), path_to("copy.json.3-3.unfinished")).unwrap();
        others.extend(["copy.json.2-2.unfinished", "copy.json.3-3.unfinished"]);
        remove_unfinished(&vfs, &path);
        let mut names: Vec<String> = std::fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        others.sort();
        assert_eq!(names, others);
        assert_eq!(std::fs::read_to_string(path_to("victim")).unwrap(), "victim");
    }

    #[test]
    fn a_link_is_replaced_and_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (path, victim) = (dir.path().join("state"), dir.path().join("victim"));
        std::fs::write(&victim, "victim").unwrap();
        symlink(&victim, &path).unwrap();
        let vfs = RealVfs::new(RealOptions::default()).unwrap();
        replace_file(&vfs, &path, b"new", IoReason::Other).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(std::fs::read(&victim).unwrap(), b"victim");
        assert_eq!(std::fs::symlink_metadata(&path).unwrap().mode() & 0o7777, 0o600);
        // A dangling link is not followed either, not even at the path of the temporary file.
        let unfinished = dir.path().join("state.copy-new");
        symlink(dir.path().join("created"), &unfinished).unwrap();
        replace_file_through(&vfs, &path, &unfinished, b"newer", IoReason::Other).unwrap();
        assert!(!dir.path().join("created").exists() && !unfinished.exists());
        assert_eq!(std::fs::read(&path).unwrap(), b"newer");
    }

    #[test]
    fn concurrent_replacements_do_not_interfere() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state");
        let vfs = RealVfs::new(RealOptions::default()).unwrap();
        std::thread::scope(|scope| {
            for number in 0..4_u8 {
                let (vfs, path) = (&vfs, &path);
                scope.spawn(move || {
                    for _ in 0..25 {
                        replace_file(vfs, path, &[number; 3000], IoReason::Other).unwrap();
                        let found = std::fs::read(path).unwrap();
                        assert!(found.len() == 3000 && found.iter().all(|byte| *byte == found[0]));
                    }
                });
            }
        });
        assert_eq!(vfs.list(dir.path()).unwrap(), [path]);
    }

    #[test]
    fn an_output_file_is_named_on_completion_or_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("result.json");
        let names = || std::fs::read_dir(dir.path()).unwrap().count();
        for (content, synced) in [("a longer text", true), ("short", false)] {
            let mut file = UnfinishedFile::create(&path).unwrap();
            file.write_all(content.as_bytes()).unwrap();
            if synced { file.finish() } else { file.finish_unsynced() }.unwrap();
            assert_eq!((std::fs::read_to_string(&path).unwrap().as_str(), names()), (content, 1));
        }
        let dropped = UnfinishedFile::create(&path).unwrap();
        assert_eq!(names(), 2);
        drop(dropped);
        assert_eq!(names(), 1);
        assert!(UnfinishedFile::create(Path::new("/")).is_err());
    }

    #[test]
    fn unfinished_files_are_recognised_by_name() {
        for unfinished in ["copy.json.unfinished", "x.edb.partial", "E00.log.restoring", "E00-a1.copy-new"] {
            assert!(is_unfinished(Path::new(unfinished)), "{unfinished}");
        }
        for other in ["data.edb", "E00.log", "unfinished", "partial", "a.partial.json", "x"] {
            assert!(!is_unfinished(Path::new(other)), "{other}");
        }
        let vfs = RealVfs::new(RealOptions::default()).unwrap();
        let (one, other) = (vfs.unfinished_path(Path::new("/d/x")), vfs.unfinished_path(Path::new("/d/x")));
        assert!(one != other && is_unfinished(&one) && one.parent() == Some(Path::new("/d")));
    }
}
