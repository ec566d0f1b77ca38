//! Recognizes files by their content where the name alone is not sufficient.

use std::io;
use std::path::Path;

use ese_engine::CopyRegistration;
use ese_format::header::DatabaseHeader;
use ese_format::recognise::START_LEN;
use jetcell_vfs::{IoBuffer, IoReason, OpenMode, Vfs};

/// Reads at most `max` bytes from the start of a file.
fn read_start(vfs: &dyn Vfs, path: &Path, max: usize) -> io::Result<IoBuffer> {
    let file = vfs.open(path, OpenMode::Read)?;
    let len = file.len()?.min(max as u64) as usize / IoBuffer::ALIGNMENT * IoBuffer::ALIGNMENT;
    let mut start = IoBuffer::zeroed(len);
    file.read_at(0, &mut start, IoReason::DatabaseHeader)?;
    Ok(start)
}

/// Returns true if a file starts with a database header or the header's copy.
pub fn is_database(vfs: &dyn Vfs, path: &Path) -> io::Result<bool> {
    Ok(DatabaseHeader::read_from_start(&read_start(vfs, path, START_LEN)?).is_ok())
}

/// Returns true if a file contains a registration for the copy `id`, in the format that copies write.
pub fn is_registration(vfs: &dyn Vfs, path: &Path, id: &str) -> io::Result<bool> {
    let registration = CopyRegistration::parse(id, &read_start(vfs, path, CopyRegistration::BYTES)?);
    // Only the side that keeps the logs sets this field, so a registration from a copy does not contain it.
    Ok(registration.is_some_and(|registration| registration.unreadable_since.is_none()))
}
