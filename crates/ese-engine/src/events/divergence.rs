//! Pages of active side and copy that differ at the same log position.

use std::path::PathBuf;

use ese_format::{DbTime, LogPosition, PageNumber};

/// A page that differs between active side and copy, although both have the same changes by the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageDivergence {
    /// The database of the copy.
    pub database: PathBuf,
    /// The page.
    pub page: PageNumber,
    /// Where the record of the active side stands.
    pub position: LogPosition,
    /// Which side is behind.
    pub kind: DivergenceKind,
    /// The time of the page on the active side.
    pub active_time: DbTime,
    /// The time of the page on the copy.
    pub copy_time: DbTime,
}

/// How a page differs, and which side is behind: it has lost a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DivergenceKind {
    /// 538: the page of the active side is older.
    ActiveBehind,
    /// 539: the page of the copy is older.
    CopyBehind,
    /// 540: the same time of change, but other content. Neither side is known to be right.
    Content,
    /// 541: the page of the copy was never written.
    CopyEmpty,
    /// 545: the page of the active side was never written.
    ActiveEmpty,
    /// 557: the file of the copy ends before the page.
    CopyTooShort,
}

impl DivergenceKind {
    /// A name for programs.
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

    /// Whether the page of the active side lost a write.
    pub fn active_is_behind(self) -> bool {
        matches!(self, DivergenceKind::ActiveBehind | DivergenceKind::ActiveEmpty)
    }

    /// Its number in ESE.
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

    /// What it means, in words.
    pub fn meaning(self) -> &'static str {
        match self {
            DivergenceKind::ActiveBehind => "the active side has lost a write of it",
            DivergenceKind::CopyBehind => "the copy has lost a write of it",
            DivergenceKind::Content => "both have the same time of change, but other content",
            DivergenceKind::CopyEmpty => "the copy has lost its first write",
            DivergenceKind::ActiveEmpty => "the active side has lost its first write",
            DivergenceKind::CopyTooShort => "the file of the copy ends before it",
        }
    }
}
