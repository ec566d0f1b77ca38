//! Checks a flush map file: its header and its pages.

use std::path::Path;

use ese_format::checksum::BlockIntegrity;
use ese_format::flush_map::{FLUSH_MAP_PAGE_LEN, FlushMapHeader, map_page_header, verify_map_page};
use ese_format::recognise::EseFileKind;
use jetcell_vfs::{IoBuffer, IoReason};

use crate::files::recognized_file::RecognizedFile;
use crate::files::report::{FileReport, FileState};
use crate::findings::Findings;
use crate::findings::finding::{FindingKind, Severity};

/// Checks the header and each page of the map.
pub(crate) fn check_flush_map(
    source: &RecognizedFile,
    path: &Path,
    mut findings: Findings,
) -> (FileReport, Findings) {
    let mut report = FileReport::new(path, EseFileKind::FlushMap);
    match FlushMapHeader::decode(&source.start) {
        Ok(header) => {
            let clean = header.flags & FlushMapHeader::CLEAN != 0;
            report.state = Some(if clean { FileState::CleanFlushMap } else { FileState::DirtyFlushMap });
            let (major, update, minor) =
                (header.version_major, header.version_update, header.version_update_minor);
            report.version = Some(format!("{major}.{update}.{minor}"));
        }
        Err(error) => {
            findings.add_at_offset(Severity::Error, FindingKind::FlushMapHeader, 0, error.to_string());
        }
    }
    let len = FLUSH_MAP_PAGE_LEN as u64;
    let mut page = IoBuffer::zeroed(FLUSH_MAP_PAGE_LEN);
    for number in 0..(source.len / len).saturating_sub(1) {
        let at = (number + 1) * len;
        if let Err(error) = source.file.read_at(at, &mut page, IoReason::Verify) {
            findings.add_at_offset(
                Severity::Error,
                FindingKind::FlushMapPage,
                at,
                format!("failed to read the flush map: {error}"),
            );
            continue;
        }
        // The page was allocated but never written.
        if page.iter().all(|&byte| byte == 0) {
            continue;
        }
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        let what = match verify_map_page(&mut page, number) {
            BlockIntegrity::Bad => Some(format!("bad checksum of map page {number}")),
            BlockIntegrity::Repaired => {
                Some(format!("flipped bit in map page {number}; the checksum can correct it"))
            }
            BlockIntegrity::Good => map_page_header(&page)
                .filter(|header| header.number != number)
                .map(|header| format!("map page {number} has page number {}", header.number)),
        };
        if let Some(what) = what {
            findings.add_at_offset(Severity::Error, FindingKind::FlushMapPage, at, what);
        }
    }
    (report, findings)
}
