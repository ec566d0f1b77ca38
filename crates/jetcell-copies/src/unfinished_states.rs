//! Unfinished state files, left behind by a process that was killed while it was replacing a state.

use std::path::Path;

use jetcell_vfs::{Vfs, remove_unfinished};

use crate::copy_state::COPY_FILE;
use crate::file_names::RESEED_FILE;
use crate::page_checks::CHECKS_FILE;

/// Removes unfinished state files in the directory. The caller must hold the copy's lock.
pub(crate) fn remove_unfinished_states(vfs: &dyn Vfs, directory: &Path) {
    for name in [COPY_FILE, CHECKS_FILE, RESEED_FILE] {
        remove_unfinished(vfs, &directory.join(name));
    }
}
