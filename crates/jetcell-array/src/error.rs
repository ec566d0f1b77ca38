//! What can go wrong with an array: I/O of one member, a refusal before anything was changed, or more losses than parity.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Result of the operations of an array.
pub type Result<T> = std::result::Result<T, ArrayError>;

/// Why an operation of an array failed.
#[derive(Debug, Error)]
pub enum ArrayError {
    /// A member failed, and the operation needs this very member.
    #[error("{path}: {action} at byte {offset} failed: {source}", path = path.display())]
    Io {
        /// The member.
        path: PathBuf,
        /// What was attempted.
        action: &'static str,
        /// Byte of the member.
        offset: u64,
        /// The error of the file system.
        source: io::Error,
    },
    /// The request cannot be fulfilled; nothing was changed.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Too many blocks of a row are lost or damaged. Other rows can still be read.
    #[error(
        "row {row}: {} blocks are lost or damaged, more than the level can recover; nothing was changed. Members: {}",
        damaged.len(),
        names(damaged)
    )]
    Unrecoverable {
        /// The row.
        row: u64,
        /// The members that lack their block of the row.
        damaged: Vec<PathBuf>,
    },
    /// All blocks of a row have their checksums, but parity and data disagree. Nothing was changed.
    #[error(
        "row {row}: checksums are right, but data and parity disagree; nothing was changed. Scrub the array to find out more"
    )]
    Inconsistent {
        /// The row.
        row: u64,
    },
    /// The volume has no free blocks for the write.
    #[error("the volume is full; delete snapshots or LUNs, trim, or add members")]
    Full,
    /// The volume of LUNs cannot be used.
    #[error("{0}")]
    Luns(String),
    /// The write log of the LUNs cannot be used.
    #[error(transparent)]
    WriteLog(#[from] WriteLogError),
    /// More members failed than the level bears. Acknowledged data is as it was; the array must be assembled again.
    #[error(
        "the array stopped because more members failed than {level} bears: {}; bring them back, or restore the data",
        names(failed)
    )]
    Stopped {
        /// The level of the array.
        level: String,
        /// Members that failed.
        failed: Vec<PathBuf>,
    },
}

/// Why a request was refused before anything was changed.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum Refusal {
    /// A member is used twice.
    #[error("{} is given twice; each member must be a file of its own", .0.display())]
    Twice(PathBuf),
    /// Two files have the superblock of one member.
    #[error(
        "{} is a copy of {}: both have the superblock of one member; move the copy away, and give its slot a new member",
        path.display(),
        first.display()
    )]
    CopyOfMember {
        /// A file with the superblock.
        path: PathBuf,
        /// The other file.
        first: PathBuf,
    },
    /// Members differ in size.
    #[error("{} has {found} bytes, {} has {expected}; members must have the same size", path.display(), first.display())]
    SizeDiffers {
        /// The member that differs.
        path: PathBuf,
        /// Its length.
        found: u64,
        /// The member it is compared with.
        first: PathBuf,
        /// The length of that one.
        expected: u64,
    },
    /// A member is too small for the metadata and one zone.
    #[error("{} has {found} bytes; a member needs at least {needed}", path.display())]
    TooSmall {
        /// The member.
        path: PathBuf,
        /// Its length.
        found: u64,
        /// The least length.
        needed: u64,
    },
    /// The number of members does not fit the level.
    #[error("{level} does not work with {members} members; it needs {needed}")]
    MemberCount {
        /// The level.
        level: String,
        /// The number of members.
        members: usize,
        /// What it needs.
        needed: String,
    },
    /// A member holds something.
    #[error("{} holds {what}; creating an array with it destroys that. Force it only if that is intended", path.display())]
    HasData {
        /// The member.
        path: PathBuf,
        /// What was found.
        what: &'static str,
    },
    /// Another process, or this one, uses a member.
    #[error("{} is in use; end the process that uses it, or unmount it", .0.display())]
    InUse(PathBuf),
    /// A file has no readable superblock.
    #[error("{} has no valid superblock, so it is not a member of an array; give a member", .0.display())]
    NotAMember(PathBuf),
    /// A member belongs to another array.
    #[error("{} belongs to another array than {}; give members of one array", path.display(), first.display())]
    Foreign {
        /// The member.
        path: PathBuf,
        /// A member of the array.
        first: PathBuf,
    },
    /// A member was replaced or has missed writes.
    #[error("{} is stale: the array failed or replaced it and was written without it. Leave it out, or add it as a new member", .0.display())]
    Stale(PathBuf),
    /// Members are missing after a crash.
    #[error(
        "the array was not shut down and {missing} of its members are missing; force the start to go on without them"
    )]
    DirtyDegraded {
        /// Members that are missing.
        missing: usize,
    },
    /// More members are missing than the level bears.
    #[error(
        "{missing} members are missing or failed, which is more than {level} bears; bring them back, or restore the data"
    )]
    TooManyMissing {
        /// The level of the array.
        level: String,
        /// Members that are missing or failed.
        missing: usize,
    },
    /// A file that is to become a write log has other content.
    #[error("{} holds something else than a write log; give another file", .0.display())]
    NotAWriteLog(PathBuf),
    /// A parameter is out of its range.
    #[error("{0}")]
    Parameter(String),
    /// The array was assembled for reading only.
    #[error("the array is open for reading only")]
    ReadOnly,
    /// The range does not lie within the array.
    #[error("blocks {first} to {last} are not within the array of {blocks} blocks")]
    OutOfRange {
        /// First block.
        first: u64,
        /// Last block.
        last: u64,
        /// Blocks of the array.
        blocks: u64,
    },
}

/// Why the write log of a volume of LUNs, which was not shut down, cannot be used. Only the log has the writes that were flushed since the
/// last consistency point.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum WriteLogError {
    /// There is no such file.
    #[error("{}: the write log is not there; bring it back, or lose the writes that only it has with --forget-log", .0.display())]
    Missing(PathBuf),
    /// The file is not the log, or both copies of its header are damaged.
    #[error(
        "{}: this is not the write log of the volume; bring the log back, or lose the writes that only it has with --forget-log",
        .0.display()
    )]
    Foreign(PathBuf),
    /// The file is shorter than the log.
    #[error(
        "{}: the write log is damaged: it has {found} bytes instead of {expected}; bring the whole file back, or lose the writes that only it has with --forget-log",
        path.display()
    )]
    Shortened {
        /// The file.
        path: PathBuf,
        /// Its length.
        found: u64,
        /// The size of the log.
        expected: u64,
    },
    /// A record that was acknowledged is damaged, and so is its shadow if it must have one.
    #[error(
        "{}: the write log is damaged at byte {offset}; bring an intact copy back, or lose the writes that only it has with --forget-log",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where the record begins.
        offset: u64,
    },
    /// The log follows a state that the array lacks.
    #[error(
        "{}: the write log follows state {newer} of the LUNs, and the catalogue has {point}: a newer catalogue is damaged; bring its members back, or lose the newer state with --forget-log",
        path.display()
    )]
    NewerThanCatalogue {
        /// The file.
        path: PathBuf,
        /// The consistency point that the records follow.
        newer: u64,
        /// The consistency point of the catalogue.
        point: u64,
    },
}

impl ArrayError {
    pub(crate) fn io(path: &Path, action: &'static str, offset: u64, source: io::Error) -> ArrayError {
        ArrayError::Io { path: path.to_owned(), action, offset, source }
    }
}

fn names(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}
