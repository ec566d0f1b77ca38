//! What files are by their content, where their names do not tell.

use std::io;
use std::path::Path;

use ese_engine::CopyRegistration;
use ese_format::header::DatabaseHeader;
use ese_format::recognise::START_LEN;
use jetcell_vfs::{IoBuffer, IoReason, OpenMode, Vfs};

/// The start of a file, at most `max` bytes of it.
fn start_of(vfs: &dyn Vfs, path: &Path, max: usize) -> io::Result<IoBuffer> {
    let file = vfs.open(path, OpenMode::Read)?;
    let len = file.len()?.min(max as u64) as usize / IoBuffer::ALIGNMENT * IoBuffer::ALIGNMENT;
    let mut start = IoBuffer::zeroed(len);
    file.read_at(0, &mut start, IoReason::DatabaseHeader)?;
    Ok(start)
}

/// Whether a file begins with the header of a database, or with the copy of one.
pub fn is_database(vfs: &dyn Vfs, path: &Path) -> io::Result<bool> {
    Ok(DatabaseHeader::read_from_start(&start_of(vfs, path, START_LEN)?).is_ok())
}

/// Whether a file has the registration of a copy, as a copy stores it.
pub fn is_registration(vfs: &dyn Vfs, path: &Path, id: &str) -> io::Result<bool> {
    let registration = CopyRegistration::parse(id, &start_of(vfs, path, CopyRegistration::BYTES)?);
    // Only the side that keeps the logs finds that one cannot be read.
    Ok(registration.is_some_and(|registration| registration.unreadable_since.is_none()))
}
