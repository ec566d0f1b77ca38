//! Copies the pages of one database into a backup.

use std::collections::BTreeSet;
use std::path::Path;

use ese_engine::{DatabasePageReader, PageReadOptions};
use ese_format::header::DatabaseHeader;
use ese_format::{PageNumber, PageSize};
use jetcell_vfs::FileName;

use crate::backup_directory::{BackupDirectory, PartialDatabaseCopy};
use crate::error::{BackupError, Result};
use crate::manifest::{MAX_BAD_PAGES, StoredBadPage, StoredDatabase, StoredPageCounts};
use crate::options::BackupOptions;
use crate::ranges::{RANGE_BYTES, RangeWriter};
use crate::retained_ranges::RetainedRanges;
use crate::set_error::BadDatabase;
use crate::transfer_control::TransferMeter;

/// A database copy that is being written to a backup. The header is written last.
pub struct DatabaseCopy {
    state: PartialDatabaseCopy,
    writer: RangeWriter,
    page_bytes: usize,
    /// Number of bytes that an interrupted backup had already copied.
    pub continued_bytes: u64,
}

impl DatabaseCopy {
    /// Begins the copy of a database, or continues the interrupted copy that `earlier` describes.
    ///
    /// `earlier` must describe the same database. Ranges to be kept are first read back and verified. `source` is the
    /// page size and length of the original.
    pub fn begin(
        destination: &BackupDirectory,
        source @ (size, _): (PageSize, u64),
        (name, identity): (FileName, String),
        earlier: Option<&PartialDatabaseCopy>,
        gauge: &TransferMeter,
    ) -> Result<DatabaseCopy> {
        let page_bytes = size.bytes();
        let kept =
            earlier.map(|earlier| RetainedRanges::verify(destination, earlier, source, gauge)).transpose()?;
        if let Some(RetainedRanges { file, sums, first, state }) = kept.flatten() {
            let writer = RangeWriter::resume(file, sums, first);
            let continued_bytes = writer.position();
            return Ok(DatabaseCopy { state, writer, page_bytes, continued_bytes });
        }
        let mut writer = RangeWriter::new(destination.create(&name)?);
        // Write zeros in place of both header copies. The file is not a valid database until the header is written.
        writer.push(&vec![0; 2 * page_bytes])?;
        let state = PartialDatabaseCopy {
            file: name,
            identity,
            ranges: String::new(),
            pages: StoredPageCounts::default(),
            bad_pages: Vec::new(),
        };
        Ok(DatabaseCopy { state, writer, page_bytes, continued_bytes: 0 })
    }

    /// Returns the options for reading the source, including the page at which to start.
    pub fn read_options(&self, options: &BackupOptions) -> PageReadOptions {
        let next = self.writer.position() / self.page_bytes as u64 - 1;
        PageReadOptions {
            read_bytes: options.read_bytes,
            reads_in_flight: options.reads_in_flight,
            from: PageNumber::fixed(next.max(1) as u32),
        }
    }

    /// Copies all remaining pages. `path` is the path of the original database.
    pub fn copy(
        &mut self,
        mut reader: DatabasePageReader,
        path: &Path,
        destination: &BackupDirectory,
        options: &BackupOptions,
        gauge: &TransferMeter,
    ) -> Result<()> {
        // `listed` is the number of the reader's bad pages that are already in our list. The reader's list only
        // grows.
        let (before, mut listed) = (self.state.pages, 0);
        let clock = destination.vfs.clock();
        let (mut saved, mut saved_at) = (self.writer.position(), clock.monotonic());
        // The page counts and the number of listed bad pages as of the end of the last complete range.
        let mut whole = (before, self.state.bad_pages.len());
        loop {
            let extent = match reader.next_extent() {
                Ok(None) => break,
                Ok(Some(extent)) => extent,
                Err(error) => {
                    let error = BackupError::from(error);
                    if error.can_be_continued() && self.writer.position() > saved {
                        self.state.pages = whole.0;
                        self.state.bad_pages.truncate(whole.1);
                        self.save(destination)?;
                    }
                    return Err(error);
                }
            };
            gauge.wait_for(extent.bytes.len() as u64)?;
            self.writer.push(&extent.bytes)?;
            reader.recycle(extent);
            let reads = reader.reads();
            if let Some(read) = &options.on_read {
                read(path, reads);
            }
            self.state.pages = before.plus(reads);
            if reads.bad_pages.len() > listed {
                let room = MAX_BAD_PAGES.saturating_sub(self.state.bad_pages.len());
                let new = reads.bad_pages.iter().skip(listed).take(room);
                self.state.bad_pages.extend(new.map(|(page, flaw)| StoredBadPage::new(*page, flaw)));
                listed = reads.bad_pages.len();
            }
            let at = self.writer.position();
            let (ranges, now) = ((at - saved) / RANGE_BYTES as u64, clock.monotonic());
            let is_due = at - saved >= options.save_bytes || now - saved_at >= options.save_interval;
            if at.is_multiple_of(RANGE_BYTES as u64) {
                whole = (self.state.pages, self.state.bad_pages.len());
                if ranges > 0 && is_due {
                    self.save(destination)?;
                    (saved, saved_at) = (at, clock.monotonic());
                }
            }
        }
        Ok(())
    }

    /// Makes the complete ranges durable and records them, so that an interrupted backup can continue after them.
    fn save(&mut self, destination: &BackupDirectory) -> Result<()> {
        self.writer.sync()?;
        self.state.ranges = self.writer.sums().to_text();
        destination.save_database(self.state.clone())
    }

    /// Returns true if the database has no bad pages.
    pub fn is_usable(&self) -> bool {
        self.state.pages.bad == 0
    }

    /// Describes the bad pages for an error message.
    pub fn bad_database(&self, source: &Path) -> BadDatabase {
        let pages = self.state.bad_pages.clone();
        BadDatabase { source: source.to_path_buf(), count: self.state.pages.bad, pages }
    }

    /// Writes the header and makes the file durable. `needs` is the range of log generations required to make the
    /// file consistent.
    pub fn finish(
        self,
        header: &DatabaseHeader,
        source: &Path,
        needs: Option<(u32, u32)>,
    ) -> Result<StoredDatabase> {
        let page = header.encode();
        let (bytes, sums) = self.writer.finish(&[&page[..], &page[..]].concat())?;
        let mut bad_pages = self.state.bad_pages;
        let mut seen = BTreeSet::new();
        bad_pages.retain(|bad| seen.insert(bad.page));
        Ok(StoredDatabase {
            file: self.state.file,
            source: source.to_path_buf(),
            signature: header.signature.to_hex(),
            needs,
            bytes,
            usable: self.state.pages.bad == 0,
            pages: self.state.pages,
            bad_pages,
            ranges: sums.to_text(),
        })
    }
}
