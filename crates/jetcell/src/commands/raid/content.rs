//! Content of an array: blocks, or LUNs.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jetcell_array::{Array, ArrayError, LoadMeter, LogOptions, LunVolume, SharedLuns, Volume};
use jetcell_vfs::Vfs;

use super::operated::{Held, Holder};
use super::running_array::{ArrayFiles, RunningArray, Start};
use crate::outcome::Failure;

/// Name of the write log in an array's directory.
const WRITE_LOG: &str = "write-log";

/// A started array with its content.
pub enum Content {
    Array(Box<Array>),
    Luns(Box<LunVolume>),
}

impl Content {
    /// Returns the array, to access its members and its state.
    pub fn array(&mut self) -> &mut Array {
        match self {
            Content::Array(array) => array,
            Content::Luns(volume) => volume.array(),
        }
    }

    pub fn close(self) -> Result<(), ArrayError> {
        match self {
            Content::Array(array) => array.close(),
            Content::Luns(volume) => volume.close(),
        }
    }
}

/// A started array with its content and its files.
pub struct Running {
    pub content: Content,
    pub vfs: Arc<dyn Vfs>,
    pub files: ArrayFiles,
}

/// Content that several threads share. A lock serializes their accesses.
pub struct Shared {
    content: Mutex<Option<Content>>,
    load: LoadMeter,
}

impl Shared {
    pub fn new(mut content: Content) -> Arc<Shared> {
        let load = content.array().load_meter();
        Arc::new(Shared { content: Mutex::new(Some(content)), load })
    }

    /// Returns the meter for reads and flushes. The metered times include waits for other threads.
    pub fn load(&self) -> &LoadMeter {
        &self.load
    }

    fn lock(&self) -> MutexGuard<'_, Option<Content>> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `call` on the content. Returns `None` if the array has been closed.
    pub fn with<T>(&self, call: impl FnOnce(&mut Content) -> T) -> Option<T> {
        self.lock().as_mut().map(call)
    }

    /// Shuts the array down. It cannot be used afterwards.
    pub fn close(&self, files: &mut ArrayFiles) -> Result<(), Failure> {
        let Some(mut content) = self.lock().take() else { return Ok(()) };
        let saved = files.save_members(&content.array().status());
        let shown = files.directory.path.display().to_string();
        let closed = content.close().map_err(|error| Failure::from(format!("{shown}: {error}")));
        saved.and(closed)
    }
}

impl Holder for Shared {
    fn with(&self, call: &mut dyn FnMut(Held<'_>)) -> bool {
        let run = |content: &mut Content| match content {
            Content::Array(array) => call(Held::Array(array)),
            Content::Luns(volume) => call(Held::Luns(volume)),
        };
        self.with(run).is_some()
    }
}

impl Holder for Volume {
    fn with(&self, call: &mut dyn FnMut(Held<'_>)) -> bool {
        self.with_array(|array| call(Held::Array(array))).is_some()
    }
}

impl Holder for SharedLuns {
    fn with(&self, call: &mut dyn FnMut(Held<'_>)) -> bool {
        self.with(|volume| call(Held::Luns(volume)));
        true
    }
}

/// Returns the options for an array's write log, including its path.
pub fn log_options(running: &RunningArray, forget: bool) -> LogOptions {
    let directory = &running.files.directory;
    let path: PathBuf = directory.write_log.clone().unwrap_or_else(|| directory.path.join(WRITE_LOG));
    LogOptions { forget, ..LogOptions::new(running.vfs.clone(), path) }
}

/// Starts an array with its content.
///
/// # Errors
/// The array cannot start, or contains test databases.
pub fn start_with_content(start: &Start, forget_log: bool) -> Result<Running, Failure> {
    let mut running = start.start()?;
    let shown = start.array.display().to_string();
    let failed = |error: ArrayError| Failure::from(format!("{shown}: {error}"));
    let holds_luns = LunVolume::is_on(&mut running.array).map_err(failed)?;
    if !holds_luns && Volume::is_on(&mut running.array).map_err(failed)? {
        running.close()?;
        return Err(format!(
            "{shown}: the array contains test databases (--dir array:{shown}); use another array, or \
             destroy it"
        )
        .into());
    }
    let log = log_options(&running, forget_log);
    let RunningArray { array, vfs, files } = running;
    let content = match holds_luns {
        false => Content::Array(Box::new(array)),
        true => Content::Luns(Box::new(LunVolume::start(array, &log).map_err(failed)?)),
    };
    Ok(Running { content, vfs, files })
}

/// Like [`start_with_content`], but fails if the array has no LUNs.
pub fn start_with_luns(start: &Start) -> Result<Running, Failure> {
    let Running { content, vfs, files } = start_with_content(start, false)?;
    let Content::Array(array) = content else { return Ok(Running { content, vfs, files }) };
    let shown = start.array.display();
    array.close().map_err(|error| format!("{shown}: {error}"))?;
    Err(format!("{shown}: the array has no LUNs; create a LUN with jetcell raid lun create").into())
}
