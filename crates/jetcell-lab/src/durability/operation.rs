//! Operations of the writer, and their names in a verdict.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Size of a block in bytes, which is the smallest transfer.
pub(super) const BLOCK: usize = 4096;

/// Number of an operation in its script, starting at 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OperationNumber(pub u64);

impl OperationNumber {
    pub(super) fn next(self) -> OperationNumber {
        OperationNumber(self.0 + 1)
    }
}

/// The kinds of operations that a verdict counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OperationKind {
    /// A new file.
    Create,
    /// Write of blocks after the end of a file.
    Append,
    /// Overwrite of existing blocks.
    Overwrite,
    /// Allocation of space for a file.
    Preallocate,
    /// Write of blocks in preallocated space, as a database writes its log.
    LogWrite,
    /// Replacement of a name by a new name.
    Rename,
    /// Additional name for a file.
    Link,
    /// Removal of a name.
    Unlink,
    /// A durable commit of the ESE engine.
    Transaction,
}

impl OperationKind {
    /// All kinds, in the order of the verdict.
    pub const ALL: [OperationKind; 9] = [
        OperationKind::Create,
        OperationKind::Append,
        OperationKind::Overwrite,
        OperationKind::Preallocate,
        OperationKind::LogWrite,
        OperationKind::Rename,
        OperationKind::Link,
        OperationKind::Unlink,
        OperationKind::Transaction,
    ];

    /// Returns the human-readable name of the kind.
    pub fn name(self) -> &'static str {
        match self {
            OperationKind::Create => "create",
            OperationKind::Append => "append",
            OperationKind::Overwrite => "overwrite",
            OperationKind::Preallocate => "preallocate",
            OperationKind::LogWrite => "preallocated log write",
            OperationKind::Rename => "rename",
            OperationKind::Link => "link",
            OperationKind::Unlink => "unlink",
            OperationKind::Transaction => "engine transaction",
        }
    }
}

/// One operation. Paths are relative to the directory of the test. Buffered writes go through the page cache.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Operation {
    Create { path: PathBuf },
    Write { path: PathBuf, block: u64, blocks: u64, kind: OperationKind, buffered: bool },
    Preallocate { path: PathBuf, blocks: u64 },
    Rename { from: PathBuf, to: PathBuf },
    Link { from: PathBuf, to: PathBuf },
    Unlink { path: PathBuf },
    SyncFile { path: PathBuf },
    SyncDirectory { path: PathBuf },
    Commit { row: i32 },
}

impl Operation {
    /// Returns the kind under which the operation is counted; `None` for a sync.
    pub(super) fn kind(&self) -> Option<OperationKind> {
        Some(match self {
            Operation::Create { .. } => OperationKind::Create,
            Operation::Write { kind, .. } => *kind,
            Operation::Preallocate { .. } => OperationKind::Preallocate,
            Operation::Rename { .. } => OperationKind::Rename,
            Operation::Link { .. } => OperationKind::Link,
            Operation::Unlink { .. } => OperationKind::Unlink,
            Operation::Commit { .. } => OperationKind::Transaction,
            Operation::SyncFile { .. } | Operation::SyncDirectory { .. } => return None,
        })
    }

    /// Returns true if completion of the operation promises durability.
    pub(super) fn promises(&self) -> bool {
        matches!(
            self,
            Operation::SyncFile { .. } | Operation::SyncDirectory { .. } | Operation::Commit { .. }
        )
    }
}

/// Returns the parent directory of a path.
pub(super) fn directory_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}
