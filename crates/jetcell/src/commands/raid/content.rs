//! What an array holds for its users: blocks of its own, or LUNs.

use std::path::PathBuf;

use jetcell_array::{Array, ArrayError, LogOptions, LunVolume, Volume};

use super::running_array::{ArrayFiles, RunningArray, Start};
use crate::outcome::Failure;

/// Name of the write log in the directory of an array.
const WRITE_LOG: &str = "write-log";

/// A started array with what is on it.
pub enum Content {
    Array(Box<Array>),
    Luns(Box<LunVolume>),
}

impl Content {
    /// The array, for its members and its state.
    pub fn array(&mut self) -> &mut Array {
        match self {
            Content::Array(array) => array,
            Content::Luns(volume) => volume.array(),
        }
    }

    /// Makes all writes durable on the array itself.
    pub fn commit(&mut self) -> Result<(), ArrayError> {
        match self {
            Content::Array(array) => array.flush(),
            Content::Luns(volume) => volume.consistency_point(),
        }
    }

    pub fn close(self) -> Result<(), ArrayError> {
        match self {
            Content::Array(array) => array.close(),
            Content::Luns(volume) => volume.close(),
        }
    }
}

/// Where the write log of an array is.
pub fn log_options(running: &RunningArray, forget: bool) -> LogOptions {
    let directory = &running.files.directory;
    let path: PathBuf = directory.write_log.clone().unwrap_or_else(|| directory.path.join(WRITE_LOG));
    LogOptions { forget, ..LogOptions::new(running.vfs.clone(), path) }
}

/// Starts an array with what is on it.
///
/// # Errors
/// The array cannot start, or holds databases of tests.
pub fn start_with_content(start: &Start, forget_log: bool) -> Result<(Content, ArrayFiles), Failure> {
    let mut running = start.start()?;
    let shown = start.array.display().to_string();
    let failed = |error: ArrayError| Failure::from(format!("{shown}: {error}"));
    let holds_luns = LunVolume::is_on(&mut running.array).map_err(failed)?;
    if !holds_luns && Volume::is_on(&mut running.array).map_err(failed)? {
        running.close()?;
        return Err(format!(
            "{shown}: the array holds databases of tests (--dir array:{shown}); use another array, or destroy it"
        )
        .into());
    }
    let log = log_options(&running, forget_log);
    let RunningArray { array, files, .. } = running;
    if !holds_luns {
        return Ok((Content::Array(Box::new(array)), files));
    }
    let volume = LunVolume::start(array, &log).map_err(failed)?;
    Ok((Content::Luns(Box::new(volume)), files))
}
