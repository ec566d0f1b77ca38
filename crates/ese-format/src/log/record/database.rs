//! Records about whole databases and about the log itself.

use super::node::fixed;
use crate::declare::layout;
use crate::header::BackupInfo;
use crate::layout::{Input, Layout, LayoutError};
use crate::log::parameters::EngineParameters;
use crate::{DatabaseIdInLog, DbTime, LogPosition, LogTime, PageNumber, Signature};

layout! {
    /// The engine starts: `1 parameters (567)   568 time (8)   576`.
    #[doc(alias = "LRINIT2")]
    pub struct Init {
        /// Settings of the engine.
        parameters: Box<EngineParameters>,
        /// Time of the start.
        time: LogTime,
    }
}

/// A database is created. The path is UTF-16 with a final NUL when [`CreateDb::UNICODE`] is set.
///
/// ```text
/// 1 session (2)   3 database (1)   4 options (4)   8 size limit (4)   12 signature (28)   40 path length (2)
/// 42 flags (1)   43 version (2) and update (2), only if flag 4   then path
/// ```
#[doc(alias = "LRCREATEDB")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateDb {
    /// Session.
    pub procid: u16,
    /// Number of the database from this record on.
    pub database: DatabaseIdInLog,
    /// Options of the call. ESE: `grbit`.
    pub options: u32,
    /// Largest size in pages; 0 for no limit.
    pub max_pages: u32,
    /// Signature of the database.
    pub signature: Signature,
    /// [`CreateDb::UNICODE`] and others, without the bit that says that `version` follows.
    pub flags: u8,
    /// Format version and update at creation.
    pub version: Option<(u16, u16)>,
    /// Path, see [`encode_path`](super::encode_path).
    pub path: Vec<u8>,
}

impl CreateDb {
    pub(super) const HAS_VERSION: u8 = 4;
    /// The path is UTF-16.
    pub const UNICODE: u8 = 8;
    /// The file may have holes.
    pub const SPARSE: u8 = 0x10;
}

impl Layout for CreateDb {
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
    /// The creation of a database is complete. Recovery can start from here with this database.
    #[doc(alias = "LRCREATEDBFINISH")]
    #[derive(Copy)]
    pub struct CreateDbFinish {
        /// Session.
        procid: u16,
        /// Database.
        database: DatabaseIdInLog,
    }
}

layout! {
    /// A database is attached.
    ///
    /// ```text
    /// 1 session (2)   3 database (1)   4 size limit (4)   8 consistent position (8)   16 signature (28)
    /// 44 log signature (28)   72 path length (2)   74 flags (1)   75 path
    /// ```
    #[doc(alias = "LRATTACHDB")]
    pub struct AttachDb {
        /// Session.
        procid: u16,
        /// Number of the database from this record on.
        database: DatabaseIdInLog,
        /// Largest size in pages; 0 for no limit.
        max_pages: u32,
        /// Log position of its last clean shutdown.
        consistent_position: LogPosition,
        /// Signature of the database.
        signature: Signature,
        /// Signature of the log stream to which `consistent_position` belongs.
        log_signature: Signature,
        [path: u16],
        /// [`AttachDb::UNICODE`] and others.
        flags: u8,
    } then {
        /// Path, see [`encode_path`](super::encode_path).
        path,
    }
}

impl AttachDb {
    /// The path is UTF-16.
    pub const UNICODE: u8 = 8;
    /// The file may have holes.
    pub const SPARSE: u8 = 0x10;
}

layout! {
    /// A database is detached: `1 session (2)   3 database (1)   4 path length (2)   6 flags (1)   7 path`.
    #[doc(alias = "LRDETACHDB")]
    pub struct DetachDb {
        /// Session.
        procid: u16,
        /// Database.
        database: DatabaseIdInLog,
        [path: u16],
        /// [`DetachDb::UNICODE`] and others.
        flags: u8,
    } then {
        /// Path, see [`encode_path`](super::encode_path).
        path,
    }
}

impl DetachDb {
    /// The path is UTF-16.
    pub const UNICODE: u8 = 0x10;
}

layout! {
    /// A database that recovery kept attached is attached again by the engine.
    #[doc(alias = "LRREATTACHDB")]
    #[derive(Copy)]
    pub struct ReAttachDb {
        /// Database.
        database: DatabaseIdInLog,
        /// Log position of the attach.
        attach_position: LogPosition,
        /// Log position of its last clean shutdown.
        consistent_position: LogPosition,
        /// Signature of the database.
        signature: Signature,
    }
}

layout! {
    /// Signals to other readers of the log that a database is attached.
    #[doc(alias = "LRSIGNALATTACHDB")]
    #[derive(Copy)]
    pub struct SignalAttachDb {
        /// Database.
        database: DatabaseIdInLog,
    }
}

layout! {
    /// The file grows.
    #[doc(alias = "LREXTENDDB")]
    #[derive(Copy)]
    pub struct ExtendDb {
        /// Database.
        database: DatabaseIdInLog,
        /// Last page afterwards.
        last: PageNumber,
    }
}

layout! {
    /// The file shrinks: `1 database (1)   2 last page (4)   6 pages (4)   10`.
    #[doc(alias = "LRSHRINKDB")]
    #[derive(Copy)]
    pub struct ShrinkDb {
        /// Database.
        database: DatabaseIdInLog,
        /// Last page afterwards.
        last: PageNumber,
        /// Pages cut off.
        count: u32,
    }
}

layout! {
    /// Like [`ShrinkDb`], with the dbtime of the shrink.
    #[doc(alias = "LRSHRINKDB3")]
    #[derive(Copy)]
    pub struct ShrinkDb3 {
        /// The shrink.
        shrink: ShrinkDb,
        /// dbtime of the shrink.
        db_time: DbTime,
    }
}

layout! {
    /// Free pages are returned to the file system (holes are punched): `1 database (1)   2 first page (4)   6 pages (4)   10`.
    #[doc(alias = "LRTRIMDB")]
    #[derive(Copy)]
    pub struct TrimDb {
        /// Database.
        database: DatabaseIdInLog,
        /// First page.
        first: PageNumber,
        /// Number of pages.
        count: u32,
    }
}

layout! {
    /// The format of a database is raised.
    #[doc(alias = "LRSETDBVERSION")]
    #[derive(Copy)]
    pub struct SetDbVersion {
        /// Database.
        database: DatabaseIdInLog,
        /// Version.
        version: u32,
        /// Update.
        update: u32,
        /// Update, minor.
        update_minor: u32,
    }
}

layout! {
    /// Result of a scan of a page, which copies of the database compare with theirs.
    #[doc(alias = "LRSCANCHECK")]
    #[derive(Copy)]
    pub struct ScanCheck {
        /// Database.
        database: DatabaseIdInLog,
        /// The page.
        page: PageNumber,
        /// Zero.
        unused: [u8; 16],
        /// dbtime of the page.
        page_db_time: DbTime,
        /// Highest dbtime of the database.
        current_db_time: DbTime,
        /// Folded logical checksum.
        checksum: u16,
    }
}

layout! {
    /// Like [`ScanCheck`]: `1 database (1)  2 page (4)  6 flags (1)  7 page dbtime (8)  15 current (8)  23 checksum (4)  27`.
    #[doc(alias = "LRSCANCHECK2")]
    #[derive(Copy)]
    pub struct ScanCheck2 {
        /// Database.
        database: DatabaseIdInLog,
        /// The page.
        page: PageNumber,
        /// Low two bits source of the scan, 0x40 empty page, 0x80 tree id not valid.
        flags: u8,
        /// dbtime of the page.
        page_db_time: DbTime,
        /// Highest dbtime of the database.
        current_db_time: DbTime,
        /// Logical checksum.
        checksum: u32,
    }
}

layout! {
    /// The active copy requests a valid copy of a page from the other copies.
    #[doc(alias = "LRPAGEPATCHREQUEST")]
    #[derive(Copy)]
    pub struct PagePatchRequest {
        /// Database.
        database: DatabaseIdInLog,
        /// The damaged page.
        page: PageNumber,
        /// dbtime of the request.
        db_time: DbTime,
        /// Zero.
        reserved: [u8; 32],
    }
}

impl ScanCheck2 {
    /// Bits of [`ScanCheck2::flags`]: what read the page.
    pub const SOURCE: u8 = 0x3;
    /// [`ScanCheck2::SOURCE`]: the maintenance scan.
    pub const SCAN: u8 = 1;
    /// [`ScanCheck2::SOURCE`]: the return of free space.
    pub const SHRINK: u8 = 2;
    /// Bit of [`ScanCheck2::flags`]: the page is not in use.
    pub const EMPTY_PAGE: u8 = 0x40;
    /// Bit of [`ScanCheck2::flags`]: the page is of no known tree.
    pub const UNKNOWN_TREE: u8 = 0x80;
    /// [`ScanCheck2::page`] of a record that ends a pass.
    #[doc(alias = "pgnoScanLastSentinel")]
    pub const END_OF_PASS: PageNumber = PageNumber::fixed(0xFFFF_FFFE);
}

impl Backup {
    /// [`Backup::phase`]: the backup begins.
    pub const BEGIN: u8 = 1;
    /// [`Backup::phase`]: all pages were read; the logs follow.
    pub const PREPARE_LOGS: u8 = 2;
    /// [`Backup::phase`]: logs below `details.gen_high` are removed.
    pub const TRUNCATE: u8 = 3;
    /// [`Backup::phase`]: the header of the database gets `details`.
    pub const UPDATE_HEADER: u8 = 4;
    /// [`Backup::phase`]: the backup was given up.
    pub const ABORT: u8 = 5;
    /// [`Backup::phase`]: the backup ended.
    pub const STOP: u8 = 6;
    /// [`Backup::kind`]: pages and logs are read.
    pub const STREAMING: u32 = 0;
    /// [`Backup::kind`]: pages and logs are in a snapshot.
    pub const SNAPSHOT: u32 = 1;
}

layout! {
    /// A step of a backup.
    ///
    /// ```text
    /// 1 phase (1)   2 kind (4)   6 scope (1)   7 database (1)   8 details (24)   32 zero (1)   33 length (2)   35 path
    /// ```
    #[doc(alias = "LRLOGBACKUP")]
    pub struct Backup {
        /// 1 begin, 2 prepare logs, 3 truncate, 4 header updated, 5 abort, 6 stop.
        phase: u8,
        /// 0 streaming, 1 and 2 snapshot, 3 surrogate.
        kind: u32,
        /// 1 full, 2 incremental, 5 copy, 6 differential.
        scope: u8,
        /// Database that is backed up.
        database: DatabaseIdInLog,
        /// Positions, time and generations.
        details: BackupInfo,
        /// Zero.
        reserved: u8,
        [path: u16],
    } then {
        /// Unused.
        path,
    }
}

layout! {
    /// A text in the log. As ForceLogRollover (61), it is the reason for a new generation.
    #[doc(alias = "LRTRACE")]
    pub struct Trace {
        /// Session.
        procid: u16,
        [text: u16],
    } then {
        /// The text.
        text,
    }
}

layout! {
    /// First piece of a record too long for the segment: `1 total length (4)   5 piece length (2)   7 piece`.
    #[doc(alias = "LRFRAGMENTBEGIN")]
    pub struct FragmentBegin {
        /// Length of the whole record.
        total: u32,
        [piece: u16],
    } then {
        /// First bytes of the record.
        piece,
    }
}

layout! {
    /// A further piece: `1 piece length (2)   3 piece`.
    #[doc(alias = "LRFRAGMENT")]
    pub struct Fragment {
        [piece: u16],
    } then {
        /// Next bytes of the record.
        piece,
    }
}

/// Pages that a macro changed, as a hint for read-ahead. Payload: `database (1), count (4), pages (4 each)`.
#[doc(alias = "LRMACROINFO2")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MacroInfo {
    /// Database.
    pub database: DatabaseIdInLog,
    /// The pages.
    pub pages: Vec<u32>,
}

impl Layout for MacroInfo {
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
    /// The space of a deleted tree may be reused.
    #[doc(alias = "LRFREEFDP")]
    #[derive(Copy)]
    pub struct FreeFdp {
        /// Database.
        database: DatabaseIdInLog,
        /// Its root page.
        root: PageNumber,
        /// Commit number of the deletion.
        commit0: u32,
        /// 1 table, 2 index.
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
    Backup = 35,
    Trace = 5,
    FragmentBegin = 7,
    Fragment = 3,
    SignalAttachDb = 2,
);
// Ignorable records have a length behind the type byte.
const _: () = assert!(
    ScanCheck::FIXED == 39 && ExtendDb::FIXED == 5 && ReAttachDb::FIXED == 45 && FreeFdp::FIXED == 10
);
