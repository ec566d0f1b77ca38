//! Reads and writes the two copies of a database header.

use std::path::Path;

use ese_format::PageSize;
use ese_format::foreign::FileContent;
use ese_format::header::{DatabaseHeader, HeaderCopies, HeaderError, NEWEST_DATABASE_UPDATE};
use jetcell_vfs::{File, IoBuffer, IoReason};

use crate::file_error::FileError;
use crate::{Error, FailedOperation, InstanceFailure, Result};

/// Writes both header copies with a sync after each, so that at least one copy is intact after a crash.
pub(crate) fn write_header(file: &dyn File, header: &DatabaseHeader) -> Result<()> {
    (0..2).try_for_each(|copy| write_header_copy(file, header, copy))
}

/// Repairs a damaged shadow copy before anything else is written. Otherwise, a crash during the next write of the
/// first copy would leave no valid copy.
pub(crate) fn repair_shadow(file: &dyn File, header: &DatabaseHeader, copies: HeaderCopies) -> Result<()> {
    match copies {
        HeaderCopies::FirstOnly => write_header_copy(file, header, 1),
        HeaderCopies::Both | HeaderCopies::ShadowStale | HeaderCopies::ShadowOnly => Ok(()),
    }
}

fn write_header_copy(file: &dyn File, header: &DatabaseHeader, copy: u64) -> Result<()> {
    let mut page = IoBuffer::zeroed(header.page_size.bytes());
    page.copy_from_slice(&header.encode());
    let header_error = |e: std::io::Error| {
        Error::ReadOnly(InstanceFailure::io(file.path(), &e).during(FailedOperation::WriteHeader))
    };
    file.write_at(copy * page.len() as u64, &page, IoReason::DatabaseHeader).map_err(header_error)?;
    file.sync(IoReason::DatabaseHeader).map_err(header_error)
}

/// Reads the header of a database file from a valid copy. Also returns which copies are valid.
pub(crate) fn read_header(file: &dyn File) -> Result<(DatabaseHeader, HeaderCopies)> {
    let path = file.path().to_path_buf();
    let len = file.len().map_err(|e| Error::io(&path, &e))?;
    let mut start = IoBuffer::zeroed(len.min(64 << 10) as usize / 4096 * 4096);
    file.read_at(0, &mut start, IoReason::DatabaseHeader).map_err(|e| Error::io(&path, &e))?;
    let file_error = |error| Error::File { path: path.clone(), error };
    DatabaseHeader::read_from_start(&start).map_err(|e| match e {
        _ if len == 0 => file_error(FileError::CreationInterrupted),
        HeaderError::NotADatabase { .. }
        | HeaderError::Truncated { .. }
        | HeaderError::BadChecksum { .. }
            if lacks_header(&start) =>
        {
            file_error(FileError::NoHeader)
        }
        HeaderError::NotADatabase { .. } | HeaderError::Truncated { .. } => {
            file_error(FileError::NotADatabase(FileContent::detect(&start)))
        }
        other => Error::corrupt(&path, other),
    })
}

/// Size in bytes of the smallest unit that a device writes atomically.
const SECTOR_BYTES: usize = 512;

/// Returns true if no header has ever been written completely: the shadow or the first sector consists of zeros. May
/// be called only if no copy is valid.
///
/// A crash during the creation of a database leaves such a file. A database whose header has been overwritten looks the
/// same, so only its owner can decide to delete it. The shadow of a complete database never consists of zeros.
fn lacks_header(start: &[u8]) -> bool {
    let is_zero = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
    match DatabaseHeader::stored_page_size(start) {
        Some(size) => start.get(size.bytes()..2 * size.bytes()).is_some_and(is_zero),
        None => start.get(..SECTOR_BYTES).is_some_and(is_zero),
    }
}

/// Rejects formats that the engine cannot write or, with `to_recover`, that it cannot redo.
pub(crate) fn check_format(
    path: &Path,
    header: &DatabaseHeader,
    page_size: PageSize,
    to_recover: bool,
) -> Result<()> {
    let written = header.update == ese_format::header::DATABASE_UPDATE && header.update_minor == 0;
    let error = if to_recover && header.update > NEWEST_DATABASE_UPDATE {
        FileError::TooNew(header.update)
    } else if !to_recover && !written {
        FileError::OtherUpdate(header.update, header.update_minor)
    } else if header.page_size != page_size {
        FileError::PageSize { database: header.page_size, cache: page_size }
    } else {
        return Ok(());
    };
    Err(Error::File { path: path.to_path_buf(), error })
}

#[cfg(test)]
mod tests {
    use ese_format::{LogTime, Signature};

    use super::*;

    #[test]
    fn formats_that_cannot_be_written_or_redone_are_refused() {
        let signature = Signature::new(1, LogTime::NONE);
        let written = DatabaseHeader::for_new_database(PageSize::KIB_4, signature, signature);
        let refused = |change: fn(&mut DatabaseHeader), to_recover| {
            let mut header = written.clone();
            change(&mut header);
            let checked = check_format(Path::new("a.edb"), &header, PageSize::KIB_4, to_recover);
            checked.err().map(|error| error.to_string()).unwrap_or_default()
        };
        assert_eq!(refused(|_| (), false), "");
        assert_eq!(refused(|_| (), true), "");
        assert!(refused(|header| header.update += 1, false).contains("cannot be written"));
        assert!(refused(|header| header.update_minor = 1, false).contains("cannot be written"));
        assert_eq!(
            refused(|header| header.update = NEWEST_DATABASE_UPDATE, true),
            "",
            "redo knows more than writing"
        );
        assert!(
            refused(|header| header.update = NEWEST_DATABASE_UPDATE + 1, true)
                .contains("newest that can be recovered")
        );
        let pages = |header: &mut DatabaseHeader| header.page_size = PageSize::KIB_8;
        assert!(
            refused(pages, true).contains("the cache has") && refused(pages, false).contains("the cache has")
        );
    }
}
