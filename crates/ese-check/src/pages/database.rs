//! An open database file: its header, size, and state. All check modules access the file through this type.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ese_format::checksum::{PageIntegrity, header_checksum, u32_at};
use ese_format::foreign::FileContent;
use ese_format::header::{
    DATABASE_MAGIC, DatabaseHeader, DatabaseState, FILE_TYPE_DATABASE, HeaderCopies, HeaderError,
    NEWEST_DATABASE_UPDATE,
};
use ese_format::page::Page;
use ese_format::recognise::{EseFileKind, FILE_TYPE_AT};
use ese_format::{LogPosition, PageNumber, PageSize, Signature};
use jetcell_host::{Cancellation, Pacer};
use jetcell_vfs::{File, IoBuffer, IoReason, OpenMode, Vfs};

use crate::error::CheckError;
use crate::findings::Findings;
use crate::findings::finding::{Finding, FindingKind, Severity};
use crate::options::thread_count;
use crate::pages::flush_types::FlushTypes;
use crate::pages::page_status::PageStatus;
use crate::pages::spare_buffers::SpareBuffers;

/// Number of bytes that hold both header copies for any page size.
const HEADERS_LEN: usize = 2 * 32768;
/// Offset of the format update in the header.
const UPDATE_AT: u64 = 232;
/// File type of temporary databases, at byte 667 of the header.
const FILE_TYPE_TEMPORARY: u32 = 5;
/// Required alignment, in bytes, of the start and end of each transfer.
pub(crate) const ALIGNMENT: u64 = IoBuffer::ALIGNMENT as u64;

/// A database file that is open for reading and has a valid header.
pub struct ReadableDatabase {
    pub(crate) file: Arc<dyn File>,
    pub(crate) path: PathBuf,
    /// Valid copy of the header.
    pub header: DatabaseHeader,
    /// Size of a page in bytes.
    pub page_size: PageSize,
    /// Number of whole pages in the file, not including the two header copies.
    pub file_pages: u32,
    /// Whether the header marks the database as temporary.
    pub(crate) temporary: bool,
    /// Flush types of the pages, from the flush map next to the database. Present only if the map is usable.
    pub(crate) flush_types: Option<FlushTypes>,
    /// Length of the file in bytes. The last aligned range may extend beyond the end of the file.
    len: u64,
    pub(crate) pace: Pacer,
    /// Number of threads that check pages.
    pub(crate) threads: usize,
    pub(crate) spare_buffers: SpareBuffers,
}

impl ReadableDatabase {
    /// Opens the file for a reader other than a check. Also returns any findings about the header copies.
    pub fn open_with_findings(
        vfs: &dyn Vfs,
        path: &Path,
    ) -> Result<(ReadableDatabase, Vec<Finding>), CheckError> {
        let mut findings = Findings::new(path);
        let database = ReadableDatabase::open(
            vfs,
            path,
            Pacer::new(vfs.clock(), None, Cancellation::default()),
            &mut findings,
        )?;
        Ok((database, findings.finish().0))
    }

    /// Opens the file and checks its header copies.
    pub(crate) fn open(
        vfs: &dyn Vfs,
        path: &Path,
        pace: Pacer,
        findings: &mut Findings,
    ) -> Result<ReadableDatabase, CheckError> {
        let io = |error| CheckError::Io { path: path.to_owned(), error };
        let file = vfs.open(path, OpenMode::Read).map_err(io)?;
        let len = file.len().map_err(io)?;
        let mut start = IoBuffer::zeroed(usize::try_from(len).unwrap_or(usize::MAX).min(HEADERS_LEN));
        file.read_at(0, &mut start, IoReason::Verify).map_err(io)?;
        let temporary = convert_temporary_headers(&mut start);
        let (header, copies) =
            DatabaseHeader::read_from_start(&start).map_err(|error| header_error(path, &start, error))?;
        let page_size = header.page_size;
        findings.page_size = Some(page_size);
        let tail = len % page_size.bytes() as u64;
        if tail != 0 {
            let page = (len / page_size.bytes() as u64).saturating_sub(1);
            let what =
                format!("{tail} bytes follow the last complete page; they are the start of page {page}");
            findings.add_at_offset(Severity::Warning, FindingKind::TrailingBytes, len - tail, what);
        }
        let shadow_at = page_size.bytes() as u64;
        let found = match copies {
            HeaderCopies::Both => None,
            HeaderCopies::ShadowStale => Some((
                Severity::Warning,
                FindingKind::ShadowHeaderStale,
                shadow_at,
                "the shadow header differs from the header",
            )),
            HeaderCopies::FirstOnly => Some((
                Severity::Error,
                FindingKind::ShadowHeaderDamaged,
                shadow_at,
                "the shadow header is damaged",
            )),
            HeaderCopies::ShadowOnly => Some((
                Severity::Error,
                FindingKind::HeaderDamaged,
                0,
                "the header is damaged; the shadow header is good and was used",
            )),
        };
        if let Some((severity, kind, offset, what)) = found {
            findings.add_at_offset(severity, kind, offset, what.to_owned());
        }
        if header.update > NEWEST_DATABASE_UPDATE {
            let (update, newest) = (header.update, NEWEST_DATABASE_UPDATE);
            let what = format!("format update {update} is newer than {newest}, the newest known one");
            findings.add_at_offset(Severity::Info, FindingKind::FormatNewer, UPDATE_AT, what);
        }
        let pages = (len / page_size.bytes() as u64).saturating_sub(2);
        let file_pages = u32::try_from(pages).unwrap_or(u32::MAX).min(u32::MAX - 1);
        let mut database = ReadableDatabase {
            file,
            path: path.to_owned(),
            header,
            page_size,
            file_pages,
            temporary,
            flush_types: None,
            len,
            pace,
            threads: thread_count(None),
            spare_buffers: SpareBuffers::default(),
        };
        database.temporary |= database.is_unsealed();
        Ok(database)
    }

    /// Returns true if the database is temporary: its pages do not have checksums, and it is complete although its
    /// header has the state in which it was created.
    pub fn is_temporary(&self) -> bool {
        self.temporary
    }

    /// Returns true if the database was just created and its first page has content but not a valid checksum. The
    /// database is then temporary, although its header may have the same file type as other databases.
    fn is_unsealed(&self) -> bool {
        self.header.state == DatabaseState::JustCreated
            && self.file_pages > 0
            && matches!(
                self.check_single_page(PageNumber::fixed(1)),
                PageStatus::NoChecksum(_)
                    | PageStatus::Page(PageIntegrity::Bad | PageIntegrity::WrongPage { .. }, _)
            )
    }

    /// Returns true if the header says that the database was shut down cleanly.
    pub fn is_clean(&self) -> bool {
        self.header.state == DatabaseState::CleanShutdown
    }

    /// Returns true if the database was used without a log. The header of such a database says "clean" even while the
    /// database is in use, so a copy of the file may have been taken at any moment.
    fn is_unlogged(&self) -> bool {
        self.header.log_signature == Signature::default()
            && self.header.consistent_position == LogPosition::MIN
    }

    /// Returns true if the database should be consistent without recovery.
    pub(crate) fn must_be_consistent(&self) -> bool {
        self.is_clean() && !self.is_unlogged()
    }

    /// Reads and checks one page.
    pub(crate) fn check_single_page(&self, number: PageNumber) -> PageStatus {
        let (offset, len, start) = self.aligned_range(number, 1);
        let mut buffer = IoBuffer::zeroed(len);
        match self.file.read_at(offset, &mut buffer, IoReason::Verify) {
            Err(error) => PageStatus::Unreadable(error.to_string()),
            Ok(()) => match buffer.get_mut(start..start + self.page_size.bytes()) {
                Some(page) => self.check_page(page, number),
                None => PageStatus::Unreadable("short read".to_owned()),
            },
        }
    }

    /// Checks a page's checksum, number, and flush type. Corrects a single flipped bit in `page`.
    pub(crate) fn check_page(&self, page: &mut [u8], number: PageNumber) -> PageStatus {
        let status = PageStatus::verify(page, self.page_size, number);
        match (&status, &self.flush_types) {
            (PageStatus::Page(PageIntegrity::Good, _), Some(types)) => {
                let flags = Page::new(page, self.page_size).flags();
                types.lost_write(number, flags).map_or(status, PageStatus::LostWrite)
            }
            _ => status,
        }
    }

    /// Reads the flush map next to the database, if the two can be compared.
    pub(crate) fn read_flush_types(&mut self, vfs: &dyn Vfs, findings: &mut Findings) {
        self.flush_types =
            FlushTypes::read_for_database(vfs, &self.path, &self.header, self.file_pages, findings);
    }

    /// Returns true if the page is within the file.
    pub(crate) fn contains_page(&self, page: PageNumber) -> bool {
        page.get() <= self.file_pages
    }

    /// Returns the number of whole pages, starting at `page`, that lie in a hole of the file. They read as zeros.
    pub fn hole_at(&self, page: PageNumber) -> u32 {
        let offset = self.page_size.offset_of(page);
        let data = self.file.next_data(offset).unwrap_or(offset);
        u32::try_from(data.saturating_sub(offset) / self.page_size.bytes() as u64).unwrap_or(u32::MAX)
    }

    /// Returns the aligned file range that covers `count` pages starting at `first`, and the offset of the first page
    /// within that range.
    pub(crate) fn aligned_range(&self, first: PageNumber, count: u32) -> (u64, usize, usize) {
        let start = self.page_size.offset_of(first);
        let end = start + u64::from(count) * self.page_size.bytes() as u64;
        let aligned = start / ALIGNMENT * ALIGNMENT;
        // With 2 KiB pages, the file may end in the middle of an aligned range.
        let len = (end.div_ceil(ALIGNMENT) * ALIGNMENT).min(self.len.max(end)) - aligned;
        // The length is at most one chunk, which is a few hundred KiB.
        (aligned, len as usize, (start - aligned) as usize)
    }
}

/// Returns the error for a file whose header cannot be read. If the file has a different format, the error names it.
fn header_error(path: &Path, start: &[u8], error: HeaderError) -> CheckError {
    let path = path.to_owned();
    match FileContent::detect(start) {
        FileContent::Ese(EseFileKind::Database | EseFileKind::Unknown) => CheckError::Header { path, error },
        content => CheckError::OtherFormat { path, content },
    }
}

/// Converts intact headers of a temporary database to headers of an ordinary database, which differ only in the file
/// type. Returns whether any header was converted.
fn convert_temporary_headers(start: &mut [u8]) -> bool {
    let mut found = false;
    for at in [0, 2048, 4096, 8192, 16384, 32768] {
        let Some(copy) = start.get_mut(at..) else { break };
        let size = DatabaseHeader::stored_page_size(copy).map_or(0, PageSize::bytes);
        let Some(page) = copy.get_mut(..size) else { continue };
        let is_temporary = u32_at(page, 4) == Some(DATABASE_MAGIC)
            && u32_at(page, FILE_TYPE_AT) == Some(FILE_TYPE_TEMPORARY)
            && u32_at(page, 0) == Some(header_checksum(page));
        if !is_temporary {
            continue;
        }
        found = true;
        for (place, bytes) in [(FILE_TYPE_AT, FILE_TYPE_DATABASE), (0, 0)] {
            if let Some(place) = page.get_mut(place..place + 4) {
                place.copy_from_slice(&bytes.to_le_bytes());
            }
        }
        let sum = header_checksum(page);
        if let Some(place) = page.first_chunk_mut() {
            *place = sum.to_le_bytes();
        }
    }
    found
}
