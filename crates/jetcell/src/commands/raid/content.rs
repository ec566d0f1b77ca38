//! Content of an array: blocks, or LUNs.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jetcell_array::{Array, ArrayError, ArrayRefusal, LoadMeter};
use jetcell_luns::{LunVolume, SharedLunVolume, Volume, WriteLogOptions};
use jetcell_vfs::Vfs;

use super::operation_context::{ArrayGuard, ArrayOwner};
use super::running_array::{ArrayFiles, ArrayStartOptions, RunningArray};
use crate::outcome::{CommandContext, CommandError, CommandResult};

/// Name of the write log in an array's directory.
const WRITE_LOG: &str = "write-log";

/// Content of a started array: the array itself, or its LUNs.
pub enum ArrayContent {
    Array(Box<Array>),
    Luns(Box<LunVolume>),
}

impl ArrayContent {
    /// Returns the array, to access its members and its state.
    pub fn array(&mut self) -> &mut Array {
        match self {
            ArrayContent::Array(array) => array,
            ArrayContent::Luns(volume) => volume.array(),
        }
    }

    pub fn close(self) -> Result<(), ArrayError> {
        match self {
            ArrayContent::Array(array) => array.close(),
            ArrayContent::Luns(volume) => volume.close(),
        }
    }
}

/// A started array with its content and its files.
pub struct RunningContent {
    pub content: ArrayContent,
    pub vfs: Arc<dyn Vfs>,
    pub files: ArrayFiles,
}

/// Array content that is shared by several threads. A lock serializes their accesses.
pub struct SharedContent {
    content: Mutex<Option<ArrayContent>>,
    load_meter: LoadMeter,
}

impl SharedContent {
    pub fn new(mut content: ArrayContent) -> Arc<SharedContent> {
        let load = content.array().load_meter();
        Arc::new(SharedContent { content: Mutex::new(Some(content)), load_meter: load })
    }

    /// Returns the meter for reads and flushes. The metered times include waits for other threads.
    pub fn load_meter(&self) -> &LoadMeter {
        &self.load_meter
    }

    fn lock(&self) -> MutexGuard<'_, Option<ArrayContent>> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `call` on the content. Returns `None` if the array has been closed.
    pub fn with<T>(&self, call: impl FnOnce(&mut ArrayContent) -> T) -> Option<T> {
        self.lock().as_mut().map(call)
    }

    /// Shuts the array down. It cannot be used afterwards.
    pub fn close(&self, files: &mut ArrayFiles) -> CommandResult<()> {
        let Some(mut content) = self.lock().take() else { return Ok(()) };
        let saved = files.save_members(&content.array().status());
        let shown = files.directory.path.display().to_string();
        let closed = content.close().context(shown);
        saved.and(closed)
    }
}

impl ArrayOwner for SharedContent {
    fn with(&self, call: &mut dyn FnMut(ArrayGuard<'_>)) -> bool {
        let run = |content: &mut ArrayContent| match content {
            ArrayContent::Array(array) => call(ArrayGuard::Array(array)),
            ArrayContent::Luns(volume) => call(ArrayGuard::Luns(volume)),
        };
        self.with(run).is_some()
    }
}

impl ArrayOwner for Volume {
    fn with(&self, call: &mut dyn FnMut(ArrayGuard<'_>)) -> bool {
        self.with_array(|array| call(ArrayGuard::Array(array))).is_some()
    }
}

impl ArrayOwner for SharedLunVolume {
    fn with(&self, call: &mut dyn FnMut(ArrayGuard<'_>)) -> bool {
        self.with_volume(|volume| call(ArrayGuard::Luns(volume)));
        true
    }
}

/// Returns the options for an array's write log, including its path.
pub fn log_options(running: &RunningArray, forget: bool) -> WriteLogOptions {
    let directory = &running.files.directory;
    let path: PathBuf = directory.write_log.clone().unwrap_or_else(|| directory.path.join(WRITE_LOG));
    WriteLogOptions { discard_damaged: forget, ..WriteLogOptions::new(running.vfs.clone(), path) }
}

/// Starts an array with its content.
///
/// # Errors
/// The array cannot start, or contains test databases.
pub fn start_with_content(start: &ArrayStartOptions, forget_log: bool) -> CommandResult<RunningContent> {
    let mut running = start.start()?;
    let shown = start.array.display();
    let holds_luns = LunVolume::exists_on(&mut running.array).context(&shown)?;
    if !holds_luns && Volume::exists_on(&mut running.array).context(&shown)? {
        running.close()?;
        return Err(CommandError::new(format_args!(
            "{shown}: the array contains test databases (--dir array:{shown})"
        ))
        .advise("use another array, or destroy it"));
    }
    let log = log_options(&running, forget_log);
    let RunningArray { array, vfs, files } = running;
    let content = if holds_luns {
        ArrayContent::Luns(Box::new(LunVolume::start(array, &log).context(shown)?))
    } else {
        ArrayContent::Array(Box::new(array))
    };
    Ok(RunningContent { content, vfs, files })
}

/// Like [`start_with_content`], but fails if the array has no LUNs.
pub fn start_with_luns(start: &ArrayStartOptions) -> CommandResult<RunningContent> {
    let RunningContent { content, vfs, files } = start_with_content(start, false)?;
    let ArrayContent::Array(array) = content else { return Ok(RunningContent { content, vfs, files }) };
    let shown = start.array.display();
    array.close().context(&shown)?;
    Err(CommandError::from(ArrayError::from(ArrayRefusal::NoLuns)).context(shown))
}
