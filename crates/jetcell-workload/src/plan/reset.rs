//! Determines whether a run restores the databases, preserves their state, or must be refused.

use std::path::Path;

use jetcell_vfs::parent_directory;

use crate::engine::StorageEngine;
use crate::layout::InstancePlan;
use crate::prepared::{self, PreparedState};
use crate::profile::{DatabaseSource, Profile, ResetMethod};
use crate::start_error::StartError;

/// Returns the preserved files that the run restores, as instances. Returns `None` if the run does not restore
/// databases.
pub(super) fn find(
    profile: &Profile,
    engine: &dyn StorageEngine,
    instances: &[InstancePlan],
) -> Result<Option<Vec<InstancePlan>>, StartError> {
    let Some(first) = profile.dirs.first() else { return Ok(None) };
    let kept = match profile.source {
        // If the databases are replaced, so is their preserved state.
        DatabaseSource::Replace => None,
        _ => PreparedState::read(first)?,
    };
    if let (DatabaseSource::New, Some(_)) = (profile.source, &kept) {
        return Err(StartError::HasPreservedState(first.clone()));
    }
    let Some(method) = profile.reset else {
        return match kept {
            Some(kept) if kept.was_interrupted() => Err(StartError::InterruptedRestore(first.clone())),
            _ => Ok(None),
        };
    };
    for instance in instances {
        if engine.array_of(&instance.database).is_some() || engine.array_of(&instance.log_dir).is_some() {
            return Err(StartError::ResetOnArray);
        }
        for place in [parent_directory(&instance.database), &instance.log_dir] {
            let there = place.ancestors().find(|path| path.is_dir()).unwrap_or(Path::new("."));
            if method == ResetMethod::Snapshot && !prepared::can_share_blocks(there) {
                return Err(StartError::NoSharedBlocks(there.into()));
            }
        }
    }
    match kept {
        Some(kept) if profile.source == DatabaseSource::Open => kept.preserved_instances(instances).map(Some),
        _ => Ok(None),
    }
}
