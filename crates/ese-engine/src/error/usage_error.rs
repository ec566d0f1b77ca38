//! Errors for mistakes by the caller, and for features that the engine does not support.

use std::path::PathBuf;
use std::time::Duration;

use ese_format::foreign::ForeignFormat;
use ese_format::key::KeyError;
use ese_format::log::header::SEGMENT_BYTES;
use ese_format::record::{ColumnId, RecordError, ValueError};
use ese_format::{Generation, LogPosition};

/// Reason why a call to the engine cannot succeed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages describe the variants and their fields")]
pub enum UsageError {
    // Settings.
    #[error("invalid waypoint latency of {0} generations; it must be between 0 and 10")]
    WaypointLatency(u32),
    #[error(
        "invalid log file size of {bytes}; it must be a multiple of {SEGMENT_BYTES} between {min} and {max}"
    )]
    LogFileSize { bytes: u32, min: u32, max: u32 },
    #[error("invalid pause of {0:?} between reads; it must be between 0 and 60 s")]
    Pause(Duration),
    #[error("the rate and the latency target must be greater than 0")]
    ZeroThrottle,
    #[error("invalid read size of {0} bytes; it must be between 65,536 (64 KiB) and 16,777,216 (16 MiB)")]
    ReadSize(usize),
    #[error("invalid density {0} %; it must be between 20 and 100 %")]
    Density(u32),
    #[error("{0:?} is not an event profile")]
    EventProfile(String),
    #[error("{0:?} is not a valid copy identifier")]
    CopyId(String),
    #[error("could not parse {0:?} as a maintenance window")]
    Window(String),
    #[error(
        "a maintenance window must include a day, begin before 24:00, and last from 1 minute to 24 hours"
    )]
    WindowBounds,
    #[error("the maintenance window of {length:?} is too short for {tasks} tasks on {databases} databases")]
    WindowTooShort { length: Duration, tasks: u32, databases: u32 },

    // Files.
    #[error("{0}: the path does not have an absolute form in valid UTF-8, so it cannot be stored in the log")]
    PathForLog(PathBuf),
    #[error("{0}: the paths of all attached databases together are too long for the log")]
    PathsTooLong(PathBuf),
    #[error("an instance can have at most 6 databases")]
    TooManyDatabases,
    #[error("{0} is not attached")]
    NotAttached(PathBuf),
    #[error("file {0} is not attached")]
    FileNotAttached(u16),
    #[error("file {file} has {pages} dirty pages")]
    DirtyPages { file: u16, pages: usize },
    #[error("{0} belongs to another instance")]
    OtherInstance(PathBuf),
    #[error("{0}: the database has reached its maximum size")]
    DatabaseFull(PathBuf),
    #[error("no database is attached, so there is nothing to back up")]
    NothingToBackUp,
    #[error("{0}: the file system does not support hole punching, so the file cannot be trimmed")]
    NoHolePunching(PathBuf),
    #[error("space cannot be returned while the newest log generations could be lost")]
    SpaceWithWaypointLatency,
    #[error("space cannot be returned while copies follow the log: a failover could lose newest generations")]
    SpaceWithCopies,
    #[error("the cache of {0} pages is too small: all its pages are in use")]
    CacheTooSmall(usize),

    // Logs.
    #[error("{0} bytes of records do not fit in a log file")]
    RecordsTooLong(usize),
    #[error("all log generation numbers have been used")]
    NoMoreGenerations,
    #[error("the logs belong to several log streams")]
    SeveralStreams,
    #[error("{} would be left out: other log streams, or unreadable headers", left_out(named, *count))]
    LeftOut { named: Vec<PathBuf>, count: usize },
    #[error("{0}: the directory of the database does not contain logs")]
    NoLogs(PathBuf),
    #[error("no log has records before {0}, where the replay is to stop")]
    StopBeforeLogs(LogPosition),
    #[error(
        "{database}: the database is inconsistent before the end of log generation {:X} (hexadecimal), but the \
         replay is to stop at {until}", needed.0
    )]
    StopTooEarly { database: PathBuf, needed: Generation, until: LogPosition },
    #[error("no ESE logs or databases were found")]
    NothingFound,
    #[error("nothing found at {}: no file in it has the header of an ESE log or database", .0.display())]
    NothingFoundAt(PathBuf),
    #[error("{path}: the file is not an ESE database or log but {format}")]
    OtherFormat { path: PathBuf, format: ForeignFormat },
    #[error(
        "{log}: an unfinished transaction changed a counter (log record at {position:?}); Jetcell cannot roll \
         this change back and can only leave the database dirty"
    )]
    UnfinishedCounter { log: PathBuf, position: LogPosition },

    // Transactions.
    #[error("no transaction is active")]
    NoTransaction,
    #[error("a transaction is still open")]
    OpenTransaction,
    #[error("a rollback failed")]
    RollbackFailed,
    #[error("transactions cannot be nested more than {0} levels deep")]
    NestedTooDeep(u8),
    #[error("a bulk load is a separate transaction")]
    LoadInTransaction,

    // Table definitions.
    #[error("{0:?} is not a valid name; names must have between 1 and 64 ASCII characters without ! . [ ] `")]
    Name(String),
    #[error("{0:?} is specified more than once")]
    DuplicateName(String),
    #[error("table {0:?} already exists")]
    TableExists(String),
    #[error("table {0:?} is open")]
    TableOpen(String),
    #[error("table {0:?}: a table can have at most one primary index")]
    SeveralPrimaryIndexes(String),
    #[error("a primary index cannot be added to an existing table")]
    LaterPrimaryIndex,
    #[error("a table can have at most one auto-increment column")]
    SeveralAutoIncrements,
    #[error("column {0:?}: a column of this type cannot be an auto-increment column")]
    AutoIncrementType(String),
    #[error("column {0:?}: a column of more than 255 bytes must have a long type")]
    ShortType(String),
    #[error("column {0:?}: the code page of text must be 1200, 1252 or 20127")]
    TextCodePage(String),
    #[error("column {0:?}: the table has too many columns")]
    TooManyColumns(String),
    #[error("column {0:?}: the length of the default value does not match the type of the column")]
    DefaultLength(String),
    #[error("index {0:?}: an index must have between 1 and 16 columns")]
    IndexColumns(String),
    #[error("column {0:?} does not exist")]
    NoColumn(String),

    // Use of tables.
    #[error("table {0:?} is open in another session")]
    OtherSession(String),
    #[error("the definition of table {0:?} has changed")]
    DefinitionChanged(String),
    #[error("{table} does not have column {column}, because a different engine created it")]
    NoStateColumn { table: String, column: String },
    #[error("index {0:?} does not exist")]
    NoIndex(String),
    #[error("the table does not have a primary index, which is needed for a seek")]
    NoPrimaryIndex,
    #[error("index {index:?} has {columns} columns")]
    TooManyValues { index: String, columns: usize },
    #[error("column {column:?}: {error}")]
    Value { column: String, error: ValueError },
    #[error("column {column:?}: the value is too long; the maximum is {max} bytes")]
    ValueTooLong { column: String, max: u32 },
    #[error("the value is too long; the maximum is 2147483647 bytes")]
    LongValueTooLong,
    #[error("the record is {0} bytes long and does not fit into a page")]
    RecordTooLong(usize),
    #[error("column {0} is specified more than once")]
    DuplicateColumn(ColumnId),
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error("the primary key of a record cannot be changed")]
    PrimaryKeyChanged,
    #[error("encrypted columns are not supported")]
    Encrypted,
    #[error("table {0:?} has used all record numbers")]
    NoMoreRecords(String),
    #[error("table {0:?} has used all long-value numbers")]
    NoMoreLongValues(String),
    #[error("column {0:?} has reached its maximum value")]
    NoMoreIncrements(String),
}

impl UsageError {
    /// Returns what the caller can do about the error.
    pub fn advice(&self) -> Option<&'static str> {
        Some(match self {
            UsageError::EventProfile(_) => "use sp1, article or modern",
            UsageError::CopyId(_) => "use only letters and digits",
            UsageError::Window(_) => {
                "specify days, start and length, such as 'mon-fri 01:00 4h', in UTC or with an offset such as \
                 +01:00"
            }
            UsageError::WindowTooShort { .. } => "allow at least one minute per task and database",
            UsageError::PathsTooLong(_) => "use shorter paths, or another instance",
            UsageError::TooManyDatabases => "use another instance",
            UsageError::SpaceWithWaypointLatency => "open the instance without a waypoint latency",
            UsageError::SpaceWithCopies => {
                "return the space before the first copy is made, or after the last copy is removed"
            }
            UsageError::RecordsTooLong(_) => "use larger log files",
            UsageError::NoMoreGenerations => "start a new log stream",
            UsageError::SeveralStreams => "specify the files of only one stream",
            UsageError::LeftOut { .. } => "specify only the files of one stream, and check unreadable files",
            UsageError::NoLogs(_) => "also specify the directory of its logs",
            UsageError::NothingFound | UsageError::NothingFoundAt(_) | UsageError::OtherFormat { .. } => {
                "specify the directory of an instance, or its files"
            }
            UsageError::StopTooEarly { .. } => "choose a later position",
            UsageError::NoTransaction => "begin a transaction first",
            UsageError::OpenTransaction => "commit or roll it back first",
            UsageError::RollbackFailed => "retry the rollback",
            UsageError::LoadInTransaction => "commit or roll back the current transaction first",
            UsageError::TableOpen(_) => "close it before changing its definition",
            UsageError::LaterPrimaryIndex => "create the primary index together with its table",
            UsageError::OtherSession(_) => "open it in this session",
            UsageError::DefinitionChanged(_) => "open the table again",
            UsageError::NoStateColumn { .. } => "run without stored progress",
            UsageError::PrimaryKeyChanged => "delete the record and insert it again",
            _ => return None,
        })
    }
}

/// Lists the files by name, followed by the number of further files that are not named.
fn left_out(named: &[PathBuf], count: usize) -> String {
    let names: Vec<String> = named.iter().map(|path| path.display().to_string()).collect();
    match count.saturating_sub(named.len()) {
        0 => names.join(", "),
        more => format!("{} and {more} more files", names.join(", ")),
    }
}
