//! The volumes under the databases of a plan, and the threads for the background work on each.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ese_engine::{WorkerGroup, Workers};
use jetcell_vfs::Clock;

use crate::engine::Result;
use crate::layout::Plan;

/// An instance without others has threads of its own: five, and one for each task of maintenance.
const OWN_THREADS: usize = 1;
/// Threads for the instances of the first volume: a log write of each of eight databases can be under way.
const FIRST_VOLUME: usize = 8;
/// Threads for each further volume: one for logs and one for pages.
const FURTHER_VOLUME: usize = 2;
/// With more volumes than these have threads for, a volume that stands still may delay others.
const MOST_THREADS: usize = 64;

/// What tells two volumes apart.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Volume {
    /// Directory of an array.
    Array(PathBuf),
    /// Device number of a file system.
    Device(u64),
    /// A directory about which nothing is known.
    Directory(PathBuf),
}

impl Volume {
    fn of(database: &Path, arrays: &[PathBuf]) -> Volume {
        if let Some(array) = arrays.iter().find(|array| database.starts_with(array)) {
            return Volume::Array(array.clone());
        }
        let directory = database.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
        match fs::metadata(directory) {
            Ok(metadata) => Volume::Device(metadata.dev()),
            Err(_) => Volume::Directory(directory.to_path_buf()),
        }
    }
}

/// For each database of the plan the place of its volume among all volumes.
pub(super) fn volumes(plan: &Plan, arrays: &[PathBuf]) -> Vec<usize> {
    let mut known: Vec<Volume> = Vec::new();
    let number = |instance: &crate::layout::InstancePlan| {
        let volume = Volume::of(&instance.database, arrays);
        known.iter().position(|other| *other == volume).unwrap_or_else(|| {
            known.push(volume);
            known.len() - 1
        })
    };
    plan.instances.iter().map(number).collect()
}

/// The number of threads for the background work of databases on these volumes; `None`: each has threads of its own.
pub(super) fn threads(volumes: &[usize]) -> Option<usize> {
    let count = volumes.iter().max().map_or(0, |last| last + 1);
    let further = count.saturating_sub(1).saturating_mul(FURTHER_VOLUME);
    (volumes.len() > OWN_THREADS).then(|| (FIRST_VOLUME + further).min(MOST_THREADS))
}

/// For each database the share of its volume in the threads; `None`: it has threads of its own.
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
    fn databases_in_directories_of_one_file_system_are_on_one_volume() {
        let directory = tempfile::tempdir().unwrap();
        let arrays = [directory.path().join("array")];
        let at = |name: &str| directory.path().join(name);
        ["a", "b"].iter().for_each(|name| fs::create_dir(at(name)).unwrap());
        let of = |name: &str| Volume::of(&at(name), &arrays);
        assert_eq!(of("a/x.edb"), of("b/y.edb"));
        assert_eq!(of("array/x.edb"), Volume::Array(arrays[0].clone()));
        assert_eq!(of("missing/x.edb"), Volume::Directory(at("missing")));
    }
}
