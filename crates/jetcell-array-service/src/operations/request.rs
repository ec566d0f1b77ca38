//! Requests for array operations, as data. A process sends them to the process that uses the array.

use std::path::PathBuf;

use jetcell_input::quantity::{ByteRate, ByteSize};
use serde::{Deserialize, Serialize};

/// An operation that can be performed on an array.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArrayOperation {
    /// Removes a member, given as its path or the number of its slot, as if it had failed.
    Fail {
        /// The member.
        member: String,
    },
    /// Replaces the member of a slot, and rebuilds or copies its data.
    Replace {
        /// The old member, given as its path or the number of its slot.
        member: String,
        /// The new member.
        new: NewMembers,
        /// Maximum rate of the rebuild.
        rate: Option<ByteRate>,
    },
    /// Adds spares.
    AddSpare(NewMembers),
    /// Continues a rebuild, or starts it on a spare.
    Rebuild {
        /// Maximum rate of the rebuild.
        rate: Option<ByteRate>,
    },
    /// Reads and verifies all blocks, and repairs damaged blocks.
    Scrub {
        /// Maximum rate, in bytes of array data.
        rate: Option<ByteRate>,
    },
    /// Adds members and their space.
    Grow(NewMembers),
    /// Creates a LUN.
    CreateLun(NewLun),
    /// Lists the LUNs.
    ListLuns,
    /// Consolidates blocks to free whole rows.
    CleanLuns,
    /// Deletes the LUN with this name.
    DeleteLun(String),
    /// Performs an operation on a snapshot of a LUN.
    Snapshot(SnapshotName, SnapshotChange),
    /// Lists the snapshots of all LUNs.
    ListSnapshots,
}

/// Request for an array operation: the operation, its array, and the directory for relative paths.
#[derive(Serialize, Deserialize)]
pub(crate) struct ControlRequest {
    /// Array name as given by the user.
    pub array: String,
    /// The user's working directory.
    pub directory: PathBuf,
    pub operation: ArrayOperation,
}

/// Files and devices that are to become members of an array.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NewMembers {
    /// Files or block devices of the same size as the other members.
    pub files: Vec<PathBuf>,
    /// Size of missing files, which are created. `None` if missing files are refused.
    pub size: Option<ByteSize>,
    /// Whether to use files that hold data or belong to an array. Their content is destroyed.
    pub force: bool,
}

/// Request to create a LUN.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NewLun {
    /// Name of the LUN: letters, digits, and - _ .
    pub name: String,
    /// Size of the LUN, a multiple of the block size.
    pub size: ByteSize,
    /// File of the write log, for the first LUN.
    pub log: Option<PathBuf>,
    /// Size of the write log, for the first LUN.
    pub log_size: ByteSize,
}

/// Name of a snapshot, together with its LUN.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SnapshotName {
    /// Name of the LUN.
    pub lun: String,
    /// Name of the snapshot: letters, digits, and - _ .
    pub snapshot: String,
}

/// An operation on a snapshot of a LUN.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SnapshotChange {
    /// Creates the snapshot.
    Create,
    /// Deletes the snapshot.
    Delete,
    /// Restores the state of the LUN from the snapshot.
    RollBack,
    /// Creates a LUN with this name that shares the blocks of the snapshot.
    Clone(String),
}

impl SnapshotChange {
    /// Describes the completed change, for example `was created`.
    pub fn describe(&self) -> String {
        match self {
            SnapshotChange::Create => "was created".into(),
            SnapshotChange::Delete => "was deleted".into(),
            SnapshotChange::RollBack => "is the current state of its LUN".into(),
            SnapshotChange::Clone(new) => format!("is shared by the LUN {new}"),
        }
    }
}
