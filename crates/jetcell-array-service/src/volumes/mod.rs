//! Arrays and LUNs that are mounted for tests: databases and logs are stored on them, in the same process. Results and
//! small state files are stored in the directory of the array, or in a directory below it with the name of the LUN.

mod mounted;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jetcell_host::Cancellation;
use jetcell_host::machine::ArrayStorage;
use jetcell_luns::{HostWriteCounters, Volume};
use jetcell_sync::{Arc, Weak};
use jetcell_vfs::Vfs;

use self::mounted::{MountedVolume, host_writes};
use crate::directory::{ArrayDirectory, is_array};
use crate::environment::ServiceEnvironment;
use crate::error::{Error, Result};
use crate::running::{ArrayInUse, ArraySnapshot};

/// Returns the files that contain an array's data: its members and its write log. `directory` may also name a LUN.
///
/// # Errors
/// Returns an error if the directory does not belong to an array.
pub fn files_of_array(directory: &Path) -> Result<Vec<PathBuf>> {
    let (array, _) = array_and_lun(directory);
    let found = ArrayDirectory::open(&array)?;
    let mut all = found.members;
    all.extend(found.write_log.or_else(|| Some(array.clone())));
    all.retain(|path| path.exists());
    Ok(all)
}

/// The arrays used by a run, and the maintenance that runs concurrently: rebuilds and LUN consistency points.
#[derive(Default)]
pub struct ArrayVolumes {
    mounted: Vec<MountedVolume>,
    stop: Cancellation,
}

/// Access to the counters of mounted arrays. Holding this value does not keep an array in use.
#[derive(Clone)]
pub struct WatchedArrays(Vec<(Weak<ArrayInUse>, Vec<Volume>)>);

impl WatchedArrays {
    /// Returns true if there are no arrays.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the most recent state of each array, and the test's writes to it.
    pub fn read(&self) -> impl Iterator<Item = (ArraySnapshot, HostWriteCounters)> {
        self.0.iter().filter_map(|(used, volumes)| Some((used.upgrade()?.snapshot(), host_writes(volumes))))
    }
}

/// Splits a test directory into the array and, if given, one of its LUNs.
fn array_and_lun(directory: &Path) -> (PathBuf, Option<String>) {
    let parent = directory.parent().filter(|parent| !is_array(directory) && is_array(parent));
    let lun = directory.file_name().and_then(|name| name.to_str());
    match parent.zip(lun) {
        Some((array, lun)) => (array.to_path_buf(), Some(lun.to_string())),
        None => (directory.to_path_buf(), None),
    }
}

impl ArrayVolumes {
    /// Starts the arrays. Each argument is the directory of an array, or `DIRECTORY/LUN`. Members that need a rebuild,
    /// now or later, are rebuilt while the load runs. `environment` is called only if there is an array.
    ///
    /// # Errors
    /// Returns an error if an array cannot start, or if its content does not match the given directories.
    pub fn mount<E: From<Error>>(
        directories: Vec<PathBuf>,
        environment: impl FnOnce() -> std::result::Result<ServiceEnvironment, E>,
    ) -> std::result::Result<ArrayVolumes, E> {
        let mut volumes = ArrayVolumes::default();
        if directories.is_empty() {
            return Ok(volumes);
        }
        let environment = environment()?;
        let mut luns_of: BTreeMap<PathBuf, BTreeMap<PathBuf, Option<String>>> = BTreeMap::new();
        for directory in directories {
            let (array, lun) = array_and_lun(&directory);
            luns_of.entry(array).or_default().insert(directory, lun);
        }
        for (array, directories) in luns_of {
            match MountedVolume::mount(array, directories, &volumes.stop, &environment) {
                Ok(mounted) => volumes.mounted.push(mounted),
                Err(failure) => {
                    // The arrays before the failed one have already been started. The first error is reported.
                    let _ = volumes.close();
                    return Err(failure.into());
                }
            }
        }
        Ok(volumes)
    }

    /// Returns the volumes with their directories.
    pub fn mounts(&self) -> Vec<(PathBuf, Arc<dyn Vfs>)> {
        let volumes = self.mounted.iter().flat_map(|mounted| &mounted.volumes);
        volumes
            .map(|(directory, volume)| (directory.clone(), Arc::new(volume.clone()) as Arc<dyn Vfs>))
            .collect()
    }

    /// Returns the directories, each with a description of the array or LUN that stores its files.
    pub fn storage(&self) -> Vec<(PathBuf, ArrayStorage)> {
        self.mounted.iter().flat_map(|mounted| mounted.storage.iter().cloned()).collect()
    }

    /// Returns access to the counters of the arrays.
    pub fn watch(&self) -> WatchedArrays {
        WatchedArrays(self.mounted.iter().map(MountedVolume::watch).collect())
    }

    /// Shuts all arrays down, even if one of them fails.
    ///
    /// # Errors
    /// Returns an error if an array failed, or if files on it are still in use.
    pub fn close(self) -> Result<()> {
        self.stop.cancel();
        let mut closed = Ok(());
        for mounted in self.mounted {
            closed = closed.and(mounted.close());
        }
        closed
    }
}
