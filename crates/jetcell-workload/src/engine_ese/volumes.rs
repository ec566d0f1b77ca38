//! Volumes that hold the databases of a plan, and the background threads for each volume.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ese_engine::{WorkerGroup, Workers};
use jetcell_vfs::{Clock, parent_directory};

use crate::engine::Result;
use crate::layout::RunPlan;

/// Maximum number of instances that have threads of their own. Such an instance has five threads, plus one for each
/// maintenance task.
const MAX_DEDICATED_INSTANCES: usize = 1;
/// Number of threads for the first volume. With eight threads, eight databases can have a log write in flight.
const FIRST_VOLUME_THREADS: usize = 8;
/// Number of threads for each additional volume: one for logs and one for pages.
const ADDITIONAL_VOLUME_THREADS: usize = 2;
/// Maximum number of threads. If there are too many volumes for this number of threads, a stalled volume may delay the
/// others.
const MAX_THREADS: usize = 64;

/// Identity of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
enum VolumeIdentity {
    /// Directory of an array.
    Array(PathBuf),
    /// Device number of a file system.
    Device(u64),
    /// Directory whose device is unknown.
    Directory(PathBuf),
}

impl VolumeIdentity {
    fn for_database(database: &Path, arrays: &[PathBuf]) -> VolumeIdentity {
        if let Some(array) = arrays.iter().find(|array| database.starts_with(array)) {
            return VolumeIdentity::Array(array.clone());
        }
        let directory = parent_directory(database);
        match fs::metadata(directory) {
            Ok(metadata) => VolumeIdentity::Device(metadata.dev()),
            Err(_) => VolumeIdentity::Directory(directory.to_path_buf()),
        }
    }
}

/// Returns the volume number of each database in the plan.
pub(super) fn volumes(plan: &RunPlan, arrays: &[PathBuf]) -> Vec<usize> {
    let mut known: Vec<VolumeIdentity> = Vec::new();
    let number = |instance: &crate::layout::InstancePlan| {
        let volume = VolumeIdentity::for_database(&instance.database, arrays);
        known.iter().position(|other| *other == volume).unwrap_or_else(|| {
            known.push(volume);
            known.len() - 1
        })
    };
    plan.instances.iter().map(number).collect()
}

/// Returns the number of background threads for databases on these volumes. Returns `None` if each instance has its
/// own threads.
pub(super) fn threads(volumes: &[usize]) -> Option<usize> {
    let count = volumes.iter().max().map_or(0, |last| last + 1);
    let further = count.saturating_sub(1).saturating_mul(ADDITIONAL_VOLUME_THREADS);
    (volumes.len() > MAX_DEDICATED_INSTANCES).then(|| (FIRST_VOLUME_THREADS + further).min(MAX_THREADS))
}

/// Returns the worker group of each database's volume, or `None` if the instance has its own threads.
pub(super) fn workers(volumes: &[usize], clock: Arc<dyn Clock>) -> Result<Vec<Option<Arc<WorkerGroup>>>> {
    let Some(threads) = threads(volumes) else { return Ok(vec![None; volumes.len()]) };
    let workers = Workers::start(threads, clock)?;
    let count = volumes.iter().max().map_or(0, |last| last + 1);
    let groups: Vec<Arc<WorkerGroup>> = (0..count).map(|_| workers.group()).collect();
    Ok(volumes.iter().map(|volume| groups.get(*volume).cloned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_grow_with_volumes_and_not_with_databases() {
        assert_eq!(threads(&[0]), None);
        assert_eq!(threads(&[0; 2]), Some(8));
        assert_eq!(threads(&[0; 999]), Some(8));
        assert_eq!(threads(&(0..8).collect::<Vec<_>>()), Some(22));
        assert_eq!(threads(&(0..40).collect::<Vec<_>>()), Some(64));
    }

    #[test]
    fn directories_on_one_file_system_share_a_volume() {
        let directory = tempfile::tempdir().unwrap();
        let arrays = [directory.path().join("array")];
        let path_to = |name: &str| directory.path().join(name);
        ["a", "b"].iter().for_each(|name| fs::create_dir(path_to(name)).unwrap());
        let volume_of = |name: &str| VolumeIdentity::for_database(&path_to(name), &arrays);
        assert_eq!(volume_of("a/x.edb"), volume_of("b/y.edb"));
        assert_eq!(volume_of("array/x.edb"), VolumeIdentity::Array(arrays[0].clone()));
        assert_eq!(volume_of("missing/x.edb"), VolumeIdentity::Directory(path_to("missing")));
    }
}
