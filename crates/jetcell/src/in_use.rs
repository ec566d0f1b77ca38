//! Refuses files that a running engine modifies.

use std::path::Path;

use jetcell_vfs::is_locked;

use crate::outcome::{CommandError, CommandResult};

/// Fails if one of the files is in use, unless `anyway` is true.
pub fn check_not_in_use<'p>(paths: impl IntoIterator<Item = &'p Path>, anyway: bool) -> CommandResult<()> {
    // A file that cannot be opened is skipped here. The error is reported later, when the file is read.
    let used = paths.into_iter().find(|path| !anyway && is_locked(path).unwrap_or(false));
    used.map_or(Ok(()), |path| {
        Err(CommandError::new(format_args!(
            "{} is in use by another process, and its pages may change while they are being read",
            path.display()
        ))
        .advise("stop that process, or add --anyway"))
    })
}
