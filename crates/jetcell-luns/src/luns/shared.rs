//! A LUN volume shared by several file volumes and threads.

use jetcell_sync::{Arc, Mutex};

use super::LunVolume;

/// A shared handle to a LUN volume. Clones refer to the same volume, and only one of them can use it at a time.
///
/// The lock protects the volume and the array below it for the duration of an operation. A thread may acquire it while
/// it has the lock of a file [`Volume`](crate::Volume) on one of the LUNs, but not the other way round: a function that
/// has this lock must not use files of such a volume.
#[derive(Clone)]
pub struct SharedLunVolume(Arc<Mutex<LunVolume>>);

impl SharedLunVolume {
    /// Creates the first handle to a volume.
    pub fn new(luns: LunVolume) -> SharedLunVolume {
        SharedLunVolume(Arc::new(Mutex::new(luns)))
    }

    /// Calls a function with exclusive access to the volume.
    pub fn with_volume<T>(&self, call: impl FnOnce(&mut LunVolume) -> T) -> T {
        call(&mut self.0.lock())
    }

    /// Returns the volume itself, for example to close it. Returns `None` if other clones exist.
    pub fn into_inner(self) -> Option<LunVolume> {
        Arc::into_inner(self.0).map(Mutex::into_inner)
    }
}
