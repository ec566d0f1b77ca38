//! Reads and writes the two copies of a database header.

use std::path::Path;

use ese_format::PageSize;
use ese_format::header::{DatabaseHeader, HeaderCopies, HeaderError};
use jetcell_vfs::{File, IoBuffer, IoReason};

use crate::{Error, Result};

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
    let header_error = |e: std::io::Error| Error::ReadOnly(format!("{}: header: {e}", file.path().display()));
    file.write_at(copy * page.len() as u64, &page, IoReason::DatabaseHeader).map_err(header_error)?;
    file.sync(IoReason::DatabaseHeader).map_err(header_error)
}

/// Reads the header of a database file from a valid copy. Also returns which copies are valid.
pub(crate) fn read_header(file: &dyn File) -> Result<(DatabaseHeader, HeaderCopies)> {
    let path = file.path().to_path_buf();
    let len = file.len().map_err(|e| Error::io(&path, &e))?;
    let mut start = IoBuffer::zeroed(len.min(64 << 10) as usize / 4096 * 4096);
    file.read_at(0, &mut start, IoReason::DatabaseHeader).map_err(|e| Error::io(&path, &e))?;
    let usage = |what: &str| Error::Usage(format!("{}: {what}", path.display()));
    DatabaseHeader::read_from_start(&start).map_err(|e| match e {
        _ if len == 0 => usage(CREATION_INTERRUPTED),
        HeaderError::NotADatabase { .. }
        | HeaderError::Truncated { .. }
        | HeaderError::BadChecksum { .. }
            if lacks_header(&start) =>
        {
            usage(NO_HEADER)
        }
        HeaderError::NotADatabase { .. } | HeaderError::Truncated { .. } => usage("not an ESE database"),
        other => Error::Corrupt { path: path.clone(), page: None, what: other.to_string() },
    })
}

const NO_HEADER: &str = "the file does not have a database header: its creation was interrupted, or the \
 header was overwritten; delete the file if it was never used, or restore it from a backup";

/// Last part of the error message for a database whose creation was never completed.
pub(crate) const CREATION_INTERRUPTED: &str =
    "its creation was interrupted; delete the file and create it again";

/// Size in bytes of the smallest unit that a device writes atomically.
const SECTOR_BYTES: usize = 512;

/// Returns true if no header has ever been written completely: the shadow or the first sector consists of zeros. May
/// be called only if no copy is valid.
///
/// A crash during the creation of a database leaves such a file, but a database whose header has been overwritten
/// looks the same, so only its owner can decide to delete it. The shadow of a complete database never consists of
/// zeros.
fn lacks_header(start: &[u8]) -> bool {
    let is_zero = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
    match DatabaseHeader::stored_page_size(start) {
        Some(size) => start.get(size.bytes()..2 * size.bytes()).is_some_and(is_zero),
        None => start.get(..SECTOR_BYTES).is_some_and(is_zero),
    }
}

/// Newest format update whose log records can be redone.
const NEWEST_UPDATE: u32 = 0x12C;

/// Rejects formats that the engine cannot write or, with `to_recover`, that it cannot redo.
pub(crate) fn check_format(
    path: &Path,
    header: &DatabaseHeader,
    page_size: PageSize,
    to_recover: bool,
) -> Result<()> {
    let path = path.display();
    if to_recover && header.update > NEWEST_UPDATE {
        return Err(Error::Usage(format!(
            "{path}: database format update {:#x} is newer than {NEWEST_UPDATE:#x}, the newest that can be recovered",
            header.update
        )));
    }
    let written = header.update == ese_format::header::DATABASE_UPDATE && header.update_minor == 0;
    if !to_recover && !written {
        return Err(Error::Usage(format!(
            "{path}: database format update {:#x}.{:#x} cannot be written by this engine, which writes only \
             0x14",
            header.update, header.update_minor
        )));
    }
    if header.page_size != page_size {
        return Err(Error::Usage(format!(
            "{path}: the database has pages of {:?}, but the cache has {page_size:?}",
            header.page_size
        )));
    }
    Ok(())
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
        assert_eq!(refused(|header| header.update = NEWEST_UPDATE, true), "", "redo knows more than writing");
        assert!(
            refused(|header| header.update = NEWEST_UPDATE + 1, true)
                .contains("newest that can be recovered")
        );
        let pages = |header: &mut DatabaseHeader| header.page_size = PageSize::KIB_8;
        assert!(
            refused(pages, true).contains("the cache has") && refused(pages, false).contains("the cache has")
        );
    }
}
