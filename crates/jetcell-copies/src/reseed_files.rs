//! File access for a reseed: reads pages from one side and writes headers on the other.

use ese_format::checksum::{PageIntegrity, verify_page};
use ese_format::header::DatabaseHeader;
use ese_format::{PageNumber, PageSize};
use jetcell_vfs::{File, IoBuffer, IoReason, Vfs};

use crate::error::{CopyError, Refusal, Result};

/// Maximum number of times a page that is being written is read.
const MAX_READ_ATTEMPTS: u32 = 50;

/// Reads a page from a database that may be in use. A page that is being written temporarily fails verification, so
/// it is read again. A page past the end of the file is returned as zeros.
pub fn read_page(file: &dyn File, size: PageSize, page: PageNumber, vfs: &dyn Vfs) -> Result<IoBuffer> {
    let mut bytes = IoBuffer::zeroed(size.bytes());
    for _ in 0..MAX_READ_ATTEMPTS {
        match file.read_at(size.offset_of(page), &mut bytes, IoReason::Backup) {
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                return Ok(IoBuffer::zeroed(size.bytes()));
            }
            read => read.map_err(|error| CopyError::io(file.path(), &error))?,
        }
        match verify_page(&mut bytes, size, page) {
            PageIntegrity::Good | PageIntegrity::Zero => return Ok(bytes),
            _ => vfs.clock().sleep(std::time::Duration::from_millis(10)),
        }
    }
    Err(Refusal::BadPage(page).at(file.path()))
}

/// Writes both header copies, one after the other.
pub fn write_header(file: &dyn File, header: &DatabaseHeader) -> Result<()> {
    let mut page = IoBuffer::zeroed(header.page_size.bytes());
    page.copy_from_slice(&header.encode());
    for copy in 0..2 {
        let write = || {
            file.write_at(copy * page.len() as u64, &page, IoReason::DatabaseHeader)?;
            file.sync(IoReason::DatabaseHeader)
        };
        write().map_err(|error| CopyError::io(file.path(), &error))?;
    }
    Ok(())
}
