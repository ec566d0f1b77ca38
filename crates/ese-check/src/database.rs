//! An open database file: its header, its size, its state. Every module of a check looks at it through this.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ese_format::header::{DatabaseHeader, DatabaseState, HeaderCopies};
use ese_format::{LogPosition, PageNumber, PageSize, Signature};
use vfs::{File, IoBuffer, IoReason, OpenMode, Vfs};

use crate::CheckError;
use crate::finding::{Findings, Severity};

/// Bytes in which both header copies of any page size fit.
const HEADERS_LEN: usize = 2 * 32768;
/// Transfers start and end at multiples of this.
pub(crate) const ALIGNMENT: u64 = IoBuffer::ALIGNMENT as u64;

/// A database file, opened for reading, whose header is good.
pub(crate) struct Database {
    pub(crate) file: Arc<dyn File>,
    pub(crate) path: PathBuf,
    pub(crate) header: DatabaseHeader,
    pub(crate) page_size: PageSize,
    /// Whole pages in the file behind the two header copies.
    pub(crate) file_pages: u32,
}

impl Database {
    /// Opens the file and judges its header copies.
    pub(crate) fn open(vfs: &dyn Vfs, path: &Path, findings: &mut Findings) -> Result<Database, CheckError> {
        let io = |error| CheckError::Io { path: path.to_owned(), error };
        let file = vfs.open(path, OpenMode::Read).map_err(io)?;
        let len = file.len().map_err(io)?;
        let readable = usize::try_from(len / ALIGNMENT * ALIGNMENT).unwrap_or(usize::MAX).min(HEADERS_LEN);
        let mut start = IoBuffer::zeroed(readable);
        file.read_at(0, &mut start, IoReason::Verify).map_err(io)?;
        let (header, copies) = DatabaseHeader::read_from_start(&start)
            .map_err(|error| CheckError::Header { path: path.to_owned(), error })?;
        let page_size = header.page_size;
        let tail = len % page_size.bytes() as u64;
        if tail != 0 {
            let what = format!("{tail} bytes follow the last whole page");
            findings.push(Severity::Warning, Some(len - tail), None, None, what);
        }
        let shadow_at = Some(page_size.bytes() as u64);
        match copies {
            HeaderCopies::Both => {}
            HeaderCopies::ShadowStale => {
                let what = "the shadow header differs from the header".to_owned();
                findings.push(Severity::Warning, shadow_at, None, None, what);
            }
            HeaderCopies::FirstOnly => {
                findings.push(
                    Severity::Error,
                    shadow_at,
                    None,
                    None,
                    "the shadow header is damaged".to_owned(),
                );
            }
            HeaderCopies::ShadowOnly => {
                let what = "the header is damaged; the shadow header is good and was used".to_owned();
                findings.push(Severity::Error, Some(0), None, None, what);
            }
        }
        let pages = (len / page_size.bytes() as u64).saturating_sub(2);
        let file_pages = u32::try_from(pages).unwrap_or(u32::MAX);
        Ok(Database { file, path: path.to_owned(), header, page_size, file_pages })
    }

    /// Shut down cleanly, by the word of its header.
    fn is_clean(&self) -> bool {
        self.header.state == DatabaseState::CleanShutdown
    }

    /// Written without a log. Its header says "clean" even while it is in use, so a copy may be of any moment.
    fn is_unlogged(&self) -> bool {
        self.header.log_signature == Signature::default()
            && self.header.consistent_position == LogPosition::MIN
    }

    /// Everything in the file has to be right as it stands.
    pub(crate) fn must_be_consistent(&self) -> bool {
        self.is_clean() && !self.is_unlogged()
    }

    /// Whether the file holds this page.
    pub(crate) fn holds(&self, page: PageNumber) -> bool {
        page.get() <= self.file_pages
    }

    /// The aligned range of the file that covers `count` pages from `first`, and where in it they start.
    pub(crate) fn aligned_range(&self, first: PageNumber, count: u32) -> (u64, usize, usize) {
        let start = self.page_size.offset_of(first);
        let end = start + u64::from(count) * self.page_size.bytes() as u64;
        let aligned = start / ALIGNMENT * ALIGNMENT;
        let len = end.div_ceil(ALIGNMENT) * ALIGNMENT - aligned;
        // At most a chunk of a few hundred KiB.
        (aligned, len as usize, (start - aligned) as usize)
    }
}
