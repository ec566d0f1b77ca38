//! State files that killed owners of a directory did not finish to replace.

use std::path::Path;

use jetcell_vfs::{Vfs, remove_unfinished};

use crate::copy_state::COPY_FILE;
use crate::page_checks::CHECKS_FILE;
use crate::reseed_files::RESEED_FILE;

/// Removes what killed owners of the directory have left of their states. The caller holds the lock of the copy.
pub(crate) fn remove_unfinished_states(vfs: &dyn Vfs, directory: &Path) {
    for name in [COPY_FILE, CHECKS_FILE, RESEED_FILE] {
        remove_unfinished(vfs, &directory.join(name));
    }
}
