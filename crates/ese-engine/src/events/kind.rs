//! What an event says.

use std::path::PathBuf;

use ese_format::{Generation, PageNumber};

use super::{CopyEvent, DefragEvent, PageDivergence, SnapshotEvent, SpaceEvent};

/// What happened.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum EventKind {
    /// 102: an instance is being opened.
    InstanceStarting,
    /// 105: the instance is open.
    InstanceStarted {
        /// How long that took.
        seconds: f64,
    },
    /// 103: the instance has ended.
    InstanceStopped {
        /// Without a shutdown: the next opening recovers its databases.
        dirty: bool,
    },
    /// 325.
    DatabaseCreated {
        /// The database.
        database: PathBuf,
    },
    /// 326.
    DatabaseAttached {
        /// The database.
        database: PathBuf,
    },
    /// 327.
    DatabaseDetached {
        /// The database.
        database: PathBuf,
    },
    /// 210: a full backup starts.
    FullBackupStarted,
    /// 240: a copy of the databases starts, to seed a passive copy or to keep it.
    InternalCopyStarted,
    /// 211: a backup of logs starts.
    IncrementalBackupStarted,
    /// 213, or 243.
    BackupCompleted {
        /// It was no backup, but a copy.
        internal_copy: bool,
    },
    /// 215, or 245.
    BackupAborted {
        /// It was no backup, but a copy.
        internal_copy: bool,
    },
    /// 220: the pages of a database are being read.
    BackupFileStarted {
        /// The database.
        file: PathBuf,
        /// Its length.
        bytes: u64,
    },
    /// 223: the logs are being read.
    BackupLogsStarted {
        /// First generation.
        first: Generation,
        /// Last generation.
        last: Generation,
    },
    /// 224: logs that neither recovery nor a backup needs are gone.
    LogsTruncated {
        /// First generation.
        first: Generation,
        /// Last generation.
        last: Generation,
    },
    /// 225: all logs are needed.
    NoLogsTruncated,
    /// 300: the log has changes that databases may lack.
    RecoveryStarted {
        /// Generation with the first change.
        first: Generation,
        /// The newest generation.
        last: Generation,
    },
    /// 301.
    LogReplayed {
        /// The generation.
        generation: Generation,
        /// Number of its records.
        records: u64,
    },
    /// 302.
    RecoveryCompleted {
        /// Records that were read.
        records: u64,
        /// Changes that pages lacked.
        applied: u64,
        /// Transactions that were rolled back.
        rolled_back: u64,
        /// Torn pages that were replaced.
        torn_pages: u64,
    },
    /// 304: logs were replayed. Transactions that have not ended are kept, and the databases stay dirty.
    ReplayCompleted {
        /// Generations that were replayed: the first and the last one.
        generations: Option<(Generation, Generation)>,
        /// Changes that pages lacked.
        changed: u64,
    },
    /// 524: logs that may have held commits are missing, and recovery went on without them.
    CommittedLogsLost {
        /// First missing generation.
        first: Generation,
        /// The newest generation that may have held commits.
        last: Generation,
    },
    /// 454: recovery failed.
    RecoveryFailed {
        /// ESE's number of the error.
        error: i32,
        /// The error in words.
        what: String,
    },
    /// 424: no space for a database.
    DatabaseDiskFull {
        /// The database.
        file: PathBuf,
    },
    /// 429: no space for the log.
    LogDiskFull {
        /// The log.
        file: PathBuf,
    },
    /// 399, 474, 475, 476 or 481: a page is damaged.
    PageDamaged(PageDamage),
    /// A pass of the scan starts. [`EventProfile`](super::EventProfile) has the numbers of these events.
    PassStarted {
        /// The database.
        database: PathBuf,
        /// Whether deleted data is overwritten.
        zeroing: bool,
    },
    /// A pass goes on after an interruption.
    PassResumed {
        /// The pass so far.
        report: PassReport,
        /// The next page.
        page: PageNumber,
    },
    /// A pass has reached the end of the database.
    PassCompleted(PassReport),
    /// A pass cannot go on.
    PassFailed {
        /// The database.
        database: PathBuf,
        /// Whether deleted data is overwritten.
        zeroing: bool,
        /// ESE's number of the error.
        error: i32,
        /// The error in words.
        what: String,
    },
    /// A pass was stopped, and will resume.
    PassInterrupted {
        /// The database.
        database: PathBuf,
        /// Whether deleted data is overwritten.
        zeroing: bool,
    },
    /// 700 to 705, 715 and 716: what happened to a pass of online defragmentation.
    Defragmentation {
        /// The database.
        database: PathBuf,
        /// What happened.
        event: DefragEvent,
    },
    /// 740 to 743, 748 and 749: free space is returned to the file system.
    Space {
        /// The database.
        database: PathBuf,
        /// What happened.
        event: SpaceEvent,
    },
    /// 729: zeroing waits, because most of the cache is dirty.
    ZeroingPaused {
        /// The database.
        database: PathBuf,
    },
    /// 730: zeroing goes on.
    ZeroingContinued {
        /// The database.
        database: PathBuf,
    },
    /// 727: the scan has found a bad page.
    ScanFoundPage {
        /// The database.
        file: PathBuf,
        /// Where the page is, in bytes.
        offset: u64,
        /// The page.
        page: PageNumber,
        /// The damage in words.
        what: String,
    },
    /// 2001 to 2009: what happened to a snapshot of the files.
    Snapshot(SnapshotEvent),
    /// What happened to a passive copy.
    Copy {
        /// Its directory.
        copy: String,
        /// What happened.
        event: CopyEvent,
    },
    /// 538 to 541, 545 or 557: a page of a copy differs from that of the active side.
    PageDiffers(PageDivergence),
    /// 905 on the active side, 911 on a copy: a page was repaired with that of the other side.
    PageRepaired {
        /// The database.
        database: PathBuf,
        /// The page.
        page: PageNumber,
        /// Whether it was repaired on a copy.
        on_copy: bool,
    },
}

impl EventKind {
    /// A name for programs.
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

/// A damaged page, as it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct PageDamage {
    /// The file.
    pub file: PathBuf,
    /// Where the page is, in bytes.
    pub offset: u64,
    /// Page size in bytes.
    pub bytes: u64,
    /// The page.
    pub page: PageNumber,
    /// What is wrong.
    pub fault: PageFault,
}

/// What is wrong with a page.
#[derive(Clone, Debug, PartialEq)]
pub enum PageFault {
    /// 399: flipped bits, which were corrected: `8 * byte + bit`.
    Corrected(Vec<u32>),
    /// 474: a wrong checksum or a wrong structure.
    Checksum,
    /// 475: another page.
    WrongPage(u32),
    /// 476: zeros.
    Missing,
    /// 481: the device cannot read it.
    Unreadable(String),
}

/// A pass of the scan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PassReport {
    /// The database.
    pub database: PathBuf,
    /// Whether deleted data is overwritten.
    pub zeroing: bool,
    /// When the pass began, in milliseconds since 1970 UTC.
    pub began_unix_ms: i64,
    /// Seconds for which it ran.
    pub seconds: u64,
    /// Number of times that it was started or resumed.
    pub invocations: u64,
    /// Days since it began, the first one included.
    pub days: u64,
    /// Pages read.
    pub pages: u64,
    /// Bad pages.
    pub bad: u64,
    /// Pages that were never written.
    pub uninitialized: u64,
    /// Pages that have not changed since they were zeroed.
    pub unchanged: u64,
    /// Pages that are not in use, and were overwritten.
    pub unused_zeroed: u64,
    /// Pages in use.
    pub used: u64,
    /// Deleted records that were overwritten.
    pub records_zeroed: u64,
    /// Long-value chunks without a record that were overwritten.
    pub chunks_zeroed: u64,
}
