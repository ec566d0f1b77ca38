//! Errors of an array: I/O errors of a member, requests that are refused before anything is changed, and more losses
//! than the redundancy covers.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Result type for array operations.
pub type Result<T> = std::result::Result<T, ArrayError>;

/// Error from an array operation.
#[derive(Debug, Error)]
pub enum ArrayError {
    /// I/O on a member failed, and the operation requires this particular member.
    #[error("{path}: {action} at byte {offset} failed: {source}", path = path.display())]
    Io {
        /// Path of the member.
        path: PathBuf,
        /// The attempted action.
        action: &'static str,
        /// Byte offset in the member.
        offset: u64,
        /// Error from the file system.
        source: io::Error,
    },
    /// The request cannot be fulfilled. Nothing was changed.
    #[error(transparent)]
    Refused(#[from] ArrayRefusal),
    /// Too many blocks of a row are lost or damaged. Other rows can still be read.
    #[error(
        "row {row}: {} blocks are lost or damaged, more than the level can recover; nothing was changed. Members: {}",
        damaged.len(),
        names(damaged)
    )]
    Unrecoverable {
        /// Row number.
        row: u64,
        /// Members whose block of the row is lost or damaged.
        damaged: Vec<PathBuf>,
    },
    /// All blocks of a row match their checksums, but parity and data disagree. Nothing was changed.
    #[error(
        "row {row}: the checksums are correct, but data and parity do not match; nothing was changed. Scrub \
         the array for details"
    )]
    Inconsistent {
        /// Row number.
        row: u64,
    },
    /// The volume has no free blocks for the write.
    #[error("the volume is full; delete some snapshots or LUNs, trim the file system, or add members")]
    Full,
    /// The LUN volume cannot be used.
    #[error("{0}")]
    Luns(String),
    /// The write log of the LUN volume cannot be used.
    #[error(transparent)]
    WriteLog(#[from] WriteLogError),
    /// More members failed than the level tolerates. Acknowledged data is unchanged. The array must be assembled
    /// again after its members are back.
    #[error(
        "the array stopped because more members failed than {level} tolerates: {}; reconnect them, or \
         restore the data",
        names(failed)
    )]
    Stopped {
        /// The level of the array.
        level: String,
        /// Members that have failed.
        failed: Vec<PathBuf>,
    },
}

/// Reason why an array request was refused before anything was changed.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ArrayRefusal {
    /// A file is given twice, or is already a member.
    #[error("{} is specified more than once; each member must be a separate file", .0.display())]
    DuplicateMember(PathBuf),
    /// Two files have the superblock of the same member.
    #[error(
        "{} is a copy of {}: both have the superblock of the same member; move the copy away, then add a \
         new member to its slot",
        path.display(),
        first.display()
    )]
    CopyOfMember {
        /// Path of the member that is a copy of another member.
        path: PathBuf,
        /// The member that was found first.
        first: PathBuf,
    },
    /// Members differ in size.
    #[error("{} is {found} bytes long, but {} is {expected}; all members must have the same size", path.display(), first.display())]
    SizeDiffers {
        /// The member that differs.
        path: PathBuf,
        /// Length of the member in bytes.
        found: u64,
        /// The member to which it is compared.
        first: PathBuf,
        /// Length of the other member in bytes.
        expected: u64,
    },
    /// A member is too small for the metadata and one zone.
    #[error("{} is {found} bytes long; a member must have at least {needed} bytes", path.display())]
    TooSmall {
        /// The member.
        path: PathBuf,
        /// Length of the member in bytes.
        found: u64,
        /// Minimum length in bytes.
        needed: u64,
    },
    /// The number of members does not fit the level.
    #[error("{level} does not support {members} members; it requires {needed}")]
    MemberCount {
        /// The level.
        level: String,
        /// The number of members.
        members: usize,
        /// Permitted numbers of members.
        needed: String,
    },
    /// A member contains data.
    #[error("{} contains {what}; add --force to overwrite it", path.display())]
    HasData {
        /// The member.
        path: PathBuf,
        /// Description of the content that was found.
        what: &'static str,
    },
    /// A member is in use, by this process or another one.
    #[error("{} is in use; stop the process that uses it, or unmount it", .0.display())]
    InUse(PathBuf),
    /// A file has no readable superblock.
    #[error("{} does not have a valid superblock, so it is not an array member; specify an array member", .0.display())]
    NotAMember(PathBuf),
    /// A member belongs to another array.
    #[error("{} and {} belong to different arrays; specify members of the same array", path.display(), first.display())]
    Foreign {
        /// The member.
        path: PathBuf,
        /// A member of the expected array.
        first: PathBuf,
    },
    /// A member was replaced, or has missed writes.
    #[error("{} is stale: the array was written after this member failed or was replaced. Omit this member, \
     or add it as a new member", .0.display())]
    Stale(PathBuf),
    /// Members are missing after a crash.
    #[error(
        "the array was not shut down cleanly and {missing} of its members are missing; force the start to \
         continue without them"
    )]
    DirtyDegraded {
        /// Number of missing members.
        missing: usize,
    },
    /// More members are missing than the level tolerates.
    #[error(
        "{missing} members are missing or failed, which is more than {level} tolerates; reconnect them, or \
         restore the data"
    )]
    TooManyMissing {
        /// The level of the array.
        level: String,
        /// Number of members that are missing or failed.
        missing: usize,
    },
    /// A file that is to become a write log has other content.
    #[error("{} already contains data that is not a write log; specify a different file", .0.display())]
    NotAWriteLog(PathBuf),
    /// A parameter is outside its range.
    #[error("{0}")]
    Parameter(String),
    /// The array was assembled for reads only.
    #[error("the array is open read-only")]
    ReadOnly,
    /// A range of blocks exceeds the array.
    #[error("blocks {first} to {last} are outside the array of {blocks} blocks")]
    OutOfRange {
        /// First block of the range.
        first: u64,
        /// Last block of the range.
        last: u64,
        /// Number of blocks in the array.
        blocks: u64,
    },
}

/// Error returned when a LUN volume's write log cannot be used after a crash. Writes that were flushed since the last
/// consistency point exist only in the log.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum WriteLogError {
    /// The file does not exist.
    #[error(
        "{}: the write log is missing; restore it, or run jetcell raid serve --forget-log to discard the \
         writes that only the log contains",
        .0.display()
    )]
    Missing(PathBuf),
    /// The file is not the log, or both copies of its header are damaged.
    #[error(
        "{}: this is not the write log of the volume; restore the correct log, or run jetcell raid serve \
         --forget-log to discard the writes that only the log contains",
        .0.display()
    )]
    Foreign(PathBuf),
    /// The file is shorter than the log.
    #[error(
        "{}: the write log is damaged: it is {found} bytes long, expected {expected}; restore the complete \
         file, or run jetcell raid serve --forget-log to discard the writes that only the log contains",
        path.display()
    )]
    Shortened {
        /// Path of the log.
        path: PathBuf,
        /// Length of the file in bytes.
        found: u64,
        /// Size of the log in bytes.
        expected: u64,
    },
    /// A record that was acknowledged is damaged, as is its shadow if it must have one.
    #[error(
        "{}: the write log is damaged at byte {offset}; restore an intact copy, or run jetcell raid serve \
         --forget-log to discard the writes that only the log contains",
        path.display()
    )]
    Damaged {
        /// Path of the log.
        path: PathBuf,
        /// Offset of the record in bytes.
        offset: u64,
    },
    /// The records follow a consistency point that is missing from the array.
    #[error(
        "{}: the write log belongs to state {newer} of the LUNs, but the catalogue contains state {point}, \
         so a newer catalogue is damaged; reconnect the members that contain it, or run jetcell raid serve \
         --forget-log to discard the newer state",
        path.display()
    )]
    NewerThanCatalogue {
        /// Path of the log.
        path: PathBuf,
        /// Number of the consistency point that the records follow.
        newer: u64,
        /// Number of the consistency point in the catalogue.
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
