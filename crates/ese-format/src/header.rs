//! The database header: the first page of the file. The second page is a copy of it, the shadow.
//!
//! ```text
//!   0  checksum      4  magic       8  version     12  attribute   16  highest dbtime   24  database signature
//!  52  state        56  consistent 72  attach      88  detach     104  database id     108  log signature
//! 136  backups     208  flags     212  last tree  216  OS version 232  update          236  page size
//! 240  repair      280  scrub     296  generations required       316  more backups    368  fault counters
//! 416  committed   508  sort      516  scan       536  recovering 540  resize history  584  flush signatures
//! 640  consistent generation      644  minor      656  resize     667  file type       672  later additions
//! 748  zero to the end of the page
//! ```
//!
//! Invariants: the checksum covers the whole page. `encode(decode(x)) == x` for every valid page, including unknown
//! trailing bytes. The engine decides which actions a state allows.

use crate::checksum::{header_checksum, u32_at};
use crate::declare::{layout, layout_enum};
use crate::fields::{self, Fields};
use crate::layout::{BinaryLayout, Input, LayoutError};
use crate::{DbTime, Generation, LogPosition, LogTime, PageSize, Signature, TreeId};

/// Format version, which has not changed in 20 years. ESE: `ulDAEVersion`.
pub const DATABASE_VERSION: u32 = 0x620;
/// Format update that Jetcell writes, which is the latest that all known readers accept.
pub const DATABASE_UPDATE: u32 = 20;
/// Newest format update known to this crate. Newer updates may contain unknown records and log records.
pub const NEWEST_DATABASE_UPDATE: u32 = 0x12C;
/// Magic number in the second word of a database header.
pub const DATABASE_MAGIC: u32 = 0x89AB_CDEF;
/// File type of a database, at byte 667 of every ESE header.
pub const FILE_TYPE_DATABASE: u32 = 1;

/// Length in bytes of the checksum and the magic number, which precede the fields.
const PREFIX_LEN: usize = 8;
/// Number of bytes in a header page that have a defined meaning.
pub const DATABASE_HEADER_LEN: usize = PREFIX_LEN + <DatabaseHeader as BinaryLayout>::FIXED;
const PAGE_SIZE_AT: usize = 236;
const _: () = assert!(DATABASE_HEADER_LEN == 748);

layout_enum! {
    /// State in which a database was last closed. ESE: `dbstate`.
    #[doc(alias = "dbstate")]
    pub enum DatabaseState: u32, "database state" {
        /// Creation of the database did not finish. The file contains no usable data.
        JustCreated = 1,
        /// The database is attached, or was not detached properly. Recovery needs the logs
        /// `gen_min_required..=gen_max_required`.
        DirtyShutdown = 2,
        /// The database is consistent without any log.
        CleanShutdown = 3,
        /// A format upgrade was in progress when the database was closed.
        BeingConverted = 4,
        /// The database was detached after a media error.
        ForceDetach = 5,
        /// Pages were patched, and the database needs recovery.
        IncrementalReseedInProgress = 6,
        /// Pages were patched, and the database needs recovery.
        DirtyAndPatchedShutdown = 7,
        /// A revert to a snapshot was in progress.
        RevertInProgress = 8,
    }
}

layout! {
    /// Description of one backup in the database header. ESE: `BKINFO`.
    ///
    /// ```text
    /// 0 log position   8 time   16 lowest generation   20 highest generation
    /// ```
    #[doc(alias = "BKINFO")]
    #[derive(Copy, Default)]
    pub struct BackupInfo {
        /// Log position of the backup.
        position: LogPosition,
        /// Time of the backup.
        time: LogTime,
        /// First log generation in the backup.
        gen_low: Generation,
        /// Last log generation in the backup.
        gen_high: Generation,
    }
}

layout! {
    /// Counter of one kind of event, as stored in a database header. ESE: `ulEcFix...`, `logtimeEcFix...`.
    ///
    /// ```text
    /// 0 count   4 last time   12 count before the last reset of the counters
    /// ```
    #[derive(Copy, Default)]
    pub struct FaultCounter {
        /// Number of occurrences since the last full backup or repair.
        count: u32,
        /// Time of the last occurrence.
        last: LogTime,
        /// Number of occurrences before the last full backup or repair.
        old_count: u32,
    }
}

layout! {
    /// Fields of a database header page in file order, from byte 8.
    #[doc(alias = "DBFILEHDR")]
    pub struct DatabaseHeader {
        /// Format version; see [`DATABASE_VERSION`]. ESE: `le_ulVersion`.
        version: u32,
        /// File attribute; 0 for databases.
        attribute: u32,
        /// Highest dbtime assigned so far. No page has a higher dbtime. ESE: `le_dbtimeDirtied`.
        db_time: DbTime,
        /// Signature of the database. ESE: `signDb`.
        signature: Signature,
        /// State in which the database was last closed.
        state: DatabaseState,
        /// Log position up to which the file was consistent when it was last detached. ESE: `lgposConsistent`.
        consistent_position: LogPosition,
        /// Time of the detach at `consistent_position`.
        consistent_time: LogTime,
        /// Time of the last attach.
        attach_time: LogTime,
        /// Log position of the attach record. ESE: `lgposAttach`.
        attach_position: LogPosition,
        /// Time of the last detach.
        detach_time: LogTime,
        /// Log position of the detach record. ESE: `lgposDetach`.
        detach_position: LogPosition,
        /// Database id in the log. ESE: `dbid`.
        database_id: u32,
        /// Signature of the log stream. ESE: `signLog`.
        log_signature: Signature,
        /// Last full backup.
        full_backup: BackupInfo,
        /// Last incremental backup.
        incremental_backup: BackupInfo,
        /// Full backup that is in progress.
        current_full_backup: BackupInfo,
        /// Upgrade and engine flags.
        flags: u32,
        /// Highest tree id in use. ESE: `objidLast`.
        last_tree: TreeId,
        /// Major version of the operating system that last attached the database.
        os_major: u32,
        /// Minor version of the operating system that last attached the database.
        os_minor: u32,
        /// Build number of the operating system that last attached the database.
        os_build: u32,
        /// Service pack of the operating system that last attached the database.
        os_service_pack: u32,
        /// Format update, major. ESE: `ulUpdateMajor`.
        update: u32,
        /// Page size of the database.
        page_size: PageSize,
        /// Number of times the database was repaired.
        repair_count: u32,
        /// Time of the last repair.
        repair_time: LogTime,
        /// Signature of the streaming file, which is obsolete.
        streaming_signature: Signature,
        /// dbtime at the end of the last zeroing pass.
        scrub_db_time: DbTime,
        /// Time at which the last zeroing pass ended.
        scrub_time: LogTime,
        /// Oldest log generation that recovery needs; 0 if the database is clean. ESE: `lGenMinRequired`.
        gen_min_required: Generation,
        /// Newest log generation that must be replayed; 0 if the database is clean. ESE: `lGenMaxRequired`.
        gen_max_required: Generation,
        /// Number of pages left to upgrade, and other obsolete counters.
        upgrade_counters: [u8; 12],
        /// Snapshot backup that is in progress.
        current_snapshot: BackupInfo,
        /// Format version that the database was created with.
        created_version: u32,
        /// Format update that the database was created with.
        created_update: u32,
        /// Creation time of generation `gen_max_committed`.
        gen_max_committed_time: LogTime,
        /// Kind of the last full backup.
        full_backup_type: u32,
        /// Kind of the last incremental backup.
        incremental_backup_type: u32,
        /// Number of repairs before the last counter reset.
        old_repair_count: u32,
        /// Counter of corrected single-bit errors.
        bits_fixed: FaultCounter,
        /// Counter of errors that could not be corrected.
        bits_not_fixed: FaultCounter,
        /// Counter of pages with bad checksums.
        bad_checksums: FaultCounter,
        /// Newest generation that may contain durable commits; 0 if the database is clean. ESE: `lGenMaxCommitted`.
        gen_max_committed: Generation,
        /// Last copy backup.
        copy_backup: BackupInfo,
        /// Last differential backup.
        differential_backup: BackupInfo,
        /// Kind of the last copy backup.
        copy_backup_type: u32,
        /// Kind of the last differential backup.
        differential_backup_type: u32,
        /// Counter of incremental reseeds.
        reseeds: FaultCounter,
        /// Counter of pages that were patched from another copy.
        patches: FaultCounter,
        /// Version of the Unicode sort tables. All ones means that `MSysLocales` stores the version.
        sort_version: u64,
        /// Time at which the last full scan ended.
        scan_end_time: LogTime,
        /// Time at which the current scan started.
        scan_start_time: LogTime,
        /// Last page reached by the current scan; 0 if none.
        scanned_to: u32,
        /// Log generation that is being recovered.
        gen_recovering: Generation,
        /// Number of times the file was extended.
        extend_count: u32,
        /// Time at which the file was last extended.
        extend_time: LogTime,
        /// Number of times the file was shrunk.
        shrink_count: u32,
        /// Time at which the file was last shrunk.
        shrink_time: LogTime,
        /// Time of the last attach that recovery kept in effect.
        reattach_time: LogTime,
        /// Log position of the attach at `reattach_time`.
        reattach_position: LogPosition,
        /// Number of times that free pages were returned to the file system (holes were punched).
        trim_count: u32,
        /// Signature that changes each time this header is written. ESE: `signDbHdrFlush`.
        flush_signature: Signature,
        /// Signature of the flush map that belongs to this header. ESE: `signFlushMapHdrFlush`.
        flush_map_signature: Signature,
        /// Oldest log generation needed if the flush map is valid; 0 if the database is clean. ESE:
        /// `lGenMinConsistent`.
        gen_min_consistent: Generation,
        /// Format update, minor.
        update_minor: u32,
        /// Highest engine format version among the engines that have attached the database.
        last_engine_version: u32,
        /// Highest page read by a scan; 0 if none.
        scanned_highest: u32,
        /// Log position of the last change to the file size.
        resize_position: LogPosition,
        /// Reserved; always zero.
        reserved: [u8; 3],
        /// File type, [`FILE_TYPE_DATABASE`]. This is the only unaligned field.
        file_type: u32,
        /// Reserved; always zero.
        reserved_2: u8,
        /// Creation time of generation `gen_max_required`.
        gen_max_required_time: LogTime,
        /// Value of `gen_min_consistent` before redo.
        before_redo_consistent: Generation,
        /// Value of `gen_min_required` before redo.
        before_redo_required: Generation,
        /// Signature of the revert snapshot that belongs to this header.
        revert_signature: Signature,
        /// Number of reverts.
        revert_count: u32,
        /// Start of the period covered by the last revert.
        revert_from: LogTime,
        /// End of the period covered by the last revert.
        revert_to: LogTime,
        /// Number of pages that the last revert changed.
        reverted_pages: u32,
        /// Log position of the last commit before the last revert.
        revert_commit_position: LogPosition,
        /// Bytes from offset 748 on, which are zero in known formats.
        unknown: Vec<u8>,
    }
}

/// Error returned when a page cannot be decoded as a database header.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// The magic number or the file type is wrong.
    #[error("the file is not an ESE database (magic {magic:#010x}, file type {file_type})")]
    NotADatabase {
        /// Magic number found in bytes 4..8.
        magic: u32,
        /// File type found in bytes 667..671.
        file_type: u32,
    },
    /// The stored checksum does not match the contents.
    #[error("the header checksum is {stored:08x}, expected {computed:08x}")]
    BadChecksum {
        /// Checksum stored in the page.
        stored: u32,
        /// Checksum computed from the page.
        computed: u32,
    },
    /// This crate does not know the format version.
    #[error("unknown database format {version:#x}, update {update}")]
    UnknownVersion {
        /// Format version of the header.
        version: u32,
        /// Format update of the header.
        update: u32,
    },
    /// The input is shorter than a header page.
    #[error("the header needs {needed} bytes, but only {available} are available")]
    Truncated {
        /// Length of a header page in bytes.
        needed: usize,
        /// Length of the input in bytes.
        available: usize,
    },
    /// The page size is not supported; see [`PageSize`].
    #[error("invalid page size {0}")]
    PageSize(u32),
    /// A field has an invalid value.
    #[error("invalid {0} in the header")]
    Field(&'static str),
}

impl From<LayoutError> for HeaderError {
    fn from(error: LayoutError) -> HeaderError {
        match error {
            LayoutError::Truncated { needed, available } => HeaderError::Truncated { needed, available },
            LayoutError::Invalid(what) => HeaderError::Field(what),
        }
    }
}

/// Which of the two copies of a database header are valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderCopies {
    /// Both copies are valid and equal.
    Both,
    /// Both copies are valid but differ, because of a crash between the two writes. The first copy is newer.
    ShadowStale,
    /// The shadow is damaged.
    FirstOnly,
    /// The first copy is damaged.
    ShadowOnly,
}

fn word(page: &[u8], at: usize) -> u32 {
    u32_at(page, at).unwrap_or(0)
}

impl DatabaseHeader {
    /// Returns the page size stored in the database header at the start of `bytes`, even if the header is damaged.
    /// Returns `None` if `bytes` does not start with a database header or if the size is invalid.
    pub fn stored_page_size(bytes: &[u8]) -> Option<PageSize> {
        let stored = || PageSize::from_header(word(bytes, PAGE_SIZE_AT));
        (bytes.len() >= PAGE_SIZE_AT + 4 && word(bytes, 4) == DATABASE_MAGIC).then(stored).flatten()
    }

    /// Decodes one copy of the header from the start of `bytes`, which may be longer than a page.
    pub fn decode(bytes: &[u8]) -> Result<DatabaseHeader, HeaderError> {
        let available = bytes.len();
        if available < DATABASE_HEADER_LEN {
            return Err(HeaderError::Truncated { needed: DATABASE_HEADER_LEN, available });
        }
        let (magic, file_type) = (word(bytes, 4), word(bytes, 667));
        if magic != DATABASE_MAGIC {
            return Err(HeaderError::NotADatabase { magic, file_type });
        }
        let stored = word(bytes, PAGE_SIZE_AT);
        let page_size = PageSize::from_header(stored).ok_or(HeaderError::PageSize(stored))?;
        let needed = page_size.bytes();
        let page = bytes.get(..needed).ok_or(HeaderError::Truncated { needed, available })?;
        let (stored, computed) = (word(page, 0), header_checksum(page));
        if stored != computed {
            return Err(HeaderError::BadChecksum { stored, computed });
        }
        if word(page, 8) != DATABASE_VERSION {
            return Err(HeaderError::UnknownVersion { version: word(page, 8), update: word(page, 232) });
        }
        // Files written before the file type was introduced contain 0 here.
        if !matches!(file_type, 0 | FILE_TYPE_DATABASE) || word(page, 12) != 0 {
            return Err(HeaderError::NotADatabase { magic, file_type });
        }
        let mut header = DatabaseHeader::take(&mut Input::new(page.get(PREFIX_LEN..).unwrap_or_default()))?;
        if header.unknown.iter().all(|&byte| byte == 0) {
            header.unknown = Vec::new();
        }
        Ok(header)
    }

    /// Returns the fields of a header page without validating them. Returns `None` if the page is too short.
    pub fn fields(page: &[u8]) -> Option<Fields> {
        fields::describe_fields::<DatabaseHeader>(page.get(PREFIX_LEN..)?).ok()
    }

    /// Encodes the header page, including the checksum. The caller writes the page at offset 0 and, once that write
    /// is durable, at the offset of the second page.
    pub fn encode(&self) -> Vec<u8> {
        let page_size = self.page_size.bytes();
        let mut page = Vec::with_capacity(page_size);
        0u32.put(&mut page);
        DATABASE_MAGIC.put(&mut page);
        self.put(&mut page);
        page.resize(page_size, 0);
        let checksum = header_checksum(&page);
        if let Some(first) = page.first_chunk_mut() {
            *first = checksum.to_le_bytes();
        }
        page
    }

    /// Decodes both copies. Returns the first if it is valid, and the shadow otherwise.
    ///
    /// If both copies are damaged, returns the error from the first.
    fn read_with_shadow(first: &[u8], shadow: &[u8]) -> Result<(DatabaseHeader, HeaderCopies), HeaderError> {
        match (DatabaseHeader::decode(first), DatabaseHeader::decode(shadow)) {
            (Ok(header), Ok(other)) if header == other => Ok((header, HeaderCopies::Both)),
            (Ok(header), Ok(_)) => Ok((header, HeaderCopies::ShadowStale)),
            (Ok(header), Err(_)) => Ok((header, HeaderCopies::FirstOnly)),
            (Err(_), Ok(header)) => Ok((header, HeaderCopies::ShadowOnly)),
            (Err(error), Err(_)) => Err(error),
        }
    }

    /// Decodes the header from the start of a file. 64 KiB is enough for every page size.
    ///
    /// If the first copy is damaged, the page size is unknown, so the function looks for the shadow at the offset for
    /// each page size.
    pub fn read_from_start(start: &[u8]) -> Result<(DatabaseHeader, HeaderCopies), HeaderError> {
        let behind = |size: usize| start.get(size..).unwrap_or_default();
        let error = match DatabaseHeader::decode(start) {
            Ok(header) => return DatabaseHeader::read_with_shadow(start, behind(header.page_size.bytes())),
            Err(error) => error,
        };
        for size in [2048, 4096, 8192, 16384, 32768] {
            match DatabaseHeader::decode(behind(size)) {
                Ok(header) if header.page_size.bytes() == size => {
                    return Ok((header, HeaderCopies::ShadowOnly));
                }
                _ => {}
            }
        }
        Err(error)
    }

    /// Creates the header of a new, empty, clean database. All bytes from offset 672 on are zero, because every known
    /// reader accepts such a header.
    pub fn for_new_database(
        page_size: PageSize,
        signature: Signature,
        log_signature: Signature,
    ) -> DatabaseHeader {
        DatabaseHeader {
            version: DATABASE_VERSION,
            attribute: 0,
            db_time: DbTime(0),
            signature,
            state: DatabaseState::CleanShutdown,
            consistent_position: LogPosition::MIN,
            consistent_time: LogTime::NONE,
            attach_time: LogTime::NONE,
            attach_position: LogPosition::MIN,
            detach_time: LogTime::NONE,
            detach_position: LogPosition::MIN,
            database_id: 1,
            log_signature,
            full_backup: BackupInfo::default(),
            incremental_backup: BackupInfo::default(),
            current_full_backup: BackupInfo::default(),
            flags: 0,
            last_tree: TreeId(0),
            os_major: 0,
            os_minor: 0,
            os_build: 0,
            os_service_pack: 0,
            update: DATABASE_UPDATE,
            page_size,
            repair_count: 0,
            repair_time: LogTime::NONE,
            streaming_signature: Signature::default(),
            scrub_db_time: DbTime(0),
            scrub_time: LogTime::NONE,
            gen_min_required: Generation(0),
            gen_max_required: Generation(0),
            upgrade_counters: [0; 12],
            current_snapshot: BackupInfo::default(),
            created_version: DATABASE_VERSION,
            created_update: DATABASE_UPDATE,
            gen_max_committed_time: LogTime::NONE,
            full_backup_type: 0,
            incremental_backup_type: 0,
            old_repair_count: 0,
            bits_fixed: FaultCounter::default(),
            bits_not_fixed: FaultCounter::default(),
            bad_checksums: FaultCounter::default(),
            gen_max_committed: Generation(0),
            copy_backup: BackupInfo::default(),
            differential_backup: BackupInfo::default(),
            copy_backup_type: 0,
            differential_backup_type: 0,
            reseeds: FaultCounter::default(),
            patches: FaultCounter::default(),
            sort_version: u64::MAX,
            scan_end_time: LogTime::NONE,
            scan_start_time: LogTime::NONE,
            scanned_to: 0,
            gen_recovering: Generation(0),
            extend_count: 0,
            extend_time: LogTime::NONE,
            shrink_count: 0,
            shrink_time: LogTime::NONE,
            reattach_time: LogTime::NONE,
            reattach_position: LogPosition::MIN,
            trim_count: 0,
            flush_signature: signature,
            flush_map_signature: Signature::default(),
            gen_min_consistent: Generation(0),
            update_minor: 0,
            last_engine_version: 0,
            scanned_highest: 0,
            resize_position: LogPosition::MIN,
            reserved: [0; 3],
            file_type: FILE_TYPE_DATABASE,
            reserved_2: 0,
            gen_max_required_time: LogTime::NONE,
            before_redo_consistent: Generation(0),
            before_redo_required: Generation(0),
            revert_signature: Signature::default(),
            revert_count: 0,
            revert_from: LogTime::NONE,
            revert_to: LogTime::NONE,
            reverted_pages: 0,
            revert_commit_position: LogPosition::MIN,
            unknown: Vec::new(),
        }
    }
}

#[cfg(test)]
#[path = "header_tests.rs"]
mod tests;
