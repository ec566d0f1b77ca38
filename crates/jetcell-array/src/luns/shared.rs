//! LUNs that several volumes of files and threads use.

use jetcell_sync::{Arc, Mutex};

use super::LunVolume;

/// LUNs in use by several. Clones share them; one at a time uses them.
#[derive(Clone)]
pub struct SharedLuns(Arc<Mutex<LunVolume>>);

impl SharedLuns {
    /// Shares LUNs from now on.
    pub fn new(luns: LunVolume) -> SharedLuns {
        SharedLuns(Arc::new(Mutex::new(luns)))
    }

    /// Runs something while no other clone uses the LUNs.
    pub fn with<T>(&self, call: impl FnOnce(&mut LunVolume) -> T) -> T {
        call(&mut self.0.lock())
    }

    /// The LUNs, to close them. `None`: others use them still.
    pub fn into_inner(self) -> Option<LunVolume> {
        Arc::into_inner(self.0).map(Mutex::into_inner)
    }
}
