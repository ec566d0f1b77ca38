//! Operations on snapshots of LUNs.

use std::time::{SystemTime, UNIX_EPOCH};

use jetcell_luns::LunVolume;
use serde_json::json;

use super::context::OperationContext;
use super::request::{SnapshotChange, SnapshotName};
use super::result::{OperationResult, SnapshotSummary};
use crate::directory::ArrayEventSeverity;
use crate::error::Result;

impl SnapshotName {
    /// Performs the operation and records an event.
    pub(super) fn perform(
        &self,
        on: &OperationContext<'_>,
        change: &SnapshotChange,
    ) -> Result<OperationResult> {
        let SnapshotName { lun, snapshot } = self;
        let event = match change {
            SnapshotChange::Create => "snapshot_created",
            SnapshotChange::Delete => "snapshot_deleted",
            SnapshotChange::RollBack => {
                on.refuse_used_lun(lun)?;
                "snapshot_rolled_back"
            }
            SnapshotChange::Clone(_) => "snapshot_cloned",
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        on.with_lun_volume(|volume| match change {
            SnapshotChange::Create => volume.create_snapshot(lun, snapshot, now),
            SnapshotChange::Delete => volume.delete_snapshot(lun, snapshot),
            SnapshotChange::RollBack => volume.roll_back(lun, snapshot),
            SnapshotChange::Clone(new) => volume.clone_snapshot(lun, snapshot, new),
        })?;
        let text = format!("Snapshot {snapshot} of {lun} {}.", change.describe());
        let figures = json!({ "lun": lun, "snapshot": snapshot });
        on.event(event, ArrayEventSeverity::Information, &text, figures);
        let (lun, snapshot, change) = (lun.clone(), snapshot.clone(), change.clone());
        Ok(OperationResult::SnapshotChanged { lun, snapshot, change })
    }
}

/// Returns the snapshots of all LUNs.
pub(super) fn list(on: &OperationContext<'_>) -> Result<OperationResult> {
    let luns = on.with_lun_volume(LunVolume::luns)?;
    let of_lun = |lun: jetcell_luns::LunStatus| {
        let name = lun.name;
        lun.snapshots.into_iter().map(move |snapshot| SnapshotSummary {
            lun: name.clone(),
            snapshot: snapshot.name,
            created: snapshot.created,
        })
    };
    Ok(OperationResult::Snapshots(luns.into_iter().flat_map(of_lun).collect()))
}
