//! Small text files, which are complete or absent even after a power failure.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use jetcell_vfs::{IoBuffer, IoReason, OpenMode, Vfs};

use crate::error::{BackupError, Result};

/// Ending of the name of a file that is being written.
const UNFINISHED: &str = "unfinished";
/// Maximum length of a file that [`read`] reads: the manifest of a few terabytes.
const MAX_BYTES: u64 = 256 << 20;

/// Writes a file aside, syncs it, renames it, and syncs the directory.
pub fn write(vfs: &dyn Vfs, path: &Path, text: &str) -> Result<()> {
    let aside = aside(path);
    let put = || {
        if vfs.exists(&aside)? {
            vfs.remove(&aside)?;
        }
        let file = vfs.open(&aside, OpenMode::CreateNew)?;
        let mut bytes = IoBuffer::zeroed(text.len());
        bytes.copy_from_slice(text.as_bytes());
        file.write_at(0, &bytes, IoReason::Backup)?;
        file.sync(IoReason::Backup)?;
        vfs.rename(&aside, path)?;
        vfs.sync_directory(path.parent().unwrap_or(Path::new(".")))
    };
    put().map_err(|error| {
        let _ = vfs.remove(&aside);
        BackupError::io(path, &error)
    })
}

/// Whether a file is one that a crash kept from getting its name.
pub fn is_unfinished(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == UNFINISHED)
}

/// The content of a file; `None` if it does not exist.
pub fn read(vfs: &dyn Vfs, path: &Path) -> Result<Option<String>> {
    read_at_most(vfs, path, MAX_BYTES)
}

/// The content of a file of at most `max` bytes; `None` if it does not exist.
pub fn read_at_most(vfs: &dyn Vfs, path: &Path, max: u64) -> Result<Option<String>> {
    let failed = |error: std::io::Error| BackupError::io(path, &error);
    let file = match vfs.open(path, OpenMode::Read) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(failed)?,
    };
    let len = file.len().map_err(failed)?;
    if len > max {
        return Err(BackupError::Changed {
            path: path.to_path_buf(),
            what: format!("it has {len} bytes, more than the {max} bytes that such a file may have"),
        });
    }
    let mut bytes = IoBuffer::zeroed(len as usize);
    file.read_at(0, &mut bytes, IoReason::Backup).map_err(failed)?;
    String::from_utf8(bytes.to_vec())
        .map(Some)
        .map_err(|_| BackupError::Changed { path: path.to_path_buf(), what: "it is not a text".to_string() })
}

/// Removes a file, durably, if it exists.
pub fn remove(vfs: &dyn Vfs, path: &Path) -> Result<()> {
    let removed = match vfs.remove(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        removed => removed.and_then(|()| vfs.sync_directory(path.parent().unwrap_or(Path::new(".")))),
    };
    removed.map_err(|error| BackupError::io(path, &error))
}

fn aside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default();
    path.with_file_name([name, OsStr::new(UNFINISHED)].join(OsStr::new(".")))
}
