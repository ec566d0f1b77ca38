//! Pages that differ between the active side and a copy at the same log position.

use std::path::PathBuf;

use ese_format::{DbTime, LogPosition, PageNumber};

/// A page that differs between the active side and a copy, although both have replayed the same log records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageDivergence {
    /// Path of the copy's database file.
    pub database: PathBuf,
    /// Page number.
    pub page: PageNumber,
    /// Position of the active side's log record.
    pub position: LogPosition,
    /// Kind of difference.
    pub kind: DivergenceKind,
    /// The page's database time on the active side.
    pub active_time: DbTime,
    /// The page's database time on the copy.
    pub copy_time: DbTime,
}

/// How the two sides' versions of a page differ. The side with the older page has lost a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DivergenceKind {
    /// 538: the active side's page is older.
    ActiveBehind,
    /// 539: the copy's page is older.
    CopyBehind,
    /// 540: both pages have the same database time but different content. It is not known which side is correct.
    Content,
    /// 541: the copy's page was never written.
    CopyEmpty,
    /// 545: the active side's page was never written.
    ActiveEmpty,
    /// 557: the copy's file ends before this page.
    CopyTooShort,
}

impl DivergenceKind {
    /// All kinds, in the order of ESE's event numbers.
    pub const ALL: [DivergenceKind; 6] = [
        DivergenceKind::ActiveBehind,
        DivergenceKind::CopyBehind,
        DivergenceKind::Content,
        DivergenceKind::CopyEmpty,
        DivergenceKind::ActiveEmpty,
        DivergenceKind::CopyTooShort,
    ];

    /// Returns the name of the kind of difference, for use by programs.
    pub fn name(self) -> &'static str {
        match self {
            DivergenceKind::ActiveBehind => "active_behind",
            DivergenceKind::CopyBehind => "copy_behind",
            DivergenceKind::Content => "content_differs",
            DivergenceKind::CopyEmpty => "copy_page_empty",
            DivergenceKind::ActiveEmpty => "active_page_empty",
            DivergenceKind::CopyTooShort => "copy_too_short",
        }
    }

    /// Returns whether the active side lost a write to the page.
    pub fn active_is_behind(self) -> bool {
        matches!(self, DivergenceKind::ActiveBehind | DivergenceKind::ActiveEmpty)
    }

    /// Returns ESE's event number.
    pub fn id(self) -> u16 {
        match self {
            DivergenceKind::ActiveBehind => 538,
            DivergenceKind::CopyBehind => 539,
            DivergenceKind::Content => 540,
            DivergenceKind::CopyEmpty => 541,
            DivergenceKind::ActiveEmpty => 545,
            DivergenceKind::CopyTooShort => 557,
        }
    }

    /// Returns an explanation of the difference.
    pub fn meaning(self) -> &'static str {
        match self {
            DivergenceKind::ActiveBehind => "the active side lost a write of the page",
            DivergenceKind::CopyBehind => "the copy lost a write of the page",
            DivergenceKind::Content => "both sides have the same dbtime but different content",
            DivergenceKind::CopyEmpty => "the copy lost the first write of the page",
            DivergenceKind::ActiveEmpty => "the active side lost the first write of the page",
            DivergenceKind::CopyTooShort => "the file of the copy ends before the page",
        }
    }
}
