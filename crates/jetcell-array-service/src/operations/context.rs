//! Access to the array on which an operation works. The array is owned by the command, or shared with other users.

use std::path::{Path, PathBuf};

use jetcell_array::{Array, ArrayRefusal};
use jetcell_host::Cancellation;
use jetcell_luns::LunVolume;
use jetcell_sync::{Arc, Mutex, MutexGuard};
use jetcell_vfs::Vfs;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::directory::{ArrayEventSeverity, ArrayFiles, absolute};
use crate::error::{Error, InArray, Result};
use crate::members::SharedDevice;
use crate::running::{ArrayGuard, ArrayOwner, ConcurrentActivity, with_exclusive_access};

/// Progress of an array operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct OperationProgress {
    /// Number of bytes completed so far, including earlier passes that the operation continues.
    pub done: u64,
    /// Total number of bytes.
    pub total: u64,
    /// Bytes that this operation has processed.
    pub moved: u64,
}

/// Controls an array operation: cancellation, and a callback that receives its progress.
#[derive(Clone, Default)]
pub struct OperationControl {
    /// Cancels the operation.
    pub cancel: Cancellation,
    /// Callback that receives the progress.
    pub progress: Option<Arc<dyn Fn(OperationProgress) + Send + Sync>>,
}

/// Context of an array operation: the array, with everything that the operation needs.
pub(crate) struct OperationContext<'a> {
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
    pub control: OperationControl,
    /// Callback that receives warnings about members on the same device.
    pub report_shared_device: &'a dyn Fn(SharedDevice),
}

impl OperationContext<'_> {
    pub fn with_array<T>(&self, call: impl FnOnce(&mut Array) -> jetcell_array::Result<T>) -> Result<T> {
        self.with_access(|held| call(held.array()))
    }

    pub fn with_lun_volume<T>(
        &self,
        call: impl FnOnce(&mut LunVolume) -> jetcell_array::Result<T>,
    ) -> Result<T> {
        self.with_access(|held| held.luns().map_or(Err(ArrayRefusal::NoLuns.into()), call))
    }

    pub fn with_access<T>(&self, call: impl FnOnce(ArrayGuard<'_>) -> jetcell_array::Result<T>) -> Result<T> {
        with_exclusive_access(self.owner, call)
            .ok_or_else(|| Error::ShutDown(self.name.into()))?
            .in_array(self.name)
    }

    pub fn files(&self) -> MutexGuard<'_, ArrayFiles> {
        self.files.lock()
    }

    /// Adds an event to the array's event file.
    pub fn event(&self, name: &str, severity: ArrayEventSeverity, text: &str, figures: Value) {
        self.files().event(name, severity, text, figures);
    }

    /// Writes the array's current members to `array.toml` in its directory.
    pub fn save_members(&self) -> Result<()> {
        // The status is read while the file is locked, so an older status never replaces a newer one.
        let mut files = self.files();
        let status = self.with_array(|array| Ok(array.status()))?;
        files.save_members(&status)
    }

    /// Resolves a path relative to the user's working directory.
    pub fn resolve_path(&self, path: &Path) -> Result<PathBuf> {
        absolute(&self.directory.join(path))
    }

    /// Returns the slot of a member. The member is given as its path or its slot number.
    pub fn find_slot(&self, member: &str) -> Result<usize> {
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
            _ => Err(Error::NoSuchMember { member: member.into(), slots: status.slots.len() }),
        }
    }

    /// Fails if the LUN is in use.
    pub fn refuse_used_lun(&self, lun: &str) -> Result<()> {
        match self.concurrent_activity {
            Some(beside) if beside.luns.iter().any(|used| used == lun) => {
                Err(Error::LunInUse { array: self.name.into(), lun: lun.into() })
            }
            _ => Ok(()),
        }
    }
}
