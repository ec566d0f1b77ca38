//! Kinds of damage in stored data.

use std::path::PathBuf;

use ese_format::catalog::CatalogError;
use ese_format::compression::{CompressionError, DECOMPRESSION_FAILED};
use ese_format::header::HeaderError;
use ese_format::log::header::LogHeaderError;
use ese_format::log::record::{ImageError, LogRecordError};
use ese_format::log::scan::ScanError;
use ese_format::long_value::LongValueId;
use ese_format::page::PageError;
use ese_format::record::{RecordError, ValueError};
use ese_format::space::SpaceError;
use ese_format::{DbTime, Generation, LogPosition, TreeId};

use crate::page_misfit::PageMisfit;

/// Kind of damage in a database or in a log.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages describe the variants and their fields")]
pub enum Corruption {
    // Files.
    #[error(transparent)]
    DatabaseHeader(#[from] HeaderError),
    #[error(transparent)]
    LogHeader(#[from] LogHeaderError),
    #[error("its header refers to databases with pages of {0} bytes")]
    LogPageSize(u16),
    #[error("the file name specifies generation {:X}, but the header specifies {:X}", named.0, stored.0)]
    LogGeneration { named: Generation, stored: Generation },
    #[error(
        "the file contains log generation {:X} (hexadecimal), but {archived} contains {:X}, so the file is not \
         the newest log", found.0, newest.0
    )]
    NotNewestLog { found: Generation, archived: PathBuf, newest: Generation },
    #[error(transparent)]
    LogSegment(#[from] ScanError),
    #[error("the log changed after it was first read")]
    ChangedLog,
    #[error("a sort run is truncated")]
    TruncatedRun,

    // Log records.
    #[error("log record at {position:?}: {error}")]
    LogRecord { position: LogPosition, error: LogRecordError },
    #[error("log record at {0:?} was changed or removed after it was first read")]
    ChangedLogRecord(LogPosition),
    #[error("{record} record at {position:?} {reason}")]
    RefusedRecord { record: &'static str, position: LogPosition, reason: &'static str },
    #[error("{record} record at {position:?} {error}")]
    Macro { record: &'static str, position: LogPosition, error: MacroError },
    #[error("the log refers to database {0}, which is not attached")]
    NotAttached(u8),
    #[error(
        "the log attaches the database with id {id}, but at this log position the id belongs to {other}, so \
         recovery cannot determine which database the following records belong to"
    )]
    DatabaseId { id: u8, other: PathBuf },

    // Pages.
    #[error(transparent)]
    Page(#[from] PageDefect),
    #[error("a shrink removed it, but the log changes it")]
    RemovedPage,
    #[error("in-memory page deltas cannot be decoded")]
    Deltas,
    #[error(transparent)]
    Misfit(#[from] PageMisfit),
    #[error(transparent)]
    PageTime(#[from] PageTimeMismatch),
    #[error("image in the log record: {0}")]
    Image(#[from] ImageError),
    #[error("{fault} (log record at {position:?})")]
    Redo { position: LogPosition, fault: Box<Corruption> },
    /// The page belongs to a table that was loaded in bulk.
    #[error("{0}; {NOT_LOGGED}")]
    BulkLoad(Box<Corruption>),

    // Trees. An error in the content of a tree names the root page.
    #[error("tree is deeper than the maximum depth, so its pages form a cycle")]
    TooDeep,
    #[error("child of a parent-of-leaf page is not a leaf")]
    NotALeaf,
    #[error("internal page does not have a child for a key in its range")]
    NoChild,
    #[error("internal page does not have an entry for one of its child pages")]
    NoParentEntry,
    #[error("an entry points to keys outside its range")]
    EntryOutsideRange,
    #[error("a node is unreadable")]
    UnreadableNode,
    #[error("the tree or the node whose change must be rolled back is missing")]
    NothingToRollBack,
    #[error("a leaf in the middle of the tree does not have nodes")]
    EmptyLeaf,
    #[error("the sibling links of the page do not match its neighbours")]
    SiblingLinks,
    #[error(transparent)]
    Space(#[from] SpaceError),
    #[error("space tree: extents overlap, or are not in order")]
    ExtentOrder,
    #[error("space tree: an extent is missing")]
    NoExtent,
    #[error("space tree: the page cannot be split")]
    UnsplittablePage,

    // Tables.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    #[error("template table {0:?} is missing")]
    NoTemplate(String),
    #[error("entry does not name a catalog row")]
    NoCatalogRow,
    #[error("the log detaches the database while a transaction that changed this page is unfinished")]
    DetachedInTransaction,
    #[error("the catalog has tree {}, but the page has {}", catalog.0, page.0)]
    OtherTree { catalog: TreeId, page: TreeId },
    #[error("record of table {table:?}: {fault}")]
    TableRecord { table: String, fault: Box<Corruption> },
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error(transparent)]
    Value(#[from] ValueError),
    #[error(transparent)]
    Compression(#[from] CompressionError),
    #[error("an index does not have an entry for a record")]
    NoIndexEntry,
    #[error("a record refers to a long value, but the table does not have a long-value tree")]
    NoLongValueTree,
    #[error("{0:?} does not have a root")]
    NoLongValueRoot(LongValueId),
    #[error("{id:?} does not have a chunk at {offset}")]
    NoChunk { id: LongValueId, offset: u32 },
    #[error("{id:?} at {offset}: {error}")]
    Chunk { id: LongValueId, offset: u32, error: CompressionError },
}

impl Corruption {
    /// Returns the number and the name of ESE's error, unless they depend on the location of the damage.
    pub(super) fn jet(&self) -> Option<(i32, &'static str)> {
        match self {
            Corruption::PageTime(fault) => Some(fault.jet()),
            Corruption::Page(PageDefect::Zero) => Some((-1019, "JET_errPageNotInitialized")),
            Corruption::Compression(_) | Corruption::Chunk { .. } => Some(DECOMPRESSION_FAILED),
            Corruption::TableRecord { fault, .. } => fault.jet(),
            _ => None,
        }
    }
}

/// Explains why redo cannot restore the pages of a bulk load.
pub(crate) const NOT_LOGGED: &str =
    "tables were loaded in bulk at this point, and the loaded pages are not in the log";

/// Reason why the bytes at a page's location are not a valid copy of that page.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages describe the variants")]
pub enum PageDefect {
    #[error("past the end of the file")]
    PastEnd,
    #[error("never written (all zeros) (-1019)")]
    Zero,
    #[error("contains page {0} (-1118)")]
    WrongPage(u32),
    #[error("wrong checksum (-1018)")]
    Checksum,
    #[error("checksum is correct, but the structure is invalid: {0} (-1018)")]
    Structure(PageError),
}

/// Damage in a log file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages describe the variants")]
pub enum LogDamage {
    #[error(transparent)]
    Segment(#[from] ScanError),
    #[error("log segment {0} is damaged, but the next generation shows that it was complete")]
    TornSegment(u16),
    #[error("log record: {0}")]
    Record(#[from] LogRecordError),
    #[error("log record: it extends past its segment")]
    RecordTooLong,
    #[error("log record at {0:?}: its fragments are longer than the record")]
    Fragments(LogPosition),
}

/// How a page's database time differs from the time that the log expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the fields are the times that the page has and that the log expects")]
pub enum PageTimeMismatch {
    /// The page is older than expected: a write was lost, or the file is an older copy.
    #[error(
        "dbtime {} is older than the log expects ({}): a write was lost, or the file and the log do not belong \
         together", found.0, expected.0
    )]
    Older { found: DbTime, expected: DbTime },
    /// The page's time is between the times before and after the logged change.
    #[error(
        "dbtime {} is newer than the log expects ({}): a write was lost, or the file and the log do not belong \
         together", found.0, expected.0
    )]
    Newer { found: DbTime, expected: DbTime },
    /// The page contains a change from a generation that the database header does not name. Another program changed
    /// the file.
    #[error(
        "dbtime {} is newer than the logs that the database needs: the file was changed by another program",
        found.0
    )]
    BeyondHeader { found: DbTime },
}

impl PageTimeMismatch {
    pub(super) fn jet(self) -> (i32, &'static str) {
        match self {
            PageTimeMismatch::Older { .. } => (-566, "JET_errDbTimeTooOld"),
            PageTimeMismatch::Newer { .. } => (-567, "JET_errDbTimeTooNew"),
            PageTimeMismatch::BeyondHeader { .. } => (-625, "JET_errDbTimeBeyondMaxRequired"),
        }
    }

    /// Returns the mismatch of a page whose time is `found` instead of `expected`.
    pub(crate) fn new(found: DbTime, expected: DbTime) -> PageTimeMismatch {
        if found < expected || found.is_unwritten() {
            PageTimeMismatch::Older { found, expected }
        } else {
            PageTimeMismatch::Newer { found, expected }
        }
    }
}

/// Reason why the records of a macro contradict each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages describe the variants")]
pub enum MacroError {
    #[error("ends a macro that was not started")]
    NotStarted,
    #[error("has a different dbtime than its macro")]
    OtherTime,
    #[error("is outside a macro")]
    Outside,
    #[error("begins a merge without a record for the parent")]
    MergeOfEarlierVersion,
    #[error(transparent)]
    Misfit(#[from] PageMisfit),
    #[error("a merge has an unknown type")]
    MergeType,
    #[error("the records of a merge do not match")]
    Merge,
    #[error("the split of a parent does not have a line for the separator")]
    NoSeparatorLine,
    #[error("a split does not contain the change that needs the space")]
    NoIncomingChange,
    #[error("a record does not have a previous dbtime")]
    NoDbTime,
    #[error("a record does not have a previous dbtime, and its page was not split")]
    NoSplit,
}

impl MacroError {
    /// Returns true if only earlier versions of Jetcell wrote such records.
    pub(crate) fn is_of_earlier_version(self) -> bool {
        matches!(self, MacroError::OtherTime | MacroError::MergeOfEarlierVersion)
    }
}
