//! The file system and the callbacks that a process provides to the service.

use std::fmt::Display;

use jetcell_sync::Arc;
use jetcell_vfs::Vfs;

/// File system and callbacks that the service uses.
#[derive(Clone)]
pub struct ServiceEnvironment {
    /// The machine's file system.
    pub vfs: Arc<dyn Vfs>,
    /// Callback that receives messages for the user that are not errors.
    pub show_note: Arc<dyn Fn(&str) + Send + Sync>,
}

impl ServiceEnvironment {
    pub(crate) fn note(&self, note: impl Display) {
        (self.show_note)(&note.to_string());
    }
}
