//! Errors of an array: I/O errors of a member, requests that are refused before anything is changed, and more losses
//! than the redundancy covers.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

use jetcell_vfs::io_error_with_advice;
use thiserror::Error;

use crate::geometry::{BLOCK, RaidLevel, ZONE_ROWS};

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
    #[error("row {row}: the checksums are correct, but data and parity do not match; nothing was changed")]
    Inconsistent {
        /// Row number.
        row: u64,
    },
    /// The volume has no free blocks for the write.
    #[error("the volume is full")]
    Full,
    /// The LUN volume cannot be used.
    #[error(transparent)]
    Lun(#[from] LunError),
    /// The write log of the LUN volume cannot be used.
    #[error(transparent)]
    WriteLog(#[from] WriteLogError),
    /// More members failed than the level tolerates. Acknowledged data is unchanged. The array must be assembled
    /// again after its members are back.
    #[error("the array stopped because more members failed than {level} tolerates: {}", names(failed))]
    Stopped {
        /// The level of the array.
        level: RaidLevel,
        /// Members that have failed.
        failed: Vec<PathBuf>,
    },
}

/// Reason why an array request was refused before anything was changed.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ArrayRefusal {
    /// A file is given twice, or is already a member.
    #[error("{} is specified more than once", .0.display())]
    DuplicateMember(PathBuf),
    /// Two files have the superblock of the same member.
    #[error(
        "{} is a copy of {}: both have the superblock of the same member",
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
    #[error("{} is {found} bytes long, but {} is {expected}", path.display(), first.display())]
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
    #[error("{} is too short for a member: it is {found} bytes long", path.display())]
    TooSmall {
        /// The member.
        path: PathBuf,
        /// Length of the member in bytes.
        found: u64,
        /// Minimum length in bytes.
        needed: u64,
    },
    /// The number of members does not fit the level.
    #[error("{level} does not support {members} members")]
    MemberCount {
        /// The level.
        level: RaidLevel,
        /// The number of members.
        members: usize,
    },
    /// The level does not support the number of members after an extension.
    #[error("{level} does not support {members} members")]
    Extension {
        /// The level.
        level: RaidLevel,
        /// The number of members after the extension.
        members: usize,
    },
    /// A member contains data.
    #[error("{} contains {what}", path.display())]
    HasData {
        /// The member.
        path: PathBuf,
        /// Description of the content that was found.
        what: &'static str,
    },
    /// A member is in use, by this process or another one.
    #[error("{} is in use", .0.display())]
    InUse(PathBuf),
    /// A file has no readable superblock.
    #[error("{} does not have a valid superblock, so it is not an array member", .0.display())]
    NotAMember(PathBuf),
    /// A member belongs to another array.
    #[error("{} and {} belong to different arrays", path.display(), first.display())]
    Foreign {
        /// The member.
        path: PathBuf,
        /// A member of the expected array.
        first: PathBuf,
    },
    /// A member was replaced, or has missed writes.
    #[error("{} is stale: the array was written after this member failed or was replaced", .0.display())]
    Stale(PathBuf),
    /// Members are missing after a crash.
    #[error("the array was not shut down cleanly and {missing} of its members are missing")]
    DirtyDegraded {
        /// Number of missing members.
        missing: usize,
    },
    /// More members are missing than the level tolerates.
    #[error("{missing} members are missing or failed, which is more than {level} tolerates")]
    TooManyMissing {
        /// The level of the array.
        level: RaidLevel,
        /// Number of members that are missing or failed.
        missing: usize,
    },
    /// A file that is to become a write log has other content.
    #[error("{} already contains data that is not a write log", .0.display())]
    NotAWriteLog(PathBuf),
    /// The size of a chunk is outside its range.
    #[error("the chunk size must be a power of two and at most {ZONE_ROWS} blocks")]
    ChunkSize,
    /// The size of the journal is outside its range.
    #[error("the journal size must be a power of two and at most 4096 blocks")]
    JournalSize,
    /// A number of bytes is not a whole number of blocks.
    #[error("the size of {0} bytes must be a multiple of {BLOCK}")]
    PartOfABlock(usize),
    /// The size of a write log is below this minimum in bytes, or not a multiple of the block size.
    #[error("the size of a write log must be at least {0} bytes and a multiple of {BLOCK}")]
    WriteLogSize(u64),
    /// The array already has the maximum number of spares. The value is this maximum.
    #[error("an array can have at most {0} spares")]
    TooManySpares(usize),
    /// No member was given.
    #[error("no array member was specified")]
    NoMember,
    /// None of the members can be read.
    #[error("no member of the array can be read")]
    NoReadableMember,
    /// An array that is to be opened only for reading was not shut down cleanly.
    #[error("the array was not shut down cleanly")]
    NotShutDown,
    /// The array has no slot with this number.
    #[error("slot {slot} does not exist")]
    NoSlot {
        /// Number of the slot.
        slot: usize,
        /// Number of slots of the array.
        count: usize,
    },
    /// The slot with this number has no member.
    #[error("slot {0} does not have a member")]
    EmptySlot(usize),
    /// The slot with this number already has a replacement.
    #[error("slot {0} is already being rebuilt")]
    SlotInRebuild(usize),
    /// The array or the LUN is too small for files.
    #[error("the volume has only {blocks} blocks, but files need more than {needed}")]
    TooSmallForFiles {
        /// Number of blocks in the volume.
        blocks: u64,
        /// Number of blocks that the volume must exceed.
        needed: u64,
    },
    /// The array or the LUN does not contain a readable file table.
    #[error("the blocks contain data of another program, or both file tables are damaged")]
    NoFileTable,
    /// The array is too small for LUNs.
    #[error("the array has only {blocks} blocks, but LUNs need more than {needed}")]
    TooSmallForLuns {
        /// Number of blocks in the array.
        blocks: u64,
        /// Number of blocks that the array must exceed.
        needed: u64,
    },
    /// LUNs are to be created on an array that contains data.
    #[error("the array already contains other data")]
    ArrayHasData,
    /// The array does not contain a readable catalogue of LUNs.
    #[error("the array does not contain LUNs, or both catalogues of its LUNs are damaged")]
    NoCatalogue,
    /// The array has no LUNs.
    #[error("the array has no LUNs")]
    NoLuns,
    /// There is no LUN with this name.
    #[error("the volume does not have a LUN {0}")]
    NoLun(String),
    /// There is already a LUN with this name.
    #[error("LUN {0} already exists")]
    LunExists(String),
    /// The LUN has no snapshot with this name.
    #[error("{lun} does not have a snapshot named {name}")]
    NoSnapshot {
        /// Name of the LUN.
        lun: String,
        /// Name of the snapshot.
        name: String,
    },
    /// The LUN already has a snapshot with this name.
    #[error("{lun} already has a snapshot named {name}")]
    SnapshotExists {
        /// Name of the LUN.
        lun: String,
        /// Name of the snapshot.
        name: String,
    },
    /// A LUN or a snapshot cannot have this name.
    #[error("invalid name {name:?}")]
    Name {
        /// The name.
        name: String,
        /// Maximum length of a name in bytes.
        max: usize,
    },
    /// The size of a LUN is zero, or above this maximum in blocks.
    #[error("the size of a LUN must be between 1 and {0} blocks of {BLOCK} bytes")]
    LunSize(u64),
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
        "{}: the write log is missing",
        .0.display()
    )]
    Missing(PathBuf),
    /// The file is not the log, or both copies of its header are damaged.
    #[error(
        "{}: this is not the write log of the volume",
        .0.display()
    )]
    Foreign(PathBuf),
    /// The file is shorter than the log.
    #[error(
        "{}: the write log is damaged: it is {found} bytes long, expected {expected}",
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
        "{}: the write log is damaged at byte {offset}",
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
         so a newer catalogue is damaged",
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

/// Reason why a LUN volume cannot be used.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum LunError {
    /// The catalogue of LUNs and snapshots has no room for another one.
    #[error("the volume's catalogue is full")]
    CatalogueFull,
    /// The block with this number should be a map node, but is damaged.
    #[error("block {0} of the array is not a node of a block map; the volume is damaged")]
    NotAMapNode(u64),
    /// The write log contains a write outside all LUNs.
    #[error("the write log refers to blocks that do not belong to any LUN")]
    WriteOutsideLuns,
    /// A consistency point has reserved too few blocks.
    #[error("a consistency point does not have enough blocks for its maps")]
    TooFewMapBlocks,
    /// A consistency point failed.
    #[error("a consistency point failed")]
    ConsistencyPointFailed,
    /// The LUN was deleted.
    #[error("the LUN was deleted")]
    Deleted,
}

impl ArrayError {
    /// Returns what the user can do about the error, for example `reconnect them, or restore the data`.
    pub fn advice(&self) -> Option<Cow<'static, str>> {
        Some(Cow::Borrowed(match self {
            ArrayError::Refused(refusal) => return refusal.advice(),
            ArrayError::WriteLog(error) => return Some(error.advice().into()),
            ArrayError::Inconsistent { .. } => "scrub the array for details",
            ArrayError::Full => "delete some snapshots or LUNs, trim the file system, or add members",
            ArrayError::Stopped { .. } => "reconnect them, or restore the data",
            ArrayError::Lun(LunError::CatalogueFull) => "delete some snapshots",
            ArrayError::Lun(LunError::ConsistencyPointFailed) => "restart the volume",
            _ => return None,
        }))
    }

    /// Converts the error to an I/O error for the file system on the array. Its text includes the advice.
    pub fn into_io_error(self) -> io::Error {
        let kind = match self {
            ArrayError::Full => io::ErrorKind::StorageFull,
            _ => io::ErrorKind::Other,
        };
        let advice = self.advice();
        io_error_with_advice(kind, self, advice)
    }

    /// Creates the error for a failed access to a file.
    pub fn io(path: &Path, action: &'static str, offset: u64, source: io::Error) -> ArrayError {
        ArrayError::Io { path: path.to_owned(), action, offset, source }
    }
}

fn names(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

impl ArrayRefusal {
    /// Returns what the user can do about the error, for example `specify an array member`.
    pub fn advice(&self) -> Option<Cow<'static, str>> {
        Some(Cow::Borrowed(match self {
            ArrayRefusal::DuplicateMember(_) => "each member must be a separate file",
            ArrayRefusal::CopyOfMember { .. } => "move the copy away, then add a new member to its slot",
            ArrayRefusal::SizeDiffers { .. } => "all members must have the same size",
            ArrayRefusal::TooSmall { needed, .. } => {
                return Some(format!("a member must have at least {needed} bytes").into());
            }
            ArrayRefusal::MemberCount { level, .. } => {
                let (first, last) = (level.member_counts().min(), level.member_counts().max());
                let (first, last) = first.zip(last)?;
                return Some(format!("use {first} to {last} members").into());
            }
            ArrayRefusal::Extension { level: RaidLevel::Mirror, .. } => {
                "create a new array: a mirror cannot be extended"
            }
            ArrayRefusal::Extension { .. } => "add a number of members that the level supports",
            ArrayRefusal::Stale(_) => "omit this member, or add it as a new member",
            ArrayRefusal::ChunkSize
            | ArrayRefusal::JournalSize
            | ArrayRefusal::PartOfABlock(_)
            | ArrayRefusal::WriteLogSize(_)
            | ArrayRefusal::LunSize(_) => "correct this value",
            ArrayRefusal::HasData { .. } => "add --force to overwrite it",
            ArrayRefusal::InUse(_) => "stop the process that uses it, or unmount it",
            ArrayRefusal::NotAMember(_) => "specify an array member",
            ArrayRefusal::Foreign { .. } => "specify members of the same array",
            ArrayRefusal::DirtyDegraded { .. } => "force the start to continue without them",
            ArrayRefusal::TooManyMissing { .. } => "reconnect them, or restore the data",
            ArrayRefusal::NotAWriteLog(_) => "specify a different file",
            ArrayRefusal::NotShutDown => "start it for writing to replay its journal",
            ArrayRefusal::NoSlot { count, .. } => {
                return Some(format!("use a slot from 0 to {}", count.saturating_sub(1)).into());
            }
            ArrayRefusal::SlotInRebuild(_) => "remove the new member first",
            ArrayRefusal::ArrayHasData => "LUNs require a new array",
            ArrayRefusal::NoLuns => "create a LUN with jetcell raid lun create",
            ArrayRefusal::Name { max, .. } => {
                return Some(Cow::Owned(format!(
                    "names must have between 1 and {max} bytes and contain only letters, digits, and - _ ."
                )));
            }
            _ => return None,
        }))
    }
}

impl WriteLogError {
    fn advice(&self) -> String {
        let remedy = match self {
            WriteLogError::Missing(_) => "restore it",
            WriteLogError::Foreign(_) => "restore the correct log",
            WriteLogError::Shortened { .. } => "restore the complete file",
            WriteLogError::Damaged { .. } => "restore an intact copy",
            WriteLogError::NewerThanCatalogue { .. } => "reconnect the members that contain it",
        };
        let discarded = match self {
            WriteLogError::NewerThanCatalogue { .. } => "the newer state",
            _ => "the writes that only the log contains",
        };
        format!("{remedy}, or run jetcell raid serve --forget-log to discard {discarded}")
    }
}
