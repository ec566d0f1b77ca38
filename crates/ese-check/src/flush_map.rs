//! A flush map: header and pages; and what it says of the pages of its database.
//!
//! Every write of a page moves two bits in its flags on, and the map remembers them. A page whose bits are others than
//! those of the map is whole, but not what was written last: the disk has lost a write. The map counts when the
//! database names it by its signature and both were left clean; otherwise either may be ahead of the other.

use std::path::Path;

use ese_format::PageNumber;
use ese_format::checksum::SegmentVerdict;
use ese_format::flush_map::{
    FLUSH_MAP_PAGE_LEN, FlushMapHeader, PAGES_PER_MAP_PAGE, flush_type_bytes, map_page_header,
    verify_map_page,
};
use ese_format::page::PageFlags;
use ese_format::recognise::Format;
use jetcell_vfs::{IoBuffer, IoReason, OpenMode, Vfs};

use crate::database::Database;
use crate::files::Source;
use crate::finding::{DATABASE, FindingKind, Findings, Severity};
use crate::report::FileReport;

/// Judges the header and every page of the map.
pub(crate) fn check_flush_map(
    source: &Source,
    path: &Path,
    mut findings: Findings,
) -> (FileReport, Findings) {
    let mut report = FileReport::new(path, Format::FlushMap);
    match FlushMapHeader::decode(&source.start) {
        Ok(header) => {
            let clean = header.flags & FlushMapHeader::CLEAN != 0;
            report.state = Some(if clean { "clean" } else { "dirty" }.to_owned());
            let (major, update, minor) =
                (header.version_major, header.version_update, header.version_update_minor);
            report.version = Some(format!("{major}.{update}.{minor}"));
        }
        Err(error) => findings.at(Severity::Error, FindingKind::FlushMapHeader, 0, error.to_string()),
    }
    let len = FLUSH_MAP_PAGE_LEN as u64;
    let mut page = IoBuffer::zeroed(FLUSH_MAP_PAGE_LEN);
    for number in 0..(source.len / len).saturating_sub(1) {
        let at = (number + 1) * len;
        if let Err(error) = source.file.read_at(at, &mut page, IoReason::Verify) {
            findings.at(Severity::Error, FindingKind::FlushMapPage, at, format!("cannot be read: {error}"));
            continue;
        }
        // Made, and never written.
        if page.iter().all(|&byte| byte == 0) {
            continue;
        }
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        let what = match verify_map_page(&mut page, number) {
            SegmentVerdict::Bad => Some(format!("bad checksum of map page {number}")),
            SegmentVerdict::Repaired => {
                Some(format!("flipped bit in map page {number}; it can be put right"))
            }
            SegmentVerdict::Good => map_page_header(&page)
                .filter(|header| header.number != number)
                .map(|header| format!("map page {number} says it is page {}", header.number)),
        };
        if let Some(what) = what {
            findings.at(Severity::Error, FindingKind::FlushMapPage, at, what);
        }
    }
    (report, findings)
}

/// Two bits for each page of a database.
pub(crate) struct FlushTypes {
    /// Pages from 0, four to a byte, the first in the top bits.
    types: Vec<u8>,
}

/// A page that is older than its last write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LostWrite {
    pub(crate) found: u8,
    pub(crate) expected: u8,
}

/// Larger databases are not compared: their flush types would take more than 32 MiB.
const MOST_PAGES: u32 = 1 << 27;
/// Flush type of a page that was never written, or of which nothing is known.
const UNKNOWN: u8 = 0;

impl FlushTypes {
    /// The map beside a database, if it counts. What is wrong with the map itself is found when it is checked.
    pub(crate) fn beside(vfs: &dyn Vfs, database: &Database, findings: &mut Findings) -> Option<FlushTypes> {
        let path = database.path.with_extension("jfm");
        if !database.is_clean() || path == database.path || !vfs.exists(&path) {
            return None;
        }
        let file = vfs.open(&path, OpenMode::Read).ok()?;
        let len = file.len().ok()?;
        let mut page = IoBuffer::zeroed(FLUSH_MAP_PAGE_LEN);
        file.read_at(0, &mut page, IoReason::Verify).ok()?;
        let header = FlushMapHeader::decode(&page).ok()?;
        let clean = header.flags & FlushMapHeader::CLEAN != 0;
        if !clean || header.flush_signature != database.header.flush_map_signature {
            return None;
        }
        if database.file_pages > MOST_PAGES {
            let what = "the flush map beside the database was not used: the database is too large for that"
                .to_owned();
            findings.info(FindingKind::Omitted, None, DATABASE, what);
            return None;
        }
        let maps = database.file_pages / PAGES_PER_MAP_PAGE + 1;
        let mut types = Vec::new();
        for number in 0..maps {
            let at = (u64::from(number) + 1) * FLUSH_MAP_PAGE_LEN as u64;
            let there = at + FLUSH_MAP_PAGE_LEN as u64 <= len
                && file.read_at(at, &mut page, IoReason::Verify).is_ok()
                && verify_map_page(&mut page, number) != SegmentVerdict::Bad;
            match flush_type_bytes(&page).filter(|_| there) {
                Some(bytes) => types.extend_from_slice(bytes),
                None => types.resize(types.len() + PAGES_PER_MAP_PAGE as usize / 4, UNKNOWN),
            }
        }
        Some(FlushTypes { types })
    }

    /// Whether a page with these flags lacks its last write.
    pub(crate) fn lost_write(&self, page: PageNumber, flags: PageFlags) -> Option<LostWrite> {
        let byte = self.types.get(page.get() as usize / 4)?;
        let (found, expected) = (flags.flush_type(), byte >> (6 - 2 * (page.get() % 4)) & 3);
        let known = found != UNKNOWN && expected != UNKNOWN;
        (known && found != expected).then_some(LostWrite { found, expected })
    }
}
