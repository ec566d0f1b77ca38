//! Small text files that are either complete or absent, even after a power failure.

use std::path::Path;

use jetcell_input::{json_line, json_pretty};
use jetcell_vfs::{IoBuffer, IoReason, OpenMode, Vfs, remove_durably, replace_file};
use serde::Serialize;

use crate::error::{BackupError, Result};
use crate::file_damage::FileDamage;

/// Maximum file size in bytes, enough for the manifest of a 16 TiB database, which is the maximum size of an ESE
/// database.
pub(crate) const MAX_BYTES: u64 = 128 << 20;

/// Replaces a file atomically and makes it durable.
pub fn write(vfs: &dyn Vfs, path: &Path, text: &str) -> Result<()> {
    replace_file(vfs, path, text.as_bytes(), IoReason::Backup).map_err(|error| BackupError::io(path, &error))
}

/// Writes a value as JSON on multiple lines, like [`write()`].
pub fn write_json(vfs: &dyn Vfs, path: &Path, value: &impl Serialize) -> Result<()> {
    write_serialized(vfs, path, json_pretty(value))
}

/// Writes a value as JSON on one line, like [`write()`].
pub fn write_json_line(vfs: &dyn Vfs, path: &Path, value: &impl Serialize) -> Result<()> {
    write_serialized(vfs, path, json_line(value))
}

fn write_serialized(vfs: &dyn Vfs, path: &Path, json: serde_json::Result<String>) -> Result<()> {
    write(vfs, path, &json.map_err(|error| BackupError::io(path, &error.into()))?)
}

/// Returns the file's content, or `None` if the file does not exist.
pub fn read(vfs: &dyn Vfs, path: &Path) -> Result<Option<String>> {
    read_opened(vfs, path, OpenMode::Read, MAX_BYTES)
}

/// Returns the content of a file that is at most `max` bytes long, or `None` if the file does not exist.
pub fn read_at_most(vfs: &dyn Vfs, path: &Path, max: u64) -> Result<Option<String>> {
    read_opened(vfs, path, OpenMode::Read, max)
}

/// Reads a file whose content determines which files are overwritten or removed. Unlike [`read`], fails if the file
/// is a link or belongs to another user.
pub fn read_trusted(vfs: &dyn Vfs, path: &Path) -> Result<Option<String>> {
    read_opened(vfs, path, OpenMode::WriteOwn, MAX_BYTES)
}

fn read_opened(vfs: &dyn Vfs, path: &Path, mode: OpenMode, max: u64) -> Result<Option<String>> {
    let io_error = |error: std::io::Error| BackupError::io(path, &error);
    let file = match vfs.open(path, mode) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(io_error)?,
    };
    let len = file.len().map_err(io_error)?;
    if len > max {
        return Err(BackupError::changed(path, FileDamage::TooLong { bytes: len, max }));
    }
    let mut bytes = IoBuffer::zeroed(len as usize);
    file.read_at(0, &mut bytes, IoReason::Backup).map_err(io_error)?;
    String::from_utf8(bytes.to_vec()).map(Some).map_err(|_| BackupError::changed(path, FileDamage::NotText))
}

/// Removes a file if it exists, and makes the removal durable.
pub fn remove(vfs: &dyn Vfs, path: &Path) -> Result<()> {
    remove_durably(vfs, path).map(drop).map_err(|error| BackupError::io(path, &error))
}

#[cfg(test)]
#[path = "text_file_tests.rs"]
mod tests;
