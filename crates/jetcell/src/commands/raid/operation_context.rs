//! Access to the array that an operation works on, which is owned by the command or shared with other users.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jetcell_array::{Array, ArrayError, ArrayRefusal};
use jetcell_backup::TransferControl;
use jetcell_luns::LunVolume;
use jetcell_vfs::Vfs;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::running_array::{ArrayEventSeverity, ArrayFiles};
use crate::outcome::{CommandContext, CommandError, CommandResult};
use crate::shared::files::absolute;

/// Exclusive access to an array, either directly or through the LUN layer above it.
pub enum ArrayGuard<'a> {
    Array(&'a mut Array),
    Luns(&'a mut LunVolume),
}

impl<'a> ArrayGuard<'a> {
    pub fn array(self) -> &'a mut Array {
        match self {
            ArrayGuard::Array(array) => array,
            ArrayGuard::Luns(volume) => volume.array(),
        }
    }

    pub fn luns(self) -> Option<&'a mut LunVolume> {
        match self {
            ArrayGuard::Array(_) => None,
            ArrayGuard::Luns(volume) => Some(volume),
        }
    }
}

/// Interface to the owner of an array shared by several threads.
pub trait ArrayOwner: Send + Sync {
    /// Runs `call` while no other thread uses the array. Returns false if the array was shut down, in which case
    /// `call` was not run.
    fn with(&self, call: &mut dyn FnMut(ArrayGuard<'_>)) -> bool;
}

/// Runs `call` once with exclusive access. Returns `None` if the array was shut down.
pub fn with_exclusive_access<T>(
    holder: &dyn ArrayOwner,
    call: impl FnOnce(ArrayGuard<'_>) -> T,
) -> Option<T> {
    let (mut call, mut result) = (Some(call), None);
    holder.with(&mut |held| result = call.take().map(|call| call(held)));
    result
}

/// Activities that run concurrently with operations on an array in use.
#[derive(Default)]
pub struct ConcurrentActivity {
    /// LUNs that are in use.
    pub luns: Vec<String>,
    /// Maximum rebuild rate in bytes per second, or 0 for no limit.
    rate: AtomicU64,
    /// Number of rows that rebuilds could not recover.
    rows_lost: AtomicU64,
    is_scrubbing: AtomicBool,
}

impl ConcurrentActivity {
    pub fn with_luns(luns: Vec<String>) -> ConcurrentActivity {
        ConcurrentActivity { luns, ..ConcurrentActivity::default() }
    }

    pub fn rate(&self) -> Option<u64> {
        Some(self.rate.load(Ordering::Relaxed)).filter(|rate| *rate > 0)
    }

    /// Limits the rate of the rebuild that is running, or of the next one.
    pub fn set_rate(&self, rate: Option<u64>) {
        self.rate.store(rate.unwrap_or(0), Ordering::Relaxed);
    }

    pub fn rows_lost(&self) -> u64 {
        self.rows_lost.load(Ordering::Relaxed)
    }

    pub fn add_rows_lost(&self, rows: u64) {
        self.rows_lost.fetch_add(rows, Ordering::Relaxed);
    }

    /// Reserves the array for a scrub until the returned guard is dropped. Returns `None` if another scrub is
    /// running.
    pub fn begin_scrub(&self) -> Option<ScrubGuard<'_>> {
        (!self.is_scrubbing.swap(true, Ordering::SeqCst)).then_some(ScrubGuard(self))
    }
}

/// A guard that ensures that only one scrub of an array runs at a time.
pub struct ScrubGuard<'a>(&'a ConcurrentActivity);

impl Drop for ScrubGuard<'_> {
    fn drop(&mut self) {
        self.0.is_scrubbing.store(false, Ordering::SeqCst);
    }
}

/// Result of an array operation, in the two forms that a command can print: JSON and text.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OperationResult {
    pub json: String,
    pub text: String,
    /// True for exit code 0, false for exit code 1.
    pub is_good: bool,
}

impl OperationResult {
    /// Creates a successful result with one line of JSON and one line of text.
    pub fn success(json: &Value, text: &str) -> OperationResult {
        OperationResult { json: format!("{json}\n"), text: format!("{text}\n"), is_good: true }
    }
}

/// Context of an array operation: the array, with everything that the operation needs.
pub struct OperationContext<'a> {
    /// Array name as given by the user.
    pub name: &'a str,
    /// The user's working directory.
    pub directory: &'a Path,
    pub owner: &'a dyn ArrayOwner,
    pub files: &'a Mutex<ArrayFiles>,
    pub vfs: Arc<dyn Vfs>,
    /// Concurrent activities, or `None` if no other thread or process uses the array.
    pub concurrent_activity: Option<&'a ConcurrentActivity>,
    /// Progress reports and cancellation.
    pub pace: TransferControl,
    /// Callback that receives messages for the user.
    pub show_note: &'a dyn Fn(&str),
}

impl OperationContext<'_> {
    pub fn with_array<T>(&self, call: impl FnOnce(&mut Array) -> Result<T, ArrayError>) -> CommandResult<T> {
        self.with_access(|held| call(held.array()))
    }

    pub fn with_lun_volume<T>(
        &self,
        call: impl FnOnce(&mut LunVolume) -> Result<T, ArrayError>,
    ) -> CommandResult<T> {
        self.with_access(|held| held.luns().map_or(Err(ArrayRefusal::NoLuns.into()), call))
    }

    pub fn with_access<T>(
        &self,
        call: impl FnOnce(ArrayGuard<'_>) -> Result<T, ArrayError>,
    ) -> CommandResult<T> {
        let name = self.name;
        let result = with_exclusive_access(self.owner, call).ok_or_else(|| {
            CommandError::new(format_args!("{name}: the array was shut down before the operation"))
        })?;
        result.context(name)
    }

    pub fn files(&self) -> MutexGuard<'_, ArrayFiles> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an event to the array's event file.
    pub fn event(&self, name: &str, severity: ArrayEventSeverity, text: &str, figures: Value) {
        self.files().event(name, severity, text, figures);
    }

    /// Writes the array's current members to `array.toml` in its directory.
    pub fn save_members(&self) -> CommandResult<()> {
        // The status is read while the file is locked, so an older status never replaces a newer one.
        let mut files = self.files();
        let status = self.with_array(|array| Ok(array.status()))?;
        files.save_members(&status)
    }

    /// Resolves a path relative to the user's working directory.
    pub fn resolve_path(&self, path: &Path) -> CommandResult<PathBuf> {
        absolute(&self.directory.join(path))
    }

    /// Returns the slot of a member. The member is given as its path or its slot number.
    pub fn find_slot(&self, member: &str) -> CommandResult<usize> {
        let status = self.with_array(|array| Ok(array.status()))?;
        let path = self.resolve_path(Path::new(member))?;
        let is_same_file =
            |found: &Option<PathBuf>| found.as_ref().is_some_and(|found| self.vfs.same_file(found, &path));
        if let Some(slot) =
            status.slots.iter().position(|slot| is_same_file(&slot.member) || is_same_file(&slot.replacement))
        {
            return Ok(slot);
        }
        match member.parse() {
            Ok(slot) if slot < status.slots.len() => Ok(slot),
            _ => Err(CommandError::new(format_args!(
                "{member} is neither a member of the array nor a slot number (0 to {})",
                status.slots.len() - 1
            ))
            .advise("to list them, run jetcell raid status")),
        }
    }

    /// Fails if the LUN is in use.
    pub fn refuse_used_lun(&self, lun: &str) -> CommandResult<()> {
        match self.concurrent_activity {
            Some(beside) if beside.luns.iter().any(|used| used == lun) => Err(CommandError::new(
                format_args!("{}: clients or a test are using the LUN {lun}", self.name),
            )
            .advise("stop jetcell raid serve or the test first")),
            _ => Ok(()),
        }
    }
}
