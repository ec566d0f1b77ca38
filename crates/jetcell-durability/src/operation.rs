//! The writer's operations, and their names in a verdict.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Block size in bytes, which is also the smallest transfer size.
pub(crate) const BLOCK_BYTES: usize = 4096;

/// Number of an operation in the script of a durability test, starting at 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OperationNumber(pub u64);

impl OperationNumber {
    pub(crate) fn next(self) -> OperationNumber {
        OperationNumber(self.0 + 1)
    }
}

/// A kind of operation that a durability test counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StorageOperationKind {
    /// Creation of a file.
    Create,
    /// Write of blocks at the end of a file.
    Append,
    /// Overwrite of existing blocks.
    Overwrite,
    /// Allocation of space for a file.
    Preallocate,
    /// Write of blocks in preallocated space, as when a database writes its log.
    LogWrite,
    /// Change of a file's name.
    Rename,
    /// Additional name for a file.
    Link,
    /// Removal of a name.
    Unlink,
    /// A durable ESE engine commit.
    Transaction,
}

impl StorageOperationKind {
    /// All kinds, in the order in which a verdict lists them.
    pub const ALL: [StorageOperationKind; 9] = [
        StorageOperationKind::Create,
        StorageOperationKind::Append,
        StorageOperationKind::Overwrite,
        StorageOperationKind::Preallocate,
        StorageOperationKind::LogWrite,
        StorageOperationKind::Rename,
        StorageOperationKind::Link,
        StorageOperationKind::Unlink,
        StorageOperationKind::Transaction,
    ];

    /// Returns the kind's human-readable name.
    pub fn name(self) -> &'static str {
        match self {
            StorageOperationKind::Create => "create",
            StorageOperationKind::Append => "append",
            StorageOperationKind::Overwrite => "overwrite",
            StorageOperationKind::Preallocate => "preallocate",
            StorageOperationKind::LogWrite => "preallocated log write",
            StorageOperationKind::Rename => "rename",
            StorageOperationKind::Link => "link",
            StorageOperationKind::Unlink => "unlink",
            StorageOperationKind::Transaction => "engine transaction",
        }
    }
}

/// One storage operation. Paths are relative to the test's directory. Buffered writes go through the page cache.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum StorageOperation {
    Create { path: PathBuf },
    Write { path: PathBuf, block: u64, blocks: u64, kind: StorageOperationKind, buffered: bool },
    Preallocate { path: PathBuf, blocks: u64 },
    Rename { from: PathBuf, to: PathBuf },
    Link { from: PathBuf, to: PathBuf },
    Unlink { path: PathBuf },
    SyncFile { path: PathBuf },
    SyncDirectory { path: PathBuf },
    Commit { row: i32 },
}

impl StorageOperation {
    /// Returns the kind under which the operation is counted, or `None` for a sync.
    pub(crate) fn kind(&self) -> Option<StorageOperationKind> {
        Some(match self {
            StorageOperation::Create { .. } => StorageOperationKind::Create,
            StorageOperation::Write { kind, .. } => *kind,
            StorageOperation::Preallocate { .. } => StorageOperationKind::Preallocate,
            StorageOperation::Rename { .. } => StorageOperationKind::Rename,
            StorageOperation::Link { .. } => StorageOperationKind::Link,
            StorageOperation::Unlink { .. } => StorageOperationKind::Unlink,
            StorageOperation::Commit { .. } => StorageOperationKind::Transaction,
            StorageOperation::SyncFile { .. } | StorageOperation::SyncDirectory { .. } => return None,
        })
    }

    /// Returns true if the operation promises durability when it completes.
    pub(crate) fn promises_durability(&self) -> bool {
        matches!(
            self,
            StorageOperation::SyncFile { .. }
                | StorageOperation::SyncDirectory { .. }
                | StorageOperation::Commit { .. }
        )
    }
}

/// Returns the parent directory of a path.
pub(crate) fn directory_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}
