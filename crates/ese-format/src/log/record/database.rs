//! Log records that concern whole databases or the log itself.

use super::node::fixed;
use crate::declare::layout;
use crate::header::BackupInfo;
use crate::layout::{BinaryLayout, Input, LayoutError};
use crate::log::parameters::EngineParameters;
use crate::{DatabaseIdInLog, DbTime, LogPosition, LogTime, PageNumber, Signature};

layout! {
    /// Log record written when the engine starts. Layout: `1 parameters (567)   568 time (8)   576`.
    #[doc(alias = "LRINIT2")]
    pub struct Init {
        /// Settings of the engine.
        parameters: Box<EngineParameters>,
        /// Time of the start.
        time: LogTime,
    }
}

/// Log record for the creation of a database. If [`CreateDb::UNICODE`] is set, the path is UTF-16 with a final NUL.
///
/// ```text
/// 1 session (2)   3 database (1)   4 options (4)   8 size limit (4)   12 signature (28)   40 path length (2)
/// 42 flags (1)   43 version (2) and update (2), only if flag 4   then path
/// ```
#[doc(alias = "LRCREATEDB")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateDb {
    /// Session that wrote the record.
    pub procid: u16,
    /// Number that identifies the database in the log from this record on.
    pub database: DatabaseIdInLog,
    /// Options of the call. ESE: `grbit`.
    pub options: u32,
    /// Maximum size of the database in pages; 0 means no limit.
    pub max_pages: u32,
    /// Signature of the database.
    pub signature: Signature,
    /// Flags: [`CreateDb::UNICODE`] and others. Does not include the bit that indicates whether `version` is present.
    pub flags: u8,
    /// Format version and update of the new database.
    pub version: Option<(u16, u16)>,
    /// Path of the database; see [`encode_path`](super::encode_path).
    pub path: Vec<u8>,
}

impl CreateDb {
    pub(super) const HAS_VERSION: u8 = 4;
    /// The path is encoded as UTF-16.
    pub const UNICODE: u8 = 8;
    /// The file may be sparse.
    pub const SPARSE: u8 = 0x10;
}

impl BinaryLayout for CreateDb {
    const FIXED: usize = 42;

    fn put(&self, out: &mut Vec<u8>) {
        self.procid.put(out);
        self.database.put(out);
        self.options.put(out);
        self.max_pages.put(out);
        self.signature.put(out);
        <u16 as crate::layout::LengthField>::put_len(self.path.len(), out);
        let has_version = if self.version.is_some() { CreateDb::HAS_VERSION } else { 0 };
        ((self.flags & !CreateDb::HAS_VERSION) | has_version).put(out);
        if let Some((version, update)) = self.version {
            version.put(out);
            update.put(out);
        }
        out.extend_from_slice(&self.path);
    }

    fn take(input: &mut Input<'_>) -> Result<Self, LayoutError> {
        let (procid, database) = (u16::take(input)?, DatabaseIdInLog::take(input)?);
        let (options, max_pages) = (u32::take(input)?, u32::take(input)?);
        let signature = Signature::take(input)?;
        let (len, flags) = (u16::take(input)?, u8::take(input)?);
        let version = match flags & CreateDb::HAS_VERSION {
            0 => None,
            _ => Some((u16::take(input)?, u16::take(input)?)),
        };
        let flags = flags & !CreateDb::HAS_VERSION;
        let path = input.bytes(usize::from(len))?.to_vec();
        Ok(CreateDb { procid, database, options, max_pages, signature, flags, version, path })
    }

    fn payload_len(input: &mut Input<'_>) -> Result<usize, LayoutError> {
        input.bytes(Self::FIXED - 3)?;
        let (len, flags) = (u16::take(input)?, u8::take(input)?);
        Ok(usize::from(len) + usize::from(flags & CreateDb::HAS_VERSION))
    }
}

layout! {
    /// Log record that marks the end of a database creation. Recovery of the database can start here.
    #[doc(alias = "LRCREATEDBFINISH")]
    #[derive(Copy)]
    pub struct CreateDbFinish {
        /// Session that wrote the record.
        procid: u16,
        /// Database to which the record applies.
        database: DatabaseIdInLog,
    }
}

layout! {
    /// Log record written when a database is attached.
    ///
    /// ```text
    /// 1 session (2)   3 database (1)   4 size limit (4)   8 consistent position (8)   16 signature (28)
    /// 44 log signature (28)   72 path length (2)   74 flags (1)   75 path
    /// ```
    #[doc(alias = "LRATTACHDB")]
    pub struct AttachDb {
        /// Session that wrote the record.
        procid: u16,
        /// Number that identifies the database in the log from this record on.
        database: DatabaseIdInLog,
        /// Maximum size of the database in pages; 0 means no limit.
        max_pages: u32,
        /// Log position of the database's last clean shutdown.
        consistent_position: LogPosition,
        /// Signature of the database.
        signature: Signature,
        /// Signature of the log stream to which `consistent_position` belongs.
        log_signature: Signature,
        [path: u16],
        /// Flags: [`AttachDb::UNICODE`] and others.
        flags: u8,
    } then {
        /// Path of the database; see [`encode_path`](super::encode_path).
        path,
    }
}

impl AttachDb {
    /// The path is encoded as UTF-16.
    pub const UNICODE: u8 = 8;
    /// The file may be sparse.
    pub const SPARSE: u8 = 0x10;
}

layout! {
    /// Log record written when a database is detached.
    ///
    /// ```text
    /// 1 session (2)   3 database (1)   4 path length (2)   6 flags (1)   7 path
    /// ```
    #[doc(alias = "LRDETACHDB")]
    pub struct DetachDb {
        /// Session that wrote the record.
        procid: u16,
        /// Database to which the record applies.
        database: DatabaseIdInLog,
        [path: u16],
        /// Flags: [`DetachDb::UNICODE`] and others.
        flags: u8,
    } then {
        /// Path of the database; see [`encode_path`](super::encode_path).
        path,
    }
}

impl DetachDb {
    /// The path is encoded as UTF-16.
    pub const UNICODE: u8 = 0x10;
}

layout! {
    /// Log record written when a database that recovery left attached is attached again.
    #[doc(alias = "LRREATTACHDB")]
    #[derive(Copy)]
    pub struct ReAttachDb {
        /// Database to which the record applies.
        database: DatabaseIdInLog,
        /// Log position of the attach record.
        attach_position: LogPosition,
        /// Log position of the database's last clean shutdown.
        consistent_position: LogPosition,
        /// Signature of the database.
        signature: Signature,
    }
}

layout! {
    /// Log record that announces an attached database to other readers of the log.
    #[doc(alias = "LRSIGNALATTACHDB")]
    #[derive(Copy)]
    pub struct SignalAttachDb {
        /// Database to which the record applies.
        database: DatabaseIdInLog,
    }
}

layout! {
    /// Log record written when the database file is extended.
    #[doc(alias = "LREXTENDDB")]
    #[derive(Copy)]
    pub struct ExtendDb {
        /// Database to which the record applies.
        database: DatabaseIdInLog,
        /// Last page of the file after the extension.
        last: PageNumber,
    }
}

layout! {
    /// Log record written when the database file is shrunk. Layout: `1 database (1)   2 last page (4)   6 pages (4)
    /// 10`.
    #[doc(alias = "LRSHRINKDB")]
    #[derive(Copy)]
    pub struct ShrinkDb {
        /// Database to which the record applies.
        database: DatabaseIdInLog,
        /// Last page of the file after the shrink.
        last: PageNumber,
        /// Number of pages removed from the end of the file.
        count: u32,
    }
}

layout! {
    /// Log record written when the database file is shrunk, including the dbtime. See also [`ShrinkDb`].
    #[doc(alias = "LRSHRINKDB3")]
    #[derive(Copy)]
    pub struct ShrinkDb3 {
        /// Description of the shrink.
        shrink: ShrinkDb,
        /// dbtime at the time of the shrink.
        db_time: DbTime,
    }
}

layout! {
    /// Log record written when free pages are returned to the file system (hole punching).
    ///
    /// ```text
    /// 1 database (1)   2 first page (4)   6 pages (4)   10
    /// ```
    #[doc(alias = "LRTRIMDB")]
    #[derive(Copy)]
    pub struct TrimDb {
        /// Database to which the record applies.
        database: DatabaseIdInLog,
        /// First page of the range.
        first: PageNumber,
        /// Number of pages.
        count: u32,
    }
}

layout! {
    /// Log record written when the format version of a database is upgraded.
    #[doc(alias = "LRSETDBVERSION")]
    #[derive(Copy)]
    pub struct SetDbVersion {
        /// Database to which the record applies.
        database: DatabaseIdInLog,
        /// Format version.
        version: u32,
        /// Format update, major.
        update: u32,
        /// Format update, minor.
        update_minor: u32,
    }
}

layout! {
    /// Log record that stores the result of a page scan. Other copies of the database compare it with their own
    /// result.
    #[doc(alias = "LRSCANCHECK")]
    #[derive(Copy)]
    pub struct ScanCheck {
        /// Database to which the record applies.
        database: DatabaseIdInLog,
        /// Page that was scanned.
        page: PageNumber,
        /// Reserved; always zero.
        unused: [u8; 16],
        /// dbtime of the scanned page.
        page_db_time: DbTime,
        /// Highest dbtime of the database.
        current_db_time: DbTime,
        /// Logical checksum of the page, folded to 16 bits.
        checksum: u16,
    }
}

layout! {
    /// Log record that stores the result of a page scan, in a newer form than [`ScanCheck`].
    ///
    /// ```text
    /// 1 database (1)   2 page (4)   6 flags (1)   7 page dbtime (8)   15 current (8)   23 checksum (4)   27
    /// ```
    #[doc(alias = "LRSCANCHECK2")]
    #[derive(Copy)]
    pub struct ScanCheck2 {
        /// Database to which the page belongs.
        database: DatabaseIdInLog,
        /// Page that was scanned.
        page: PageNumber,
        /// Flags: the low two bits are the source of the scan, 0x40 means that the page is empty, and 0x80 means that
        /// the tree id is not valid.
        flags: u8,
        /// dbtime of the scanned page.
        page_db_time: DbTime,
        /// Highest dbtime of the database.
        current_db_time: DbTime,
        /// Logical checksum of the page, folded to 32 bits.
        checksum: u32,
    }
}

layout! {
    /// Log record in which the active copy of a database asks the other copies for a valid copy of a page.
    #[doc(alias = "LRPAGEPATCHREQUEST")]
    #[derive(Copy)]
    pub struct PagePatchRequest {
        /// Database to which the record applies.
        database: DatabaseIdInLog,
        /// The damaged page.
        page: PageNumber,
        /// dbtime at the time of the request.
        db_time: DbTime,
        /// Reserved; always zero.
        reserved: [u8; 32],
    }
}

impl ScanCheck2 {
    /// Mask for the source of the scan in [`ScanCheck2::flags`].
    pub const SOURCE: u8 = 0x3;
    /// Source in [`ScanCheck2::SOURCE`]: the maintenance scan read the page.
    pub const SCAN: u8 = 1;
    /// Source in [`ScanCheck2::SOURCE`]: the page was read by a file shrink.
    pub const SHRINK: u8 = 2;
    /// Bit in [`ScanCheck2::flags`] that is set if the page is not in use.
    pub const EMPTY_PAGE: u8 = 0x40;
    /// Bit in [`ScanCheck2::flags`] that is set if the page does not belong to a known tree.
    pub const UNKNOWN_TREE: u8 = 0x80;
    /// Value of [`ScanCheck2::page`] in a record that marks the end of a pass.
    #[doc(alias = "pgnoScanLastSentinel")]
    pub const END_OF_PASS: PageNumber = PageNumber::fixed(0xFFFF_FFFE);
}

impl BackupRecord {
    /// Value of [`BackupRecord::phase`]: the backup begins.
    pub const BEGIN: u8 = 1;
    /// Value of [`BackupRecord::phase`]: all pages have been read, and the logs are read next.
    pub const PREPARE_LOGS: u8 = 2;
    /// Value of [`BackupRecord::phase`]: logs before `details.gen_high` are removed.
    pub const TRUNCATE: u8 = 3;
    /// Value of [`BackupRecord::phase`]: `details` is stored in the database header.
    pub const UPDATE_HEADER: u8 = 4;
    /// Value of [`BackupRecord::phase`]: the backup was aborted.
    pub const ABORT: u8 = 5;
    /// Value of [`BackupRecord::phase`]: the backup ended.
    pub const STOP: u8 = 6;
    /// Value of [`BackupRecord::kind`]: pages and logs are read.
    pub const STREAMING: u32 = 0;
    /// Value of [`BackupRecord::kind`]: pages and logs are captured in a snapshot.
    pub const SNAPSHOT: u32 = 1;
}

layout! {
    /// Log record of one step of a backup.
    ///
    /// ```text
    /// 1 phase (1)   2 kind (4)   6 scope (1)   7 database (1)   8 details (24)   32 zero (1)
    /// 33 length (2)   35 path
    /// ```
    #[doc(alias = "LRLOGBACKUP")]
    pub struct BackupRecord {
        /// Step of the backup: 1 begin, 2 prepare logs, 3 truncate, 4 header updated, 5 abort, 6 stop.
        phase: u8,
        /// Kind of backup: 0 streaming, 1 and 2 snapshot, 3 surrogate.
        kind: u32,
        /// Scope of the backup: 1 full, 2 incremental, 5 copy, 6 differential.
        scope: u8,
        /// Database that is being backed up.
        database: DatabaseIdInLog,
        /// Position, time, and generations of the backup.
        details: BackupInfo,
        /// Reserved; always zero.
        reserved: u8,
        [path: u16],
    } then {
        /// Path; not used.
        path,
    }
}

layout! {
    /// Log record that contains a text message. In a `ForceLogRollover` record (61), the text is the reason for
    /// starting a new generation.
    #[doc(alias = "LRTRACE")]
    pub struct Trace {
        /// Session that wrote the record.
        procid: u16,
        [text: u16],
    } then {
        /// Text of the message.
        text,
    }
}

layout! {
    /// First fragment of a log record that is too long for one segment.
    ///
    /// ```text
    /// 1 total length (4)   5 piece length (2)   7 piece
    /// ```
    #[doc(alias = "LRFRAGMENTBEGIN")]
    pub struct FragmentBegin {
        /// Total length of the record.
        total: u32,
        [piece: u16],
    } then {
        /// First bytes of the record.
        piece,
    }
}

layout! {
    /// Next fragment of a log record that is too long for one segment. Layout:
    /// `1 piece length (2)   3 piece`.
    #[doc(alias = "LRFRAGMENT")]
    pub struct Fragment {
        [piece: u16],
    } then {
        /// Next bytes of the record.
        piece,
    }
}

/// Log record that lists the pages changed by a macro, as a read-ahead hint.
///
/// The payload is `database (1), count (4), pages (4 each)`.
#[doc(alias = "LRMACROINFO2")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MacroInfo {
    /// Database to which the record applies.
    pub database: DatabaseIdInLog,
    /// Numbers of the changed pages.
    pub pages: Vec<u32>,
}

impl BinaryLayout for MacroInfo {
    const FIXED: usize = 5;

    fn put(&self, out: &mut Vec<u8>) {
        self.database.put(out);
        <u32 as crate::layout::LengthField>::put_len(self.pages.len(), out);
        self.pages.iter().for_each(|page| page.put(out));
    }

    fn take(input: &mut Input<'_>) -> Result<Self, LayoutError> {
        let database = DatabaseIdInLog::take(input)?;
        let count = u32::take(input)? as usize;
        let bytes = input.bytes(count.saturating_mul(4))?;
        let pages = bytes.as_chunks::<4>().0.iter().map(|page| u32::from_le_bytes(*page)).collect();
        Ok(MacroInfo { database, pages })
    }
}

layout! {
    /// Log record written when the space of a deleted tree may be reused.
    #[doc(alias = "LRFREEFDP")]
    #[derive(Copy)]
    pub struct FreeFdp {
        /// Database to which the record applies.
        database: DatabaseIdInLog,
        /// Root page of the deleted tree.
        root: PageNumber,
        /// Commit number of the transaction that deleted the tree.
        commit0: u32,
        /// Kind of the tree: 1 table, 2 index.
        kind: u8,
    }
}

fixed!(
    Init = 576,
    CreateDb = 43,
    CreateDbFinish = 4,
    AttachDb = 75,
    DetachDb = 7,
    ShrinkDb = 10,
    ShrinkDb3 = 18,
    TrimDb = 10,
    SetDbVersion = 14,
    ScanCheck2 = 27,
    PagePatchRequest = 46,
    BackupRecord = 35,
    Trace = 5,
    FragmentBegin = 7,
    Fragment = 3,
    SignalAttachDb = 2,
);
// Ignorable records have a length after the type byte.
const _: () = assert!(
    ScanCheck::FIXED == 39 && ExtendDb::FIXED == 5 && ReAttachDb::FIXED == 45 && FreeFdp::FIXED == 10
);
