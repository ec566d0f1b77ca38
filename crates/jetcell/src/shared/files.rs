//! Files that a command line names.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ese_engine::EventSink;
use jetcell_vfs::{RealOptions, RealVfs, Vfs};
use jetcell_workload::{EVENT_FILE, EventFile};

use crate::outcome::{CommandContext, CommandError, CommandResult};

/// Opens the machine's file system.
pub fn vfs() -> CommandResult<Arc<dyn Vfs>> {
    Ok(Arc::new(RealVfs::new(RealOptions::default()).context("cannot read files")?))
}

/// Converts a path to an absolute path, which remains valid for commands that are run in other directories.
pub fn absolute(path: &Path) -> CommandResult<PathBuf> {
    std::path::absolute(path).context(path.display())
}

/// Fails if `inner` is in the directory `outer`, or is that directory.
pub fn refuse_inside(outer: &Path, inner: &Path) -> CommandResult<()> {
    let outer_place = std::fs::canonicalize(outer).context(outer.display())?;
    let absolute = absolute(inner)?;
    // The path does not need to exist yet.
    let existing =
        absolute.ancestors().find_map(|path| std::fs::canonicalize(path).ok().map(|place| (path, place)));
    let Some((path, place)) = existing else { return Ok(()) };
    let place = place.join(absolute.strip_prefix(path).unwrap_or(Path::new("")));
    if outer_place.is_dir() && place.starts_with(&outer_place) {
        return Err(CommandError::new(format_args!("{} is inside {}", inner.display(), outer.display()))
            .advise("use a directory outside it"));
    }
    Ok(())
}

/// Opens the event file in a directory, to append to it.
pub fn open_events(directory: &Path) -> CommandResult<Arc<dyn EventSink>> {
    event_sink(directory, true).context(directory.join(EVENT_FILE).display())
}

/// Opens the event file in a directory, either to append to it or to overwrite it.
pub fn event_sink(directory: &Path, append: bool) -> io::Result<Arc<dyn EventSink>> {
    EventFile::open(directory, append).map(|file| Arc::new(file) as Arc<dyn EventSink>)
}
