//! Replacement for `array_volumes` in a build without the `arrays` feature: directories that name arrays are
//! rejected.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jetcell_vfs::Vfs;
use jetcell_workload::measurement::ArrayCounters;
use jetcell_workload::{Mistake, TestKind};

use crate::not_built::not_built;
use crate::outcome::Failure;

/// Fails if a directory names an array.
pub fn of_directories(directories: &mut [PathBuf]) -> Result<Vec<PathBuf>, Vec<Mistake>> {
    let names_array =
        |directory: &&mut PathBuf| directory.to_str().is_some_and(|text| text.starts_with("array:"));
    match directories.iter_mut().find(names_array) {
        None => Ok(vec![]),
        Some(directory) => {
            let what = format!("--dir {}", directory.display());
            Err(vec![Mistake::new(not_built(&what, "arrays").to_string())])
        }
    }
}

/// Returns no files, because no directory is an array.
#[cfg(feature = "lab")]
pub fn files_of_array(directory: &Path) -> Result<Vec<PathBuf>, Failure> {
    Err(not_built(&format!("array:{}", directory.display()), "arrays"))
}

/// Accepts every test, because there are no arrays.
pub fn check_test(_: TestKind, _: Option<&Path>, _: &[PathBuf]) -> Result<(), Vec<Mistake>> {
    Ok(())
}

/// An empty set of volumes.
pub struct ArrayVolumes;

impl ArrayVolumes {
    /// Returns an empty set of volumes without starting an array.
    pub fn mount(_: Vec<PathBuf>) -> Result<ArrayVolumes, Failure> {
        Ok(ArrayVolumes)
    }

    /// Returns no volumes.
    pub fn mounts(&self) -> Vec<(PathBuf, Arc<dyn Vfs>)> {
        vec![]
    }

    /// Returns no counters.
    pub fn counters(&self) -> Option<Arc<dyn Fn() -> ArrayCounters + Send + Sync>> {
        None
    }

    /// Does nothing, because no array was started.
    pub fn close(self) -> Result<(), Failure> {
        Ok(())
    }
}
