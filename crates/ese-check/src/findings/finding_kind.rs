//! Kinds of findings. Each kind has a stable name for use by programs, and a description of what it means for the
//! data.

use serde::{Serialize, Serializer};

use crate::findings::tree_label::table_name;

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $text:literal: $meaning:literal,)*) => {
        /// Kind of problem or state that a finding reports.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum FindingKind {
            $($(#[$doc])* $name,)*
        }

        impl FindingKind {
            /// All kinds of findings.
            pub const ALL: &'static [FindingKind] = &[$(FindingKind::$name,)*];

            /// Returns the name of the kind as used in JSON.
            pub fn name(self) -> &'static str {
                match self {
                    $(FindingKind::$name => $text,)*
                }
            }

            /// Returns a description of what the finding means for the data, with `{}` as a placeholder for the
            /// location.
            fn template(self) -> &'static str {
                match self {
                    $(FindingKind::$name => $meaning,)*
                }
            }
        }
    };
}

kinds! {
    /// The file could not be read or its format is unknown.
    FileUnreadable = "file-unreadable": "the file could not be checked",
    /// The database was not shut down cleanly.
    DirtyDatabase = "dirty-database": "committed data may exist only in the logs; before checking the \
     contents, recover the database with the logs: jetcell recover DATABASE LOGS --into recovered",
    /// Logs that recovery needs are missing or damaged.
    LogsIncomplete = "logs-incomplete": "the logs that were found are not enough to make the database consistent",
    /// The first header copy is damaged, but the second is good.
    HeaderDamaged = "header-damaged": "no data is lost; the other copy of the header was used",
    /// The second header copy is damaged, but the first is good.
    ShadowHeaderDamaged = "shadow-header-damaged": "no data is lost; only the spare copy of the header is damaged",
    /// Both header copies are valid but differ.
    ShadowHeaderStale = "shadow-header-stale": "no data is lost; the newer copy of the header was used",
    /// The file is shorter than the space that the database owns.
    FileTruncated = "file-truncated": "the data on the missing pages is lost",
    /// The format update of the database is newer than any update known to the check.
    FormatNewer = "format-newer": "the check knows only earlier formats and may report intact data as damaged",
    /// The file ends with a partial page.
    TrailingBytes = "trailing-bytes": "no data is affected",
    /// A page has a wrong checksum, but the checksum identifies the flipped bits.
    PageRepairable = "page-repairable": "no data is lost; the damaged bit is known",
    /// A page's checksum does not match its contents. ESE: -1018.
    PageBadChecksum = "page-bad-checksum": "the data{} on the page is unreadable",
    /// The page was written for a different location in the file. ESE: -1118.
    PageWrongNumber = "page-wrong-number": "the data{} that belongs on this page is lost, because another page was written over it",
    /// The page is sound but older than the flush map indicates. ESE: -1119.
    PageLostWrite = "page-lost-write": "the last write of the page{} never reached the disk; its rows are out of date",
    /// The operating system cannot read the page.
    PageUnreadable = "page-unreadable": "the data{} on the page is unreadable",
    /// A tree refers to a page that was never written. ESE: -1019.
    PageZero = "page-zero": "the data{} that belongs on this page is lost",
    /// A tree refers to a page beyond the end of the file.
    PageBeyondFile = "page-beyond-file": "the data{} that belongs on this page is lost",
    /// A tree uses a page that the database does not own.
    PageBeyondOwned = "page-beyond-owned": "the page may be allocated to another tree and overwritten",
    /// The tags, lengths or counts of a page contradict each other.
    PageLayout = "page-layout": "some of the data{} on the page may be unreadable",
    /// A page's flags do not match its place in the tree.
    PageFlags = "page-flags": "the page{} may be misread",
    /// A page has the object id of a different tree.
    PageObjectId = "page-object-id": "the data{} that belongs on this page is lost or unreachable",
    /// A page's dbtime is later than the header allows.
    PageTime = "page-time": "recovery may skip changes to the page",
    /// A page is reached twice or is used by two trees.
    PageUsedTwice = "page-used-twice": "one of the two owners of the page has lost its data there",
    /// A link between sibling leaves is wrong.
    SiblingLink = "sibling-link": "scans{} end early, skip or repeat rows; lookups by key still work",
    /// A separator in an internal page is wrong.
    Separator = "separator": "lookups by key{} may miss rows; scans still find them",
    /// The keys in a tree are not in order.
    KeyOrder = "key-order": "lookups by key{} may miss rows; scans still find them",
    /// The depth or levels of a tree are wrong, or the tree has a cycle.
    TreeShape = "tree-shape": "part of the data{} below this page is unreachable",
    /// A node cannot be decoded.
    NodeDamaged = "node-damaged": "one or more entries{} are unreadable",
    /// Nodes are flagged as deleted but not yet removed.
    DeletedNodes = "deleted-nodes": "no data is affected; the space of the nodes has not been freed yet",
    /// A row of the catalog is wrong.
    CatalogRow = "catalog-row": "a table, column or index may be missing or misread",
    /// The catalog and the shadow catalog differ.
    ShadowCatalog = "shadow-catalog": "no data is lost; do not rely on the spare copy of the catalog",
    /// A space header is wrong.
    SpaceHeader = "space-header": "data is readable, but writing{} may damage it",
    /// An extent is owned twice, available twice, or both available and in use.
    SpaceOverlap = "space-overlap": "data is readable, but the next writes may overwrite it",
    /// A page is owned but not in use.
    SpaceLeak = "space-leak": "no data is affected, but the space cannot be used until the database is compacted",
    /// A tree uses a page that another tree owns.
    SpaceOwner = "space-owner": "data is readable, but the next writes may overwrite it",
    /// A record does not match the catalog.
    RecordLayout = "record-layout": "one row{} is partly or completely unreadable",
    /// A record's key differs from the key that its columns produce.
    RecordKey = "record-key": "lookups by key{} miss the row; scans still find it",
    /// An index has no entry for a row.
    IndexEntryMissing = "index-entry-missing": "lookups through the index miss a row, but the row itself exists",
    /// An index has an entry without a matching row.
    IndexEntryOrphan = "index-entry-orphan": "lookups through the index may return a wrong row or no row; \
     the rows themselves are not affected",
    /// Some rows are known only from their index entries.
    RowsUnreadable = "rows-unreadable": "rows{} are unreadable",
    /// The reference count of a long value is wrong.
    LongValueReferences = "long-value-references": "the value is readable, but it may be deleted too early or never",
    /// The size of a long value is wrong, or a chunk is missing.
    LongValueSize = "long-value-size": "one long value{} is partly or completely unreadable",
    /// A record refers to a long value that does not exist.
    LongValueMissing = "long-value-missing": "the long value{} is lost",
    /// Parts of long values are on unreadable pages.
    ValuesUnreadable = "values-unreadable": "long values{} of readable rows are partly or completely lost",
    /// A node of a long-value tree cannot be decoded.
    LongValueNode = "long-value-node": "one long value{} is partly or completely unreadable",
    /// The header of a log is damaged.
    LogHeader = "log-header": "the log cannot be replayed",
    /// The program does not support this log format.
    LogVersion = "log-version": "the log was not checked",
    /// A log file is longer or shorter than its header says.
    LogLength = "log-length": "records may be missing from the end of the log",
    /// A segment has a single flipped bit, which its checksum identifies.
    LogSegmentRepairable = "log-segment-repairable": "no data is lost; the damaged bit is known",
    /// A segment is damaged. ESE: -501.
    LogSegmentBad = "log-segment-bad": "changes from here on cannot be replayed",
    /// The last write to a log was torn.
    LogTorn = "log-torn": "no acknowledged data is lost; recovery handles it",
    /// There are segments after the end of the log.
    LogAfterEnd = "log-after-end": "changes after this position cannot be replayed",
    /// A log is not the successor of the previous log.
    LogChain = "log-chain": "replay must end before this log",
    /// One or more generations of the log are missing.
    LogMissing = "log-missing": "replay must end before the gap",
    /// The log belongs to another log stream.
    LogForeign = "log-foreign": "recovery cannot use this log together with the other logs or with the database",
    /// A copy of the checkpoint is damaged.
    CheckpointDamaged = "checkpoint-damaged": "no data is lost; recovery uses the other copy or reads all logs",
    /// The checkpoint does not match the logs.
    CheckpointMismatch = "checkpoint-mismatch": "recovery would start at the wrong position",
    /// The header of a flush map is damaged.
    FlushMapHeader = "flush-map-header": "no data is lost, but lost writes cannot be detected",
    /// A page of a flush map is damaged.
    FlushMapPage = "flush-map-page": "no data is lost, but lost writes cannot be detected in part of the database",
    /// There are more findings than the report lists.
    Omitted = "omitted": "see the listed findings",
}

impl FindingKind {
    /// Describes what the finding means for the data in the tree with this name.
    pub fn meaning(self, tree: Option<&str>) -> String {
        let place = match tree.map(|tree| (tree, table_name(tree))) {
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
