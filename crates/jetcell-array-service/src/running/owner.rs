//! The owner of an array, which gives other parts of the process exclusive access to it.

use jetcell_array::Array;
use jetcell_luns::{LunVolume, SharedLunVolume, Volume};

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
    /// Runs `call` with exclusive access to the array. Returns false without running `call` if the array was shut down.
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
