//! Copies the pages of one database into a backup.

use std::collections::BTreeSet;
use std::path::Path;

use ese_engine::{PageReader, ReadOptions};
use ese_format::PageNumber;
use ese_format::header::DatabaseHeader;
use jetcell_vfs::{FileName, IoBuffer, IoReason, OpenMode};

use crate::destination::{Destination, PartialDatabase};
use crate::error::{BackupError, Result};
use crate::manifest::{BadPage, MAX_BAD_PAGES, StoredDatabase, StoredPages};
use crate::options::BackupOptions;
use crate::pace::Gauge;
use crate::ranges::{RANGE_BYTES, RangeSums, RangeWriter};

/// The copy of a database, whose header is still to be written.
pub struct CopiedDatabase {
    state: PartialDatabase,
    writer: RangeWriter,
    page_bytes: usize,
    /// Bytes that an interrupted backup had copied.
    pub continued_bytes: u64,
}

impl CopiedDatabase {
    /// Begins the copy of a database, or continues one of which `earlier` says how far it came. `earlier` must be of the
    /// same database, and everything in it of use.
    pub fn begin(
        destination: &Destination,
        page_bytes: usize,
        name: FileName,
        identity: String,
        earlier: Option<&PartialDatabase>,
    ) -> Result<CopiedDatabase> {
        if let Some(earlier) = earlier
            && let Some(writer) = resume(destination, earlier)?
        {
            let continued_bytes = writer.position();
            return Ok(CopiedDatabase { state: earlier.clone(), writer, page_bytes, continued_bytes });
        }
        let mut writer = RangeWriter::new(destination.create(&name)?);
        // The two copies of the header. The file is no database until they are written.
        writer.push(&vec![0; 2 * page_bytes])?;
        let state = PartialDatabase {
            file: name,
            identity,
            ranges: String::new(),
            pages: StoredPages::default(),
            bad_pages: Vec::new(),
        };
        Ok(CopiedDatabase { state, writer, page_bytes, continued_bytes: 0 })
    }

    /// Where and how the source is to be read.
    pub fn read_options(&self, options: &BackupOptions) -> ReadOptions {
        let next = self.writer.position() / self.page_bytes as u64 - 1;
        ReadOptions {
            read_bytes: options.read_bytes,
            reads_in_flight: options.reads_in_flight,
            from: PageNumber::fixed(next.max(1) as u32),
        }
    }

    /// Copies all pages that are left. `path` is that of the original.
    pub fn copy(
        &mut self,
        mut reader: PageReader,
        path: &Path,
        destination: &Destination,
        options: &BackupOptions,
        gauge: &Gauge,
    ) -> Result<()> {
        let before = (self.state.pages, self.state.bad_pages.clone());
        let clock = destination.vfs.clock();
        let (mut saved, mut saved_at) = (self.writer.position(), clock.monotonic());
        // What was found in the ranges that are whole.
        let mut whole = before.clone();
        loop {
            let extent = match reader.next_extent() {
                Ok(None) => break,
                Ok(Some(extent)) => extent,
                Err(error) => {
                    let error = BackupError::from(error);
                    if error.can_be_continued() && self.writer.position() > saved {
                        (self.state.pages, self.state.bad_pages) = whole;
                        self.save(destination)?;
                    }
                    return Err(error);
                }
            };
            gauge.take(extent.bytes.len() as u64)?;
            self.writer.push(&extent.bytes)?;
            reader.recycle(extent);
            let reads = reader.reads();
            if let Some(read) = &options.read {
                read(path, reads);
            }
            self.state.pages = before.0.with(reads);
            self.state.bad_pages.clone_from(&before.1);
            let bad = reads.bad_pages.iter();
            self.state
                .bad_pages
                .extend(bad.map(|(page, flaw)| BadPage { page: page.get(), flaw: flaw.to_string() }));
            self.state.bad_pages.truncate(MAX_BAD_PAGES);
            let at = self.writer.position();
            let (ranges, now) = ((at - saved) / RANGE_BYTES as u64, clock.monotonic());
            let is_due = at - saved >= options.save_bytes || now - saved_at >= options.save_interval;
            if at.is_multiple_of(RANGE_BYTES as u64) {
                whole = (self.state.pages, self.state.bad_pages.clone());
                if ranges > 0 && is_due {
                    self.save(destination)?;
                    (saved, saved_at) = (at, clock.monotonic());
                }
            }
        }
        Ok(())
    }

    /// Makes the ranges that are whole durable, and says so, so that an interrupted backup goes on behind them.
    fn save(&mut self, destination: &Destination) -> Result<()> {
        self.writer.sync()?;
        self.state.ranges = self.writer.sums().to_text();
        destination.save_database(self.state.clone())
    }

    /// Whether no page is bad.
    pub fn is_usable(&self) -> bool {
        self.state.pages.bad == 0
    }

    /// The first bad pages, as text.
    pub fn bad_pages(&self) -> String {
        let named: Vec<String> =
            self.state.bad_pages.iter().take(5).map(|bad| format!("{} ({})", bad.page, bad.flaw)).collect();
        let more = if self.state.pages.bad > named.len() as u64 { ", ..." } else { "" };
        format!("{}{more}", named.join(", "))
    }

    /// Writes the header, and makes the file durable. `needs`: the generations that make it consistent.
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

/// The writer behind what is durable; `None` if the file is not as long as that.
fn resume(destination: &Destination, earlier: &PartialDatabase) -> Result<Option<RangeWriter>> {
    let Some(sums) = RangeSums::from_text(&earlier.ranges).filter(|sums| !sums.0.is_empty()) else {
        return Ok(None);
    };
    let path = destination.directory.join(&earlier.file);
    let failed = |error: std::io::Error| BackupError::io(&path, &error);
    let file = match destination.vfs.open(&path, OpenMode::WriteOwn) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(failed)?,
    };
    let durable = sums.0.len() as u64 * RANGE_BYTES as u64;
    if file.len().map_err(failed)? < durable {
        return Ok(None);
    }
    // What is behind the durable ranges is written again.
    file.truncate(durable).map_err(failed)?;
    let mut first = IoBuffer::zeroed(RANGE_BYTES);
    file.read_at(0, &mut first, IoReason::Backup).map_err(failed)?;
    Ok(Some(RangeWriter::resume(file, sums, first)))
}
