//! Compares pages of a copy with the state that the active side's scan has logged, and captures page images at a log
//! position.
//!
//! A record describes a page at the time when the active side logged it. When redo reaches the record, it has made
//! exactly the changes that precede it, so the copy's page must be the same. If the copy's page is newer than the
//! highest database time in the record, it already has changes from later records. In that case, redo is repeating an
//! old part of the log, and the pages cannot be compared.

use std::collections::BTreeMap;

use ese_format::log::record::{LogRecord, ScanCheck2};
use ese_format::page::{Page, fold_logical_checksum, fold_logical_checksum_to_16_bits, logical_checksum};
use ese_format::{DbTime, LogPosition, PageNumber, PageSize};

use crate::cache::AttachedFileId;
use crate::events::DivergenceKind;

/// Result of comparing one page of a copy with the active side's page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ComparisonResult {
    /// The page is the same on both sides.
    Equal,
    /// The copy's page has changes that are later than the record.
    Newer,
    /// The pages differ.
    Differs(DivergenceKind),
    /// The copy's page cannot be read.
    Unreadable(String),
}

/// A page that was compared.
#[derive(Clone, Debug)]
pub(in crate::recovery) struct ComparedPage {
    pub file: AttachedFileId,
    pub page: PageNumber,
    pub position: LogPosition,
    pub comparison: ComparisonResult,
    /// Database times of the page on the active side and on the copy.
    pub times: [DbTime; 2],
}

/// Page images sent by the active side, by the position of the record that describes the same state.
pub(in crate::recovery) type ReceivedImages = BTreeMap<LogPosition, (PageNumber, Vec<u8>)>;

/// A page that the active side has requested, in its state at the record of the request.
pub(in crate::recovery) struct CapturedPage {
    pub file: AttachedFileId,
    pub page: PageNumber,
    pub position: LogPosition,
    pub bytes: Vec<u8>,
}

/// State of a page according to a log record.
pub(super) struct LoggedPageState {
    pub page: PageNumber,
    pub time: DbTime,
    /// Highest time in the database when the record was logged.
    pub current: DbTime,
    checksum: LoggedChecksum,
}

enum LoggedChecksum {
    Folded(u32),
    FoldedTo16Bits(u16),
}

impl LoggedPageState {
    /// Returns the state from a scan record, or `None` if the record is not about a page.
    pub fn from_record(record: &LogRecord) -> Option<LoggedPageState> {
        let logged = match record {
            LogRecord::ScanCheck2(check) => LoggedPageState {
                page: check.page,
                time: check.page_db_time,
                current: check.current_db_time,
                checksum: LoggedChecksum::Folded(check.checksum),
            },
            LogRecord::ScanCheck(check) => LoggedPageState {
                page: check.page,
                time: check.page_db_time,
                current: check.current_db_time,
                checksum: LoggedChecksum::FoldedTo16Bits(check.checksum),
            },
            _ => return None,
        };
        (logged.page != ScanCheck2::END_OF_PASS).then_some(logged)
    }

    /// Compares a page with the record. `is_behind_end` means that the page is beyond the end of the file.
    pub fn compare(&self, bytes: &[u8], size: PageSize, is_behind_end: bool) -> ComparisonResult {
        let time = Page::new(bytes, size).db_time();
        if time > self.current {
            return ComparisonResult::Newer;
        }
        let kind = match time.cmp(&self.time) {
            std::cmp::Ordering::Equal if time == DbTime(0) || self.has_checksum_of(bytes, size) => {
                return ComparisonResult::Equal;
            }
            std::cmp::Ordering::Equal => DivergenceKind::Content,
            std::cmp::Ordering::Less if is_behind_end => DivergenceKind::CopyTooShort,
            std::cmp::Ordering::Less if time == DbTime(0) => DivergenceKind::CopyEmpty,
            std::cmp::Ordering::Less => DivergenceKind::CopyBehind,
            std::cmp::Ordering::Greater if self.time == DbTime(0) => DivergenceKind::ActiveEmpty,
            std::cmp::Ordering::Greater => DivergenceKind::ActiveBehind,
        };
        ComparisonResult::Differs(kind)
    }

    /// Returns whether an image shows the page in the logged state.
    pub fn is_image(&self, page: PageNumber, bytes: &[u8], size: PageSize) -> bool {
        page == self.page
            && bytes.len() == size.bytes()
            && Page::new(bytes, size).db_time() == self.time
            && self.time != DbTime(0)
            && self.has_checksum_of(bytes, size)
            && ese_format::page::validate(bytes, size).is_ok()
    }

    fn has_checksum_of(&self, bytes: &[u8], size: PageSize) -> bool {
        let sum = logical_checksum(bytes, size);
        match self.checksum {
            LoggedChecksum::Folded(logged) => fold_logical_checksum(sum, self.current) == logged,
            LoggedChecksum::FoldedTo16Bits(logged) => {
                fold_logical_checksum_to_16_bits(sum, self.current) == logged
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ese_format::TreeId;
    use ese_format::log::record::DatabaseIdInLog;
    use ese_format::page::{NodeFlags, PageFlags, PageMut};

    use super::*;

    const SIZE: PageSize = PageSize::KIB_4;

    fn page(time: u64, data: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; SIZE.bytes()];
        let mut page = PageMut::format(&mut bytes, SIZE, PageNumber::fixed(9), TreeId(3), PageFlags::LEAF);
        page.set_db_time(DbTime(time));
        page.insert_node(0, NodeFlags::empty(), b"key", data).unwrap();
        bytes
    }

    fn logged(time: u64, current: u64, bytes: &[u8]) -> LoggedPageState {
        let checksum = fold_logical_checksum(logical_checksum(bytes, SIZE), DbTime(current));
        LoggedPageState::from_record(&LogRecord::ScanCheck2(ScanCheck2 {
            database: DatabaseIdInLog(1),
            page: PageNumber::fixed(9),
            flags: ScanCheck2::SCAN,
            page_db_time: DbTime(time),
            current_db_time: DbTime(current),
            checksum,
        }))
        .unwrap()
    }

    #[test]
    fn page_comparison_identifies_the_side_that_lags() {
        use DivergenceKind::*;
        let zeros = vec![0; SIZE.bytes()];
        let differs = ComparisonResult::Differs;
        let cases = [
            (logged(5, 9, &page(5, b"a")), page(5, b"a"), ComparisonResult::Equal),
            (logged(5, 9, &page(5, b"a")), page(10, b"b"), ComparisonResult::Newer),
            (logged(5, 9, &page(5, b"a")), page(5, b"b"), differs(Content)),
            (logged(5, 9, &page(5, b"a")), page(4, b"a"), differs(CopyBehind)),
            (logged(5, 9, &page(5, b"a")), page(9, b"a"), differs(ActiveBehind)),
            (logged(5, 9, &page(5, b"a")), zeros.clone(), differs(CopyEmpty)),
            (logged(0, 9, &zeros), page(9, b"a"), differs(ActiveEmpty)),
            (logged(0, 9, &zeros), page(10, b"a"), ComparisonResult::Newer),
            (logged(0, 9, &zeros), zeros.clone(), ComparisonResult::Equal),
        ];
        for (logged, bytes, expected) in cases {
            assert_eq!(logged.compare(&bytes, SIZE, false), expected);
        }
        assert_eq!(logged(5, 9, &page(5, b"a")).compare(&zeros, SIZE, true), differs(CopyTooShort));
    }

    #[test]
    fn only_an_image_equal_to_the_logged_state_is_accepted() {
        let state = page(5, b"a");
        let logged = logged(5, 9, &state);
        let at = PageNumber::fixed(9);
        assert!(logged.is_image(at, &state, SIZE));
        assert!(!logged.is_image(PageNumber::fixed(8), &state, SIZE));
        assert!(!logged.is_image(at, &page(5, b"b"), SIZE));
        assert!(!logged.is_image(at, &page(6, b"a"), SIZE));
        assert!(!logged.is_image(at, &state[1..], SIZE));
    }
}
