//! Results of array operations, as data. The process that uses the array sends them to the requesting process.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::request::SnapshotChange;
use crate::description::ArrayHealth;

/// Result of an array operation.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names describe the variants and their fields")]
pub enum OperationResult {
    /// The slot lost its member. A spare may take the member's place.
    MemberRemoved {
        slot: usize,
        health: ArrayHealth,
        #[serde(serialize_with = "jetcell_input::serialize_optional_path")]
        replacement: Option<PathBuf>,
    },
    SparesAdded(#[serde(serialize_with = "jetcell_input::serialize_paths")] Vec<PathBuf>),
    Rebuilt(RebuildResult),
    Scrubbed(ScrubResult),
    /// Members and their space were added. If `is_lun_volume` is set, LUNs can use the space at once. Otherwise, the
    /// space is visible after the next start of the array.
    Grown {
        slots: usize,
        bytes: u64,
        is_lun_volume: bool,
    },
    LunCreated {
        lun: String,
        bytes: u64,
    },
    Luns {
        free_bytes: u64,
        luns: Vec<LunSummary>,
    },
    LunsCleaned {
        blocks_moved: u64,
        free_rows: u64,
        free_rows_before: u64,
    },
    LunDeleted {
        lun: String,
    },
    SnapshotChanged {
        lun: String,
        snapshot: String,
        change: SnapshotChange,
    },
    Snapshots(Vec<SnapshotSummary>),
}

/// Result of a rebuild.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RebuildResult {
    /// Bytes written to replacements.
    pub bytes: u64,
    /// Duration in seconds.
    pub seconds: f64,
    /// Number of rows that could not be recovered.
    pub rows_lost: u64,
    /// False if the rebuild was interrupted.
    pub is_complete: bool,
    /// Health of the array after the rebuild.
    pub health: ArrayHealth,
}

/// Result of a scrub.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ScrubResult {
    /// False if the pass was interrupted.
    pub is_complete: bool,
    /// Duration in seconds.
    pub seconds: f64,
    /// Number of zones that were read.
    pub zones: u64,
    /// Number of rows that were verified.
    pub rows: u64,
    /// Number of blocks that were written back.
    pub repaired: u64,
    /// Slots with damaged or stale blocks.
    pub damaged: Vec<DamagedSlot>,
    /// Rows with too many damaged blocks.
    pub unrecoverable_rows: Vec<u64>,
    /// Rows in which all checksums are correct but parity is wrong.
    pub disagreements: Vec<ParityDisagreement>,
}

/// A slot with damaged or stale blocks.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names describe the fields")]
pub struct DamagedSlot {
    pub slot: usize,
    #[serde(serialize_with = "jetcell_input::serialize_path")]
    pub member: PathBuf,
    pub blocks: u64,
}

/// A row in which parity disagrees with data.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ParityDisagreement {
    /// Number of the row.
    pub row: u64,
    /// Slot that would explain the disagreement.
    pub suspect: Option<usize>,
    /// Whether parity was recomputed.
    pub repaired: bool,
}

/// A LUN with the space that it uses.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LunSummary {
    /// Name of the LUN.
    pub name: String,
    /// Size as clients see it.
    pub bytes: u64,
    /// Bytes of the array to which the current state refers.
    pub used_bytes: u64,
    /// Number of snapshots.
    pub snapshots: usize,
}

/// A snapshot of a LUN.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SnapshotSummary {
    /// Name of the LUN.
    pub lun: String,
    /// Name of the snapshot.
    pub snapshot: String,
    /// Time of creation in seconds since 1970.
    pub created: u64,
}

impl OperationResult {
    /// Returns false if the operation found damage, or did not complete its work.
    pub fn is_good(&self) -> bool {
        match self {
            OperationResult::Rebuilt(rebuild) => rebuild.is_complete && rebuild.rows_lost == 0,
            OperationResult::Scrubbed(scrub) => {
                scrub.is_complete
                    && scrub.damaged.is_empty()
                    && scrub.unrecoverable_rows.is_empty()
                    && scrub.disagreements.is_empty()
            }
            _ => true,
        }
    }
}

#[cfg(test)]
#[path = "result_tests.rs"]
mod tests;
