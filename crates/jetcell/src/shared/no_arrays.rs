//! Replacement for `array_volumes` in a build without the `arrays` feature: directories that name arrays are
//! rejected.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jetcell_host::machine::ArrayStorage;
use jetcell_vfs::Vfs;
use jetcell_workload::TestKind;
use jetcell_workload::measurement::ArrayCounters;

use crate::disabled_command::disabled_feature_error;
use crate::outcome::CommandResult;

/// Fails if a directory names an array.
pub fn resolve_array_directories(directories: &mut [PathBuf]) -> CommandResult<Vec<PathBuf>> {
    let names_array =
        |directory: &&mut PathBuf| directory.to_str().is_some_and(|text| text.starts_with("array:"));
    match directories.iter_mut().find(names_array) {
        None => Ok(vec![]),
        Some(directory) => {
            let what = format!("--dir {}", directory.display());
            Err(disabled_feature_error(&what, "arrays"))
        }
    }
}

/// Returns no files, because no directory is an array.
#[cfg(feature = "lab")]
pub fn files_of_array(directory: &Path) -> CommandResult<Vec<PathBuf>> {
    Err(disabled_feature_error(&format!("array:{}", directory.display()), "arrays"))
}

/// Accepts every test, because there are no arrays.
pub fn check_test(_: TestKind, _: Option<&Path>, _: &[PathBuf]) -> CommandResult<()> {
    Ok(())
}

/// An empty set of array volumes, for builds without arrays.
pub struct ArrayVolumes;

/// Returns an empty set of volumes without starting an array.
pub fn mount_arrays(_: Vec<PathBuf>) -> CommandResult<ArrayVolumes> {
    Ok(ArrayVolumes)
}

/// Returns no counters.
pub fn array_counters(_: &ArrayVolumes) -> Option<Arc<dyn Fn() -> ArrayCounters + Send + Sync>> {
    None
}

impl ArrayVolumes {
    /// Returns no volumes.
    pub fn mounts(&self) -> Vec<(PathBuf, Arc<dyn Vfs>)> {
        vec![]
    }

    /// Returns no arrays.
    pub fn storage(&self) -> Vec<(PathBuf, ArrayStorage)> {
        vec![]
    }

    /// Does nothing, because no array was started.
    pub fn close(self) -> CommandResult<()> {
        Ok(())
    }
}
