//! Storage that a test cannot measure.

use std::path::PathBuf;

use jetcell_input::number::human_bytes;
use thiserror::Error;

/// Reason why a test cannot measure the storage at a path.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UnsuitableStorage {
    /// The path is on tmpfs or ramfs, that is, in memory. Contains the path and the type of its file system.
    #[error("{} is on {}, which is memory, not storage", .0.display(), .1)]
    InMemory(PathBuf, String),
    /// The file system cannot bypass the page cache.
    #[error("{}: the file system does not support direct I/O (O_DIRECT), so the test would measure memory", .0.display())]
    NoDirectIo(PathBuf),
    /// There is not enough free space.
    #[error("{}: the test needs {} but only {} is free", .path.display(), human_bytes(*.needed), human_bytes(*.free))]
    NoSpace {
        /// The path.
        path: PathBuf,
        /// Number of bytes that the test needs.
        needed: u64,
        /// Number of free bytes.
        free: u64,
    },
}
