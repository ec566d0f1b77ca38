//! The kinds of findings: their names, which programs go by, and what each means for the data.

use serde::{Serialize, Serializer};

use crate::tree_label::table_of;

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $text:literal: $meaning:literal,)*) => {
        /// What sort of thing a finding is.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum FindingKind {
            $($(#[$doc])* $name,)*
        }

        impl FindingKind {
            /// All kinds.
            pub const ALL: &'static [FindingKind] = &[$(FindingKind::$name,)*];

            /// Its name in JSON.
            pub fn name(self) -> &'static str {
                match self {
                    $(FindingKind::$name => $text,)*
                }
            }

            /// What it means for the data, with `{}` for the place.
            fn template(self) -> &'static str {
                match self {
                    $(FindingKind::$name => $meaning,)*
                }
            }
        }
    };
}

kinds! {
    /// The file could not be read or understood at all.
    FileUnreadable = "file-unreadable": "nothing of the file could be checked",
    /// The database was not shut down cleanly.
    DirtyDatabase = "dirty-database": "committed data may be in the logs only; run recovery with the logs before judging the contents",
    /// Logs that recovery needs are not all there, or damaged.
    LogsIncomplete = "logs-incomplete": "recovery cannot bring the database to a consistent state with what is here",
    /// The first header copy is damaged, the second good.
    HeaderDamaged = "header-damaged": "no data is lost; the other copy of the header was used",
    /// The second header copy is damaged, the first good.
    ShadowHeaderDamaged = "shadow-header-damaged": "no data is lost; the spare copy of the header is",
    /// The copies are whole and differ.
    ShadowHeaderStale = "shadow-header-stale": "no data is lost; the newer copy of the header was used",
    /// The file is shorter than the space the database owns.
    FileTruncated = "file-truncated": "whatever the missing pages held is lost",
    /// Bytes behind the last whole page.
    TrailingBytes = "trailing-bytes": "no data is affected",
    /// One or more flipped bits that the checksum locates.
    PageRepairable = "page-repairable": "no data is lost; the damaged bit is known",
    /// Checksum mismatch. ESE: -1018.
    PageBadChecksum = "page-bad-checksum": "what the page holds{} is unreadable",
    /// Written for another place. ESE: -1118.
    PageWrongNumber = "page-wrong-number": "what the page should hold{} is lost; another page was written over it",
    /// Sound, but older than the flush map says. ESE: -1119.
    PageLostWrite = "page-lost-write": "the last change of the page{} never reached the disk; its rows are older ones",
    /// The operating system cannot read it.
    PageUnreadable = "page-unreadable": "what the page holds{} is unreadable",
    /// A tree needs a page that was never written. ESE: -1019.
    PageZero = "page-zero": "what the page should hold{} is lost",
    /// A tree needs a page behind the end of the file.
    PageBeyondFile = "page-beyond-file": "what the page should hold{} is lost",
    /// A tree uses a page that the database does not own.
    PageBeyondOwned = "page-beyond-owned": "the page may be given to something else and be overwritten",
    /// The inside of a page contradicts itself.
    PageLayout = "page-layout": "some of what the page holds{} may be unreadable",
    /// Flags of a page do not fit its place.
    PageFlags = "page-flags": "the page{} may be misread",
    /// A page carries the object id of another tree.
    PageObjectId = "page-object-id": "what the page should hold{} is lost or unreachable",
    /// A page is newer than the header allows.
    PageTime = "page-time": "recovery may skip changes to the page",
    /// A page is reached twice, or used by two trees.
    PageUsedTwice = "page-used-twice": "one of the two users of the page has lost what it held there",
    /// A link between neighbouring leaves is wrong.
    SiblingLink = "sibling-link": "scans{} end early, skip or repeat rows; look-ups by key still work",
    /// A separator in an internal page is wrong.
    Separator = "separator": "look-ups by key{} may miss rows; scans still find them",
    /// Keys are not in order.
    KeyOrder = "key-order": "look-ups by key{} may miss rows; scans still find them",
    /// Depth or levels of a tree are wrong, or it is cyclic.
    TreeShape = "tree-shape": "part of what is below{} is unreachable",
    /// A node cannot be decoded.
    NodeDamaged = "node-damaged": "one or more entries{} are unreadable",
    /// Nodes flagged deleted that were not removed yet.
    DeletedNodes = "deleted-nodes": "no data is affected; the space is not given back yet",
    /// A row of the catalog is wrong.
    CatalogRow = "catalog-row": "a table, column or index may be missing or misread",
    /// Catalog and shadow catalog differ.
    ShadowCatalog = "shadow-catalog": "no data is lost; the spare copy of the catalog cannot be relied on",
    /// A space header is wrong.
    SpaceHeader = "space-header": "data is readable; writing{} may damage it",
    /// An extent is owned or available twice, or available and in use.
    SpaceOverlap = "space-overlap": "data is readable; the next writes may overwrite it",
    /// A page is owned and nobody uses it.
    SpaceLeak = "space-leak": "no data is affected; the space is lost until the database is compacted",
    /// A page is used by another tree than its owner.
    SpaceOwner = "space-owner": "data is readable; the next writes may overwrite it",
    /// A record does not fit the catalog.
    RecordLayout = "record-layout": "1 row{} is unreadable or partly so",
    /// A record is not where its key columns say.
    RecordKey = "record-key": "look-ups by key{} miss the row; scans still find it",
    /// An index lacks the entry of a row.
    IndexEntryMissing = "index-entry-missing": "look-ups through the index miss a row; the row itself is there",
    /// An index has an entry no row asks for.
    IndexEntryOrphan = "index-entry-orphan": "look-ups through the index find a wrong row or none; rows are not affected",
    /// Rows that only indexes still know.
    RowsUnreadable = "rows-unreadable": "rows{} are unreadable",
    /// Reference count of a long value is wrong.
    LongValueReferences = "long-value-references": "the value is readable; it may be deleted too early or never",
    /// Size of a long value is wrong, or a chunk is missing.
    LongValueSize = "long-value-size": "one long value{} is unreadable or partly so",
    /// A record refers to a long value that is not there.
    LongValueMissing = "long-value-missing": "one value of one row{} is lost",
    /// A node of a long-value tree makes no sense.
    LongValueNode = "long-value-node": "one long value{} is unreadable or partly so",
    /// The header of a log is damaged.
    LogHeader = "log-header": "the log cannot be replayed",
    /// A log format this program does not read.
    LogVersion = "log-version": "the log was not checked",
    /// The file is longer or shorter than its header says.
    LogLength = "log-length": "records may be missing from the end of the log",
    /// A flipped bit in a segment that the checksum locates.
    LogSegmentRepairable = "log-segment-repairable": "no data is lost; the damaged bit is known",
    /// A damaged segment. ESE: -501.
    LogSegmentBad = "log-segment-bad": "changes from here on cannot be replayed",
    /// The last write was cut off.
    LogTorn = "log-torn": "nothing that was acknowledged is lost; recovery handles it",
    /// Content where the log has ended.
    LogAfterEnd = "log-after-end": "changes behind this place cannot be replayed",
    /// A log does not follow the one before it.
    LogChain = "log-chain": "replay has to end before this log",
    /// Generations are missing.
    LogMissing = "log-missing": "replay has to end before the gap",
    /// A log of another stream.
    LogForeign = "log-foreign": "the log cannot be replayed with the others",
    /// A copy of the checkpoint is damaged.
    CheckpointDamaged = "checkpoint-damaged": "no data is lost; recovery uses the other copy or reads all logs",
    /// The checkpoint does not fit the logs.
    CheckpointMismatch = "checkpoint-mismatch": "recovery would begin at the wrong place",
    /// The header of a flush map is damaged.
    FlushMapHeader = "flush-map-header": "no data is lost; lost writes cannot be noticed",
    /// A page of a flush map is damaged.
    FlushMapPage = "flush-map-page": "no data is lost; lost writes cannot be noticed for part of the database",
    /// More findings than are listed.
    Omitted = "omitted": "see the findings that are listed",
}

impl FindingKind {
    /// What it means for the data, in the tree called so.
    pub fn meaning(self, tree: Option<&str>) -> String {
        let place = match tree.map(|tree| (tree, table_of(tree))) {
            None => String::new(),
            Some((_, None)) => " of the database's space".to_owned(),
            Some((tree, Some(table))) if tree == table => format!(" of table {table}"),
            Some((tree, Some(_))) => format!(" of {tree}"),
        };
        self.template().replace("{}", &place)
    }
}

impl std::fmt::Display for FindingKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for FindingKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
