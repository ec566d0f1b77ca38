//! The backup of an attached database: all pages are read in reads of 256 KiB and verified, as in Jetstress. They are
//! discarded, or written to a directory as a whole backup with the logs that make them one state.
//!
//! ```text
//!  DIR/Jetstress001001/manifest.json          what the backup contains, with checksums
//!  DIR/Jetstress001001/Jetstress001001.edb    the database
//!  DIR/Jetstress001001/E00*.log               the logs that it needs
//! ```

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ese_engine::{BackupKind, Error, Instance, PageReads, ReadOptions};
use jetcell_backup::{BackupError, BackupOptions, Cancel, Kind, Pace, ReadFn, SetFault};
use jetcell_vfs::Vfs;

use crate::engine::Result;
use crate::layout::InstancePlan;
use crate::watch::BackupWatch;

/// Bytes of one read, as in Jetstress.
const READ_BYTES: usize = 256 << 10;
/// Reads of one database that are under way at the same time.
const READS_IN_FLIGHT: usize = 8;
/// Findings that are kept for each database. The first ones show what is wrong.
const FINDINGS_KEPT: usize = 10;

/// Reads the database of an instance as a backup, and writes nothing.
pub(super) fn read(instance: &Instance, watch: &BackupWatch) -> Result<()> {
    // Such a backup has no effect on others, and removes no log.
    let backup = instance.begin_backup(BackupKind::Copy)?;
    let Some(database) = backup.databases().first().cloned() else { return Ok(()) };
    let options =
        ReadOptions { read_bytes: READ_BYTES, reads_in_flight: READS_IN_FLIGHT, ..ReadOptions::default() };
    let mut pages = backup.read_pages(&database, options)?;
    while let Some(extent) = pages.next_extent()? {
        pages.recycle(extent);
        if !note(pages.reads(), watch) {
            break;
        }
    }
    Ok(())
}

/// Backs up the database of an instance into a directory of its own below `to`, which only this test uses.
pub(super) fn write(
    instance: &Instance,
    files: &Arc<dyn Vfs>,
    place: &InstancePlan,
    to: &Path,
    watch: &Arc<BackupWatch>,
) -> Result<()> {
    let directory = directory(to, place);
    // The backup beside the load takes the place of the one without load.
    remove(&directory)?;
    let cancel = Cancel::default();
    let (watched, stop) = (watch.clone(), cancel.clone());
    let read: Arc<ReadFn> = Arc::new(move |_, reads| {
        if !note(reads, &watched) {
            stop.cancel();
        }
    });
    let options = BackupOptions {
        kind: Kind::Copy,
        read_bytes: READ_BYTES,
        reads_in_flight: READS_IN_FLIGHT,
        read: Some(read),
        pace: Pace { cancel, ..Pace::default() },
        ..BackupOptions::default()
    };
    let Err(error) = jetcell_backup::back_up(instance, files, &directory, &options) else { return Ok(()) };
    remove(&directory)?;
    match error {
        // The watch has the bad pages, which are the finding of the test.
        BackupError::Set { fault: SetFault::BadPages, .. } | BackupError::Stopped => Ok(()),
        BackupError::Engine(error) => Err(error),
        error => Err(Error::Usage(error.to_string())),
    }
}

/// The directory of the backup of a database.
fn directory(to: &Path, place: &InstancePlan) -> PathBuf {
    to.join(place.database.file_stem().unwrap_or_default())
}

fn remove(directory: &Path) -> Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::io(directory, &error)),
        _ => Ok(()),
    }
}

/// Notes what was read. Returns whether the backup is to continue.
fn note(reads: &PageReads, watch: &BackupWatch) -> bool {
    let finding = |(page, flaw)| format!("page {page}: {flaw}");
    watch.update(|counters| {
        (counters.bytes, counters.pages) = (reads.bytes, reads.pages);
        (counters.read_again, counters.corrected, counters.bad) =
            (reads.read_again, reads.corrected, reads.bad);
        if reads.bad > 0 {
            counters.findings = reads.bad_pages.iter().map(finding).take(FINDINGS_KEPT).collect();
        }
    })
}
