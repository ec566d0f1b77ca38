//! Backs up an attached database. All pages are read in 256 KiB reads and verified, as in Jetstress. The pages are
//! either discarded or written to a directory, where they form a complete backup together with the logs that make the
//! database consistent.
//!
//! ```text
//!  DIR/Jetstress001001/manifest.json          what the backup contains, with checksums
//!  DIR/Jetstress001001/Jetstress001001.edb    the database
//!  DIR/Jetstress001001/E00*.log               the logs that it needs
//! ```

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ese_engine::{BackupKind, Instance, PageReadCounters, PageReadOptions};
use jetcell_backup::{
    BackupError, BackupOptions, BackupSetError, BackupType, Cancellation, PageReadsFn, TransferControl,
};
use jetcell_vfs::Vfs;

use crate::engine::Result;
use crate::error::Error;
use crate::layout::InstancePlan;
use crate::watch::BackupWatch;

/// Size of one read in bytes, as in Jetstress.
const READ_BYTES: usize = 256 << 10;
/// Number of concurrent reads per database.
const READS_IN_FLIGHT: usize = 8;
/// Maximum number of findings kept for each database. The first ones are enough to identify the problem.
const MAX_FINDINGS: usize = 10;

/// Reads an instance's database as a backup would, but writes nothing.
pub(super) fn read(instance: &Instance, watch: &BackupWatch) -> Result<()> {
    // A copy backup does not affect other backups and removes no logs.
    let backup = instance.begin_backup(BackupKind::Copy)?;
    let Some(database) = backup.databases().first().cloned() else { return Ok(()) };
    let options = PageReadOptions {
        read_bytes: READ_BYTES,
        reads_in_flight: READS_IN_FLIGHT,
        ..PageReadOptions::default()
    };
    let mut pages = backup.read_pages(&database, options)?;
    while let Some(extent) = pages.next_extent()? {
        pages.recycle(extent);
        if !update_counters(pages.reads(), watch) {
            break;
        }
    }
    Ok(())
}

/// Backs up an instance's database to a subdirectory of `to` that is reserved for this test.
pub(super) fn write(
    instance: &Instance,
    files: &Arc<dyn Vfs>,
    place: &InstancePlan,
    to: &Path,
    watch: &Arc<BackupWatch>,
) -> Result<()> {
    let directory = directory(to, place);
    // The backup taken during the load replaces the one taken without load.
    remove(&directory)?;
    let cancel = Cancellation::default();
    let (watched, stop) = (watch.clone(), cancel.clone());
    let read: Arc<PageReadsFn> = Arc::new(move |_, reads| {
        if !update_counters(reads, &watched) {
            stop.cancel();
        }
    });
    let options = BackupOptions {
        kind: BackupType::Copy,
        read_bytes: READ_BYTES,
        reads_in_flight: READS_IN_FLIGHT,
        on_read: Some(read),
        pace: TransferControl { cancel, ..TransferControl::default() },
        ..BackupOptions::default()
    };
    let Err(error) = jetcell_backup::back_up(instance, files, &directory, &options) else { return Ok(()) };
    remove(&directory)?;
    match error {
        // The bad pages are already recorded in `watch`. They are a test finding, not an error.
        BackupError::Set(BackupSetError::BadPages(_)) | BackupError::Stopped => Ok(()),
        error => Err(jetcell_copies::CopyError::from(error).into()),
    }
}

/// Returns the backup directory of a database.
fn directory(to: &Path, place: &InstancePlan) -> PathBuf {
    to.join(place.database.file_stem().unwrap_or_default())
}

fn remove(directory: &Path) -> Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::io(directory, &error)),
        _ => Ok(()),
    }
}

/// Updates the backup counters. Returns true if the backup should continue.
fn update_counters(reads: &PageReadCounters, watch: &BackupWatch) -> bool {
    let finding = |(page, flaw)| format!("page {page}: {flaw}");
    watch.update(|counters| {
        (counters.bytes, counters.pages) = (reads.bytes, reads.pages);
        (counters.read_again, counters.corrected, counters.bad) =
            (reads.read_again, reads.corrected, reads.bad);
        if reads.bad > 0 {
            counters.findings = reads.bad_pages.iter().map(finding).take(MAX_FINDINGS).collect();
        }
    })
}
