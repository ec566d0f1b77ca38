//! Compares a database's pages with the flush map next to the database.
//!
//! Each write of a page advances its flush type, which is two bits in the page flags. The flush map stores the same
//! two bits. If a page is sound but its flush type differs from the one in the map, the disk lost the last write of
//! the page. The comparison is valid only if the database header contains the map's signature and both files were
//! closed cleanly. Otherwise, either of the two may be newer than the other.

use std::path::Path;

use ese_format::PageNumber;
use ese_format::checksum::BlockIntegrity;
use ese_format::flush_map::{
    FLUSH_MAP_PAGE_LEN, FlushMapHeader, PAGES_PER_MAP_PAGE, flush_type_bytes, verify_map_page,
};
use ese_format::header::{DatabaseHeader, DatabaseState};
use ese_format::page::PageFlags;
use jetcell_vfs::{IoBuffer, IoReason, OpenMode, Vfs};

use crate::findings::Findings;
use crate::findings::finding::FindingKind;
use crate::findings::tree_label::DATABASE;

/// Flush types of the pages in one database, stored in two bits per page.
pub(crate) struct FlushTypes {
    /// Flush types of the pages, starting with page 0. Each byte holds four pages, with the first in the top bits.
    types: Vec<u8>,
}

/// The found and expected flush types of a page whose last write was lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LostWrite {
    pub(crate) found: u8,
    pub(crate) expected: u8,
}

/// Maximum number of pages in a database for which flush types are compared. For larger databases, the flush types
/// would take more than 32 MiB.
const MAX_PAGES: u32 = 1 << 27;
/// Flush type of a page that was never written or is unknown to the map.
const UNKNOWN: u8 = 0;

impl FlushTypes {
    /// Reads the flush map next to a database, if the two can be compared. Damage to the map is reported when the map
    /// itself is checked. ESE: a file with the extension `.jfm`.
    pub(crate) fn read_for_database(
        vfs: &dyn Vfs,
        database_path: &Path,
        header: &DatabaseHeader,
        file_pages: u32,
        findings: &mut Findings,
    ) -> Option<FlushTypes> {
        let path = database_path.with_extension("jfm");
        if header.state != DatabaseState::CleanShutdown || path == database_path || !vfs.exists(&path).ok()? {
            return None;
        }
        let file = vfs.open(&path, OpenMode::Read).ok()?;
        let len = file.len().ok()?;
        let mut page = IoBuffer::zeroed(FLUSH_MAP_PAGE_LEN);
        file.read_at(0, &mut page, IoReason::Verify).ok()?;
        let map = FlushMapHeader::decode(&page).ok()?;
        let clean = map.flags & FlushMapHeader::CLEAN != 0;
        if !clean || map.flush_signature != header.flush_map_signature {
            return None;
        }
        if file_pages > MAX_PAGES {
            let what =
                "the flush map next to the database was not used: the database has too many pages".to_owned();
            findings.add_info(FindingKind::Omitted, None, DATABASE, what);
            return None;
        }
        let maps = file_pages / PAGES_PER_MAP_PAGE + 1;
        let mut types = Vec::new();
        for number in 0..maps {
            let at = (u64::from(number) + 1) * FLUSH_MAP_PAGE_LEN as u64;
            let there = at + FLUSH_MAP_PAGE_LEN as u64 <= len
                && file.read_at(at, &mut page, IoReason::Verify).is_ok()
                && verify_map_page(&mut page, number) != BlockIntegrity::Bad;
            match flush_type_bytes(&page).filter(|_| there) {
                Some(bytes) => types.extend_from_slice(bytes),
                None => types.resize(types.len() + PAGES_PER_MAP_PAGE as usize / 4, UNKNOWN),
            }
        }
        Some(FlushTypes { types })
    }

    /// Returns the actual and expected flush types if a page with these flags is missing its last write.
    pub(crate) fn lost_write(&self, page: PageNumber, flags: PageFlags) -> Option<LostWrite> {
        let byte = self.types.get(page.get() as usize / 4)?;
        let (found, expected) = (flags.flush_type(), byte >> (6 - 2 * (page.get() % 4)) & 3);
        let known = found != UNKNOWN && expected != UNKNOWN;
        (known && found != expected).then_some(LostWrite { found, expected })
    }
}
