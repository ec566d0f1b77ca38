//! Refusal to start a run, before anything on disk has changed.

mod advice;

use std::io;
use std::path::{Path, PathBuf};

use ese_format::foreign::FileContent;
use ese_format::header::{DatabaseState, HeaderError};
use ese_format::recognise::EseFileKind;
use jetcell_host::{MemoryLimit, UnsuitableStorage};
use jetcell_input::error_line;
use jetcell_input::number::human_bytes;
use thiserror::Error;

use crate::preserved_state_error::PreservedStateError;
use crate::profile::ConfigurationError;
use crate::units::{ByteSize, TimeSpan};

/// Error returned if a run cannot start. Nothing on disk has changed.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages describe the variants and their fields")]
pub enum StartError {
    #[error("failed to {action} {}: {error}", .path.display())]
    Io {
        action: &'static str,
        path: PathBuf,
        #[source]
        error: io::Error,
    },
    #[error("{}: cannot be read: {error}", .path.display())]
    StateFile {
        path: PathBuf,
        #[source]
        error: io::Error,
    },
    #[error("{} is damaged ({})", .path.display(), error_line(.error))]
    DamagedStateFile { path: PathBuf, error: serde_json::Error, advice: &'static str },
    #[error("{} was written by a different version of jetcell", .path.display())]
    OtherVersion { path: PathBuf, advice: &'static str },
    #[error("{}: a stress test was interrupted after {seconds:.0} s of {duration}", .dir.display())]
    InterruptedStressTest { dir: PathBuf, seconds: f64, duration: TimeSpan },
    #[error("{}: the creation of databases was interrupted at {percent} %", .dir.display())]
    InterruptedCreation { dir: PathBuf, percent: u64 },
    #[error("{0} differs from the interrupted creation")]
    OtherCreation(&'static str),
    #[error("{}: this directory does not contain partially created databases", .0.display())]
    NothingToResume(PathBuf),
    #[error("{} does not exist", .0.display())]
    NoDatabase(PathBuf),
    #[error("{} is in use by another process", .0.display())]
    InUse(PathBuf),
    #[error("{} exists", .0.display())]
    DatabaseExists(PathBuf),
    #[error("{} is not an ESE database{}", .path.display(), .content.correction(EseFileKind::Database))]
    NotADatabase { path: PathBuf, content: FileContent },
    #[error("{}: {error}: this program does not support the format", .path.display())]
    UnsupportedFormat { path: PathBuf, error: HeaderError },
    #[error("{} has a damaged header ({error})", .path.display())]
    DamagedHeader { path: PathBuf, error: HeaderError },
    #[error(
        "{} was not shut down cleanly and needs log {generation:X} (hexadecimal), which is not in {}",
        .database.display(), .log_dir.display()
    )]
    LogMissing { database: PathBuf, generation: u32, log_dir: PathBuf },
    #[error("{} is in state {state:?}, which this program does not support", .database.display())]
    UnsupportedState { database: PathBuf, state: DatabaseState },
    #[error("{} has a page size of {has}, but {wanted} is required", .database.display())]
    PageSize { database: PathBuf, has: ByteSize, wanted: ByteSize },
    #[error("{} is not a directory", .0.display())]
    NotADirectory(PathBuf),
    #[error("{} does not exist", .0.display())]
    NoDirectory(PathBuf),
    #[error("{} is not writable: {error}", .path.display())]
    NotWritable {
        path: PathBuf,
        #[source]
        error: io::Error,
    },
    #[error(transparent)]
    Storage(#[from] UnsuitableStorage),
    #[error("{}: failed to query the free space: {error}", .path.display())]
    FreeSpace {
        path: PathBuf,
        #[source]
        error: io::Error,
    },
    #[error("--size {percent}% of the volume of {}: {error}", .database.display())]
    SizeOfVolume { database: PathBuf, percent: u64, error: ConfigurationError },
    #[error(transparent)]
    Maintenance(ese_engine::Error),
    #[error("{} exists", .0.display())]
    ResultExists(PathBuf),
    #[error("--output {} is not a directory", .0.display())]
    OutputIsFile(PathBuf),
    #[error("{option} {}: {} is not a writable directory", .path.display(), .directory.display())]
    NotWritableDirectory { option: &'static str, path: PathBuf, directory: PathBuf },
    #[error("--cache {cache} is too small for {databases} databases and {threads} threads")]
    SmallCache { cache: ByteSize, databases: usize, threads: usize, min: ByteSize },
    #[error(
        "--cache {cache} does not fit in the memory of {} ({}), of which the run needs {} for other purposes",
        human_bytes(.limit.bytes), .limit.source.display(), human_bytes(*.other_bytes)
    )]
    LargeCache { cache: ByteSize, limit: MemoryLimit, other_bytes: u64, max: ByteSize },
    #[error(
        "the run needs {} of address space with --cache {cache} and --threads {threads}, but the process \
         limit is lower ({error})",
        human_bytes(*.needed)
    )]
    AddressSpace { needed: u64, cache: ByteSize, threads: usize, error: io::Error },
    #[error("the run needs {wanted} threads, but the process can start only {started} ({error})")]
    Threads { wanted: usize, started: usize, error: io::Error },
    #[error("{}: this directory contains a preserved state", .0.display())]
    HasPreservedState(PathBuf),
    #[error("{}: restoring the databases to their preserved state was interrupted", .0.display())]
    InterruptedRestore(PathBuf),
    #[error("--reset does not support arrays")]
    ResetOnArray,
    #[error("{}: the file system cannot share blocks between files", .0.display())]
    NoSharedBlocks(PathBuf),
    #[error(
        "the preserved state has {preserved} databases, but their paths differ from the {databases} databases \
         of this run"
    )]
    OtherDatabases { preserved: usize, databases: usize },
    #[error("failed to restore the databases: {0}")]
    Restore(#[source] PreservedStateError),
    #[error("stopped on request while the databases were being restored")]
    StoppedDuringRestore,
    #[error("stopped on request before the databases were verified")]
    StoppedBeforeVerification,
    #[error("{first}; total damaged pages: {pages}")]
    DamagedPages { first: String, pages: u64 },
    #[error("--to {} is not empty", .0.display())]
    BackupNotEmpty(PathBuf),
    #[error("--to {} is not a readable directory", .0.display())]
    BackupNotReadable(PathBuf),
    #[error("--to {} is inside {}, which is being backed up", .to.display(), .source_dir.display())]
    BackupInside { to: PathBuf, source_dir: PathBuf },
}

impl StartError {
    /// Returns a function that adds the action and the path to an error of the operating system.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl Fn(io::Error) -> StartError {
        move |error| StartError::Io { action, path: path.into(), error }
    }
}
