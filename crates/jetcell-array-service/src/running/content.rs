//! Content of an array: blocks, or LUNs.

use std::path::PathBuf;

use jetcell_array::{Array, ArrayError, LoadMeter};
use jetcell_luns::{LunVolume, Volume, WriteLogOptions};
use jetcell_sync::{Arc, Mutex};

use super::owner::{ArrayGuard, ArrayOwner};
use super::start::{ArrayStartOptions, RunningArray};
use crate::directory::ArrayFiles;
use crate::environment::ServiceEnvironment;
use crate::error::{Error, InArray, Result};

/// Name of the write log in an array's directory.
const WRITE_LOG: &str = "write-log";

/// Content of a started array: the array itself, or its LUNs.
pub(crate) enum ArrayContent {
    Array(Box<Array>),
    Luns(Box<LunVolume>),
}

impl ArrayContent {
    fn guard(&mut self) -> ArrayGuard<'_> {
        match self {
            ArrayContent::Array(array) => ArrayGuard::Array(array),
            ArrayContent::Luns(volume) => ArrayGuard::Luns(volume),
        }
    }

    /// Returns the array, for access to its members and its state.
    pub fn array(&mut self) -> &mut Array {
        self.guard().array()
    }

    fn close(self) -> std::result::Result<(), ArrayError> {
        match self {
            ArrayContent::Array(array) => array.close(),
            ArrayContent::Luns(volume) => volume.close(),
        }
    }
}

/// A started array with its content and its files.
pub(crate) struct RunningContent {
    pub content: ArrayContent,
    pub files: ArrayFiles,
}

/// Array content that is shared by several threads. A lock serializes their accesses.
pub(crate) struct SharedContent {
    content: Mutex<Option<ArrayContent>>,
    /// Meter for reads and flushes. The metered times include waits for other threads.
    pub load_meter: LoadMeter,
}

impl SharedContent {
    pub fn new(mut content: ArrayContent) -> Arc<SharedContent> {
        let load_meter = content.array().load_meter();
        Arc::new(SharedContent { content: Mutex::new(Some(content)), load_meter })
    }

    /// Runs `call` on the content. Returns `None` if the array has been closed.
    pub fn with<T>(&self, call: impl FnOnce(&mut ArrayContent) -> T) -> Option<T> {
        self.content.lock().as_mut().map(call)
    }

    /// Shuts the array down. It cannot be used afterwards.
    pub fn close(&self, files: &mut ArrayFiles) -> Result<()> {
        let Some(mut content) = self.content.lock().take() else { return Ok(()) };
        let saved = files.save_members(&content.array().status());
        content.close().in_array(files.directory.path.display()).and(saved)
    }
}

impl ArrayOwner for SharedContent {
    fn with(&self, call: &mut dyn FnMut(ArrayGuard<'_>)) -> bool {
        self.with(|content| call(content.guard())).is_some()
    }
}

/// Returns the options for an array's write log, including its path.
pub(crate) fn log_options(running: &RunningArray, forget: bool) -> WriteLogOptions {
    let directory = &running.files.directory;
    let path: PathBuf = directory.write_log.clone().unwrap_or_else(|| directory.path.join(WRITE_LOG));
    WriteLogOptions { discard_damaged: forget, ..WriteLogOptions::new(running.vfs.clone(), path) }
}

/// Starts an array with its content.
///
/// # Errors
/// Returns an error if the array cannot start, or contains test databases.
pub(crate) fn start_with_content(
    start: &ArrayStartOptions,
    forget_log: bool,
    environment: &ServiceEnvironment,
) -> Result<RunningContent> {
    let mut running = start.start(environment)?;
    let shown = start.array.display();
    let holds_luns = LunVolume::exists_on(&mut running.array).in_array(&shown)?;
    if !holds_luns && Volume::exists_on(&mut running.array).in_array(&shown)? {
        return running.refuse(Error::HoldsTestDatabases { array: start.array.clone() });
    }
    let log = log_options(&running, forget_log);
    let RunningArray { array, files, .. } = running;
    let content = if holds_luns {
        ArrayContent::Luns(Box::new(LunVolume::start(array, &log).in_array(shown)?))
    } else {
        ArrayContent::Array(Box::new(array))
    };
    Ok(RunningContent { content, files })
}

/// Like [`start_with_content`], but fails if the array has no LUNs.
pub(crate) fn start_with_luns(
    start: &ArrayStartOptions,
    environment: &ServiceEnvironment,
) -> Result<RunningContent> {
    let running = start_with_content(start, false, environment)?;
    let ArrayContent::Array(array) = running.content else { return Ok(running) };
    array.close().in_array(start.array.display())?;
    Err(Error::no_luns(start.array.display()))
}
