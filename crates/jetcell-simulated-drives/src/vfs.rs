//! A file system layer that adds the access times of simulated drives.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use jetcell_disk_simulation::disk::DiskCounters;
use jetcell_disk_simulation::drive::DriveModel;
use jetcell_sync::Arc;
use jetcell_vfs::{File, OpenMode, SimClock, Vfs, VfsLayer};

use crate::file::SimulatedDriveFile;
use crate::scheduler::DriveScheduler;

/// A file system in which every open file is a separate simulated drive.
///
/// Operations on lock files and directories take no simulated time.
pub struct SimulatedDriveVfs {
    inner: Arc<dyn Vfs>,
    machine: Arc<DriveScheduler>,
}

impl SimulatedDriveVfs {
    /// Creates drives whose time passes `time_scale` times as fast as real time.
    ///
    /// # Errors
    /// The system cannot start another thread.
    pub fn new(inner: Arc<dyn Vfs>, drive: DriveModel, time_scale: f64) -> io::Result<SimulatedDriveVfs> {
        let machine = DriveScheduler::in_real_time(drive, time_scale)?;
        Ok(SimulatedDriveVfs { inner, machine: Arc::new(machine) })
    }

    /// Creates drives in simulated time, without a thread. Each call completes its own accesses, and advances the
    /// clock by the time they take.
    pub fn in_simulated_time(
        inner: Arc<dyn Vfs>,
        drive: DriveModel,
        clock: Arc<SimClock>,
    ) -> SimulatedDriveVfs {
        SimulatedDriveVfs { inner, machine: Arc::new(DriveScheduler::in_simulated_time(drive, clock)) }
    }

    /// Returns the counters of each drive.
    pub fn counters(&self) -> BTreeMap<PathBuf, DiskCounters> {
        self.machine.counters()
    }
}

impl VfsLayer for SimulatedDriveVfs {
    fn inner(&self) -> &dyn Vfs {
        &*self.inner
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let inner = self.inner.open(path, mode)?;
        let bytes = inner.len()?;
        let id = self.machine.drive_for(path, bytes);
        Ok(Arc::new(SimulatedDriveFile::new(inner, self.machine.clone(), id)))
    }
}
