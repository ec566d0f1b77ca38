//! The kinds of events and their parameters.

use std::path::PathBuf;

use ese_format::{Generation, PageNumber};

use super::{CopyEvent, DefragEvent, PageDivergence, SnapshotEvent, SpaceEvent};

/// The kind of an event, with its parameters.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum EventKind {
    /// 102: an instance is being opened.
    InstanceStarting,
    /// 105: the instance is open.
    InstanceStarted {
        /// Duration in seconds.
        seconds: f64,
    },
    /// 103: the instance has stopped.
    InstanceStopped {
        /// Whether the instance stopped without a shutdown. In that case, the next open recovers its databases.
        dirty: bool,
    },
    /// 325: a database was created.
    DatabaseCreated {
        /// Path of the database file.
        database: PathBuf,
    },
    /// 326: a database was attached.
    DatabaseAttached {
        /// Path of the database file.
        database: PathBuf,
    },
    /// 327: a database was detached.
    DatabaseDetached {
        /// Path of the database file.
        database: PathBuf,
    },
    /// 210: a full backup has started.
    FullBackupStarted,
    /// 240: an internal copy of the databases has started, either to seed a passive copy or for later use.
    InternalCopyStarted,
    /// 211: a backup of logs has started.
    IncrementalBackupStarted,
    /// 213, or 243 for an internal copy: the backup is complete.
    BackupCompleted {
        /// Whether this was an internal copy rather than a backup.
        internal_copy: bool,
    },
    /// 215, or 245 for an internal copy: the backup was aborted.
    BackupAborted {
        /// Whether this was an internal copy rather than a backup.
        internal_copy: bool,
    },
    /// 220: the pages of a database are being read.
    BackupFileStarted {
        /// Path of the database file.
        file: PathBuf,
        /// Length of the file in bytes.
        bytes: u64,
    },
    /// 223: the logs are being read.
    BackupLogsStarted {
        /// First generation that is read.
        first: Generation,
        /// Last generation that is read.
        last: Generation,
    },
    /// 224: logs that neither recovery nor a backup needs were removed.
    LogsTruncated {
        /// First generation that was removed.
        first: Generation,
        /// Last generation that was removed.
        last: Generation,
    },
    /// 225: no logs were removed, because all of them are needed.
    NoLogsTruncated,
    /// 300: recovery has started, because the log contains changes that may be missing from databases.
    RecoveryStarted {
        /// Generation that contains the first change.
        first: Generation,
        /// Newest generation.
        last: Generation,
    },
    /// 301: a generation was replayed.
    LogReplayed {
        /// Generation that was replayed.
        generation: Generation,
        /// Number of records in the generation.
        records: u64,
    },
    /// 302: recovery is complete.
    RecoveryCompleted {
        /// Number of records that were read.
        records: u64,
        /// Number of changes that were missing from pages and were therefore applied.
        applied: u64,
        /// Number of transactions that were rolled back.
        rolled_back: u64,
        /// Number of torn pages that were replaced.
        torn_pages: u64,
    },
    /// 304: logs were replayed. Unfinished transactions stay open, and the databases stay dirty.
    ReplayCompleted {
        /// First and last replayed generations.
        generations: Option<(Generation, Generation)>,
        /// Number of changes that were missing from pages and were therefore applied.
        changed: u64,
    },
    /// 524: logs that may have contained commits are missing; recovery has continued without them.
    CommittedLogsLost {
        /// First missing generation.
        first: Generation,
        /// Newest generation that may have contained commits.
        last: Generation,
    },
    /// 454: recovery failed.
    RecoveryFailed {
        /// ESE's error code.
        error: i32,
        /// Description of the error.
        what: String,
    },
    /// 424: the volume has no space left for a database file.
    DatabaseDiskFull {
        /// Path of the database file.
        file: PathBuf,
    },
    /// 429: the volume has no space left for the log.
    LogDiskFull {
        /// Path of the log file.
        file: PathBuf,
    },
    /// 399, 474, 475, 476 or 481: a damaged page was read.
    PageDamaged(PageDamage),
    /// A scan pass has started. [`EventProfile`](super::EventProfile) lists the numbers of the scan events.
    PassStarted {
        /// Path of the database file.
        database: PathBuf,
        /// Whether the pass overwrites deleted data.
        zeroing: bool,
    },
    /// A scan pass resumes after an interruption.
    PassResumed {
        /// Report on the pass so far.
        report: PassReport,
        /// Next page to be read.
        page: PageNumber,
    },
    /// A scan pass has reached the end of the database.
    PassCompleted(PassReport),
    /// A scan pass cannot continue.
    PassFailed {
        /// Path of the database file.
        database: PathBuf,
        /// Whether the pass overwrites deleted data.
        zeroing: bool,
        /// ESE's error code.
        error: i32,
        /// Description of the error.
        what: String,
    },
    /// A scan pass was stopped, and will resume later.
    PassInterrupted {
        /// Path of the database file.
        database: PathBuf,
        /// Whether the pass overwrites deleted data.
        zeroing: bool,
    },
    /// 700 to 705, 715 and 716: an event in a pass of online defragmentation.
    Defragmentation {
        /// Path of the database file.
        database: PathBuf,
        /// The defragmentation event.
        event: DefragEvent,
    },
    /// 740 to 743, 748 and 749: free space is returned to the file system.
    Space {
        /// Path of the database file.
        database: PathBuf,
        /// The space event.
        event: SpaceEvent,
    },
    /// 729: zeroing waits because most of the cache is dirty.
    ZeroingPaused {
        /// Path of the database file.
        database: PathBuf,
    },
    /// 730: zeroing continues.
    ZeroingContinued {
        /// Path of the database file.
        database: PathBuf,
    },
    /// 727: the scan has found a bad page.
    ScanFoundPage {
        /// Path of the database file.
        file: PathBuf,
        /// Offset of the page in the file, in bytes.
        offset: u64,
        /// Page number.
        page: PageNumber,
        /// Description of the damage.
        what: String,
    },
    /// 2001 to 2009: an event in a snapshot of the files.
    Snapshot(SnapshotEvent),
    /// An event of a passive copy.
    Copy {
        /// Directory of the copy.
        copy: String,
        /// The copy's event.
        event: CopyEvent,
    },
    /// 538 to 541, 545 or 557: a page of a copy differs from the active side's page.
    PageDiffers(PageDivergence),
    /// 905 on the active side, 911 on a copy: a page was repaired using the other side's page.
    PageRepaired {
        /// Path of the database file.
        database: PathBuf,
        /// Page number.
        page: PageNumber,
        /// Whether the page was repaired on a copy.
        on_copy: bool,
    },
}

impl EventKind {
    /// Returns the name of the kind of event, for use by programs.
    pub fn name(&self) -> &'static str {
        match self {
            EventKind::InstanceStarting => "instance_starting",
            EventKind::InstanceStarted { .. } => "instance_started",
            EventKind::InstanceStopped { .. } => "instance_stopped",
            EventKind::DatabaseCreated { .. } => "database_created",
            EventKind::DatabaseAttached { .. } => "database_attached",
            EventKind::DatabaseDetached { .. } => "database_detached",
            EventKind::FullBackupStarted => "full_backup_started",
            EventKind::IncrementalBackupStarted => "incremental_backup_started",
            EventKind::InternalCopyStarted => "internal_copy_started",
            EventKind::BackupCompleted { .. } => "backup_completed",
            EventKind::BackupAborted { .. } => "backup_aborted",
            EventKind::BackupFileStarted { .. } => "backup_file_started",
            EventKind::BackupLogsStarted { .. } => "backup_logs_started",
            EventKind::LogsTruncated { .. } => "logs_truncated",
            EventKind::NoLogsTruncated => "no_logs_truncated",
            EventKind::RecoveryStarted { .. } => "recovery_started",
            EventKind::LogReplayed { .. } => "log_replayed",
            EventKind::RecoveryCompleted { .. } => "recovery_completed",
            EventKind::ReplayCompleted { .. } => "replay_completed",
            EventKind::CommittedLogsLost { .. } => "committed_logs_lost",
            EventKind::RecoveryFailed { .. } => "recovery_failed",
            EventKind::DatabaseDiskFull { .. } => "database_disk_full",
            EventKind::LogDiskFull { .. } => "log_disk_full",
            EventKind::PageDamaged(_) => "page_damaged",
            EventKind::PassStarted { .. } => "pass_started",
            EventKind::PassResumed { .. } => "pass_resumed",
            EventKind::PassCompleted(_) => "pass_completed",
            EventKind::PassFailed { .. } => "pass_failed",
            EventKind::PassInterrupted { .. } => "pass_interrupted",
            EventKind::Defragmentation { event, .. } => event.name(),
            EventKind::Space { event, .. } => event.name(),
            EventKind::ZeroingPaused { .. } => "zeroing_paused",
            EventKind::ZeroingContinued { .. } => "zeroing_continued",
            EventKind::ScanFoundPage { .. } => "scan_found_page",
            EventKind::Snapshot(event) => event.name(),
            EventKind::Copy { event, .. } => event.name(),
            EventKind::PageDiffers(divergence) => divergence.kind.name(),
            EventKind::PageRepaired { .. } => "page_repaired",
        }
    }
}

/// Damage to a page that was detected when the page was read.
#[derive(Clone, Debug, PartialEq)]
pub struct PageDamage {
    /// Path of the file.
    pub file: PathBuf,
    /// Offset of the page in the file, in bytes.
    pub offset: u64,
    /// Page size in bytes.
    pub bytes: u64,
    /// Page number.
    pub page: PageNumber,
    /// Kind of damage.
    pub fault: PageDamageKind,
}

/// Kind of damage to a page.
#[derive(Clone, Debug, PartialEq)]
pub enum PageDamageKind {
    /// 399: flipped bits, which were corrected. Each bit is given as `8 * byte + bit`.
    Corrected(Vec<u32>),
    /// 474: the checksum or the structure is wrong.
    Checksum,
    /// 475: the page contains another page's number.
    WrongPage(u32),
    /// 476: the page contains only zeros.
    Missing,
    /// 481: the device cannot read the page.
    Unreadable(String),
}

/// Report on one pass of a database scan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PassReport {
    /// Path of the database file.
    pub database: PathBuf,
    /// Whether the pass overwrites deleted data.
    pub zeroing: bool,
    /// Start time of the pass, in milliseconds since 1970 UTC.
    pub began_unix_ms: i64,
    /// Total running time of the pass, in seconds.
    pub seconds: u64,
    /// Number of times the pass was started or resumed.
    pub invocations: u64,
    /// Days since the pass began, including the first day.
    pub days: u64,
    /// Number of pages read.
    pub pages: u64,
    /// Number of bad pages.
    pub bad: u64,
    /// Number of pages that were never written.
    pub uninitialized: u64,
    /// Number of pages that have not changed since they were zeroed.
    pub unchanged: u64,
    /// Number of unused pages that were overwritten.
    pub unused_zeroed: u64,
    /// Number of pages in use.
    pub used: u64,
    /// Number of deleted records that were overwritten.
    pub records_zeroed: u64,
    /// Number of overwritten long-value chunks that belong to no record.
    pub chunks_zeroed: u64,
}
