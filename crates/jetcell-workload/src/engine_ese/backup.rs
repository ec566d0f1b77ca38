//! The backup of an attached database: all pages are read in reads of 256 KiB and verified, as in Jetstress. They are
//! discarded, or written to a directory with the logs that make them one state.
//!
//! ```text
//!  DIR/Jetstress001001.edb      the database
//!  DIR/log001/E00*.log          the logs that it needs
//! ```

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use ese_engine::{Backup, BackupKind, Database, Error, Instance, PageReads, ReadOptions};

use crate::engine::Result;
use crate::layout::{InstancePlan, LOG_BASE_NAME};
use crate::watch::BackupWatch;

/// Bytes of one read, as in Jetstress.
const READ_BYTES: usize = 256 << 10;
/// Reads of one database that are under way at the same time.
const READS_IN_FLIGHT: usize = 8;
/// Findings that are kept for each database. The first ones show what is wrong.
const FINDINGS_KEPT: usize = 10;

/// Backs up the database of an instance, and writes the backup to a directory if there is one.
pub(super) fn back_up(
    instance: &Instance,
    place: &InstancePlan,
    to: Option<&Path>,
    watch: &BackupWatch,
) -> Result<()> {
    // Such a backup has no effect on others, and removes no log.
    let mut backup = instance.begin_backup(BackupKind::Copy)?;
    let Some(database) = backup.databases().first().cloned() else { return Ok(()) };
    let copy = to.map(|to| Copy::begin(to, place)).transpose()?;
    let options =
        ReadOptions { read_bytes: READ_BYTES, reads_in_flight: READS_IN_FLIGHT, ..ReadOptions::default() };
    let mut pages = backup.read_pages(&database, options)?;
    let page_size = pages.page_size();
    while let Some(extent) = pages.next_extent()? {
        if let Some(copy) = &copy {
            copy.write(page_size.offset_of(extent.first), &extent.bytes)?;
        }
        pages.recycle(extent);
        let reads = pages.reads();
        if !watch.update(|counters| {
            (counters.bytes, counters.pages) = (reads.bytes, reads.pages);
        }) {
            return Ok(());
        }
    }
    note(pages.reads(), watch);
    drop(pages);
    match copy {
        Some(copy) => copy.finish(&mut backup, &database),
        None => Ok(()),
    }
}

fn note(reads: &PageReads, watch: &BackupWatch) {
    let finding = |(page, flaw)| format!("page {page}: {flaw}");
    watch.update(|counters| {
        (counters.read_again, counters.corrected, counters.bad) =
            (reads.read_again, reads.corrected, reads.bad);
        counters.findings = reads.bad_pages.iter().map(finding).take(FINDINGS_KEPT).collect();
    });
}

/// The files of a backup. The database has another name until the backup is whole and durable.
struct Copy {
    database: PathBuf,
    unfinished: PathBuf,
    file: File,
    logs: PathBuf,
}

impl Copy {
    fn begin(to: &Path, place: &InstancePlan) -> Result<Copy> {
        let name = |path: &Path| to.join(path.file_name().unwrap_or_default());
        let database = name(&place.database);
        let unfinished = database.with_extension("edb.partial");
        let logs = name(&place.log_dir);
        let file = fs::create_dir_all(&logs).and_then(|()| File::create(&unfinished));
        let file = file.map_err(|error| Error::io(&unfinished, &error))?;
        Ok(Copy { database, unfinished, file, logs })
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.file.write_all_at(bytes, offset).map_err(|error| Error::io(&self.unfinished, &error))
    }

    /// Writes the logs and the header, and gives the database its name.
    fn finish(self, backup: &mut Backup, database: &Database) -> Result<()> {
        backup.close_logs()?;
        while let Some(log) = backup.next_log()? {
            let path = self.logs.join(format!("{LOG_BASE_NAME}{:08X}.log", log.generation.0));
            let written = File::create(&path).and_then(|file| {
                file.write_all_at(&log.bytes, 0)?;
                file.sync_all()
            });
            written.map_err(|error| Error::io(&path, &error))?;
        }
        let page = backup.header(database)?.encode();
        for copy in [0, page.len() as u64] {
            self.write(copy, &page)?;
        }
        let named = || -> io::Result<()> {
            self.file.sync_all()?;
            fs::rename(&self.unfinished, &self.database)?;
            [self.logs.as_path()]
                .into_iter()
                .chain(self.database.parent())
                .try_for_each(|dir| File::open(dir)?.sync_all())
        };
        named().map_err(|error| Error::io(&self.database, &error))
    }
}
