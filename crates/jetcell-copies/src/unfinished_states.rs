//! Unfinished state files. A process leaves them if it is killed while it replaces a state.

use std::path::Path;

use jetcell_vfs::{Vfs, remove_unfinished};

use crate::copy_state::COPY_FILE;
use crate::page_checks::CHECKS_FILE;
use crate::reseed_files::RESEED_FILE;

/// Removes unfinished state files in the directory. The caller must hold the lock of the copy.
pub(crate) fn remove_unfinished_states(vfs: &dyn Vfs, directory: &Path) {
    for name in [COPY_FILE, CHECKS_FILE, RESEED_FILE] {
        remove_unfinished(vfs, &directory.join(name));
    }
}
