//! The scan of a copy: all pages are read and verified, while logs may be replayed, with progress of its own.
//!
//! The progress is in a file beside the databases, so it outlives the process, and an activation: when the side is a copy again,
//! the pass goes on. It says nothing about the active side, which has a scan of its own. A page that looks wrong is read again
//! several times with growing pauses, because it may just be written, before it counts as bad.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ese_engine::{
    Event, EventKind, EventProfile, EventSink, PageFlaw, PageReader, PassReport, ReadOptions, Throttle,
};
use ese_format::{LogPosition, PageNumber};
use jetcell_backup::text_file;
use jetcell_sync::Arc;
use jetcell_vfs::{FileName, Pacer, Vfs, remove_unfinished};
use serde::{Deserialize, Serialize};

use crate::copy_state::{CopiedDatabase, CopyState, Phase, database_header};
use crate::error::{CopyError, Result};

/// The file with the progress.
pub const SCAN_FILE: &str = "scan.json";
/// The file that is locked while the copy is scanned.
const LOCK_FILE: &str = "scan.lock";
/// Bytes after which the progress is stored.
const STORED_AFTER: u64 = 64 << 20;
/// No database has a page with a higher number.
const LAST_PAGE: u32 = 0x7FFF_FFFF;
/// Maximum number of bad pages that are named in the file, for each database.
const NAMED: usize = 100;
/// Maximum length of the file: hundreds of databases with bad pages.
const MAX_BYTES: u64 = 16 << 20;

/// How a copy is scanned.
#[derive(Clone)]
pub struct CopyScanOptions {
    /// Bytes of one read.
    pub batch_bytes: usize,
    /// Rate and pauses.
    pub throttle: Throttle,
    /// A pass of a database begins no earlier than this after the begin of the one before. ESE: `JET_paramDbScanIntervalMinSec`.
    #[doc(alias = "JET_paramDbScanIntervalMinSec")]
    pub interval: Duration,
    /// Receives the events of the scan.
    pub events: Option<Arc<dyn EventSink>>,
    /// Numbers of the events.
    pub profile: EventProfile,
}

/// How far the scan of the databases of a copy is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CopyScan {
    /// One for each database.
    pub databases: Vec<ScannedDatabase>,
}

/// How far the scan of a database is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScannedDatabase {
    /// Name of the file in the directory of the copy.
    pub file: String,
    /// Identity of the database, in hexadecimal digits.
    pub signature: String,
    /// The next page of the pass; `None`: no pass is under way.
    pub next: Option<u32>,
    /// When the pass began, in milliseconds since 1970 UTC.
    pub began_unix_ms: i64,
    /// When the last whole pass ended, in milliseconds since 1970 UTC.
    pub ended_unix_ms: Option<i64>,
    /// Whole passes.
    pub passes: u64,
    /// Times that the pass was begun or resumed.
    pub invocations: u64,
    /// Pages read in the pass.
    pub pages: u64,
    /// Pages of them that were never written.
    pub uninitialized: u64,
    /// Pages of them with a flipped bit, which was located.
    pub corrected: u64,
    /// Bad pages of them.
    pub bad: u64,
    /// The first bad pages, and what is wrong.
    pub bad_pages: Vec<(u32, String)>,
}

impl ScannedDatabase {
    /// Whether a pass is under way, or the last one began so long ago.
    fn is_due(&self, now_unix_ms: i64, interval: Duration) -> bool {
        let began = now_unix_ms.saturating_sub(self.began_unix_ms);
        self.next.is_some()
            || self.passes == 0
            || u128::try_from(began).is_ok_and(|ms| ms >= interval.as_millis())
    }

    /// Whether a scan can have stored this, so that its numbers can be counted on.
    fn is_possible(&self) -> bool {
        let counts =
            [self.passes, self.invocations, self.pages, self.uninitialized, self.corrected, self.bad];
        counts.iter().all(|count| *count <= u64::from(u32::MAX))
            && self.next.is_none_or(|next| next <= LAST_PAGE)
            && FileName::new(self.file.as_str()).is_ok()
            && self.bad_pages.len() <= NAMED
    }
}

impl CopyScan {
    /// Reads the progress of a directory; none if there was no scan, or the file is damaged: the pass begins again.
    pub fn read(vfs: &dyn Vfs, directory: &Path) -> Result<CopyScan> {
        let text = text_file::read_at_most(vfs, &directory.join(SCAN_FILE), MAX_BYTES)?.unwrap_or_default();
        let mut scan: CopyScan = serde_json::from_str(&text).unwrap_or_default();
        scan.databases.retain(ScannedDatabase::is_possible);
        Ok(scan)
    }

    fn store(&self, vfs: &dyn Vfs, directory: &Path) -> Result<()> {
        let text = jetcell_input::json_pretty(self).unwrap_or_default();
        Ok(text_file::write(vfs, &directory.join(SCAN_FILE), &format!("{text}\n"))?)
    }

    fn of(&mut self, database: &CopiedDatabase) -> usize {
        let is = |known: &ScannedDatabase| known.signature == database.signature;
        if let Some(at) = self.databases.iter().position(is) {
            self.databases[at].file.clone_from(&database.file);
            return at;
        }
        self.databases.push(ScannedDatabase {
            file: database.file.clone(),
            signature: database.signature.clone(),
            ..ScannedDatabase::default()
        });
        self.databases.len() - 1
    }
}

/// Reads and verifies all pages of a copy, from where an earlier call was stopped, if a pass is due. `look` gets the progress after
/// each read, and returns `false` to stop; then the next call goes on there. The copy may be followed meanwhile, by another thread or
/// process.
///
/// Errors: the directory is no copy with databases; something else scans it; the file of a database cannot be read.
pub fn scan_copy(
    vfs: &Arc<dyn Vfs>,
    directory: &Path,
    options: &CopyScanOptions,
    look: &mut dyn FnMut(&ScannedDatabase, u32) -> bool,
) -> Result<CopyScan> {
    let Some(state) = CopyState::read(&**vfs, directory)? else {
        return Err(CopyError::Refused(format!("{}: this is no copy", directory.display())));
    };
    if state.phase == Phase::Seeding {
        let what = "the seeding of the copy has not ended, so there is nothing to scan";
        return Err(CopyError::Refused(format!("{}: {what}", directory.display())));
    }
    let lock = directory.join(LOCK_FILE);
    let _lock = vfs.lock(&lock).map_err(|error| match error.kind() {
        std::io::ErrorKind::WouldBlock => {
            let what = "the copy is being scanned by another process; see jetcell copies for its progress";
            CopyError::Refused(format!("{}: {what}", directory.display()))
        }
        _ => CopyError::io(&lock, &error),
    })?;
    remove_unfinished(&**vfs, &directory.join(SCAN_FILE));
    let mut scan = CopyScan::read(&**vfs, directory)?;
    for database in &state.databases {
        let at = scan.of(database);
        if !scan.databases[at].is_due(vfs.clock().unix_ms(), options.interval) {
            continue;
        }
        let pass = Pass { vfs, directory, options, path: directory.join(&database.file) };
        if !pass.run(&mut scan, at, look)? {
            break;
        }
    }
    Ok(scan)
}

struct Pass<'a> {
    vfs: &'a Arc<dyn Vfs>,
    directory: &'a Path,
    options: &'a CopyScanOptions,
    path: PathBuf,
}

impl Pass<'_> {
    fn run(
        &self,
        scan: &mut CopyScan,
        at: usize,
        look: &mut dyn FnMut(&ScannedDatabase, u32) -> bool,
    ) -> Result<bool> {
        let (vfs, clock) = (&**self.vfs, self.vfs.clock());
        let size = database_header(vfs, &self.path)?.page_size;
        let earlier = scan.databases[at].clone();
        let first = earlier.next.unwrap_or(1).max(1);
        if earlier.next.is_none() {
            let kept =
                (earlier.file.clone(), earlier.signature.clone(), earlier.passes, earlier.ended_unix_ms);
            scan.databases[at] = ScannedDatabase {
                file: kept.0,
                signature: kept.1,
                passes: kept.2,
                ended_unix_ms: kept.3,
                began_unix_ms: clock.unix_ms(),
                ..ScannedDatabase::default()
            };
        }
        let state = &mut scan.databases[at];
        state.invocations += 1;
        let before = state.clone();
        self.report(match PageNumber::new(first) {
            Some(page) if earlier.next.is_some() => {
                EventKind::PassResumed { report: self.summary(state), page }
            }
            _ => EventKind::PassStarted { database: self.path.clone(), zeroing: false },
        });
        let from = PageNumber::fixed(first);
        let read = ReadOptions { read_bytes: self.options.batch_bytes, reads_in_flight: 1, from };
        // Recovery replaces torn pages by any image, so such a page is not bad.
        let (mut reader, _) = PageReader::of_file(vfs, &self.path, LogPosition::MAX, read)?;
        let pacer = Pacer::new(clock.clone());
        let (mut stored, mut named) = (0_u64, 0);
        let mut goes_on = true;
        while goes_on {
            let Some(extent) = reader.next_extent()? else { break };
            let bytes = extent.bytes.len() as u64;
            reader.recycle(extent);
            let reads = reader.reads();
            let state = &mut scan.databases[at];
            state.pages = before.pages + reads.pages;
            state.uninitialized = before.uninitialized + reads.zero;
            state.corrected = before.corrected + reads.corrected;
            state.bad = before.bad + reads.bad;
            state.next = Some(first.saturating_add(reads.pages as u32));
            for (page, flaw) in reads.bad_pages.iter().skip(named) {
                self.found(*page, size.offset_of(*page), flaw);
                if state.bad_pages.len() < NAMED {
                    state.bad_pages.push((page.get(), flaw.to_string()));
                }
            }
            named = reads.bad_pages.len();
            goes_on = look(state, reader.last_page());
            stored += bytes;
            if stored >= STORED_AFTER || !goes_on {
                stored = 0;
                scan.store(vfs, self.directory)?;
            }
            if let Some(rate) = self.options.throttle.bytes_per_second {
                pacer.wait(Pacer::time_of(bytes, rate), || false);
            }
            if !self.options.throttle.pause.is_zero() {
                clock.sleep(self.options.throttle.pause);
            }
        }
        let state = &mut scan.databases[at];
        if goes_on {
            (state.next, state.ended_unix_ms) = (None, Some(clock.unix_ms()));
            state.passes += 1;
            self.report(EventKind::PassCompleted(self.summary(state)));
        } else {
            self.report(EventKind::PassInterrupted { database: self.path.clone(), zeroing: false });
        }
        scan.store(vfs, self.directory)?;
        Ok(goes_on)
    }

    fn found(&self, page: PageNumber, offset: u64, flaw: &PageFlaw) {
        let what = flaw.to_string();
        self.report(EventKind::ScanFoundPage { file: self.path.clone(), offset, page, what });
    }

    fn summary(&self, state: &ScannedDatabase) -> PassReport {
        let ran = self.vfs.clock().unix_ms().saturating_sub(state.began_unix_ms).max(0) as u64;
        PassReport {
            database: self.path.clone(),
            began_unix_ms: state.began_unix_ms,
            seconds: ran / 1000,
            invocations: state.invocations,
            days: 1 + ran / 86_400_000,
            pages: state.pages,
            bad: state.bad,
            uninitialized: state.uninitialized,
            ..PassReport::default()
        }
    }

    fn report(&self, kind: EventKind) {
        if let Some(events) = &self.options.events {
            events.event(&Event {
                at_unix_ms: self.vfs.clock().unix_ms(),
                instance: self.directory.display().to_string(),
                kind,
                profile: self.options.profile,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use jetcell_vfs::SimVfs;

    use super::*;

    #[test]
    fn progress_that_no_scan_stores_is_forgotten() {
        let disk = SimVfs::new();
        let directory = Path::new("/copy");
        disk.create_directory(directory).unwrap();
        let file = "data.edb".to_string();
        let sound =
            ScannedDatabase { file, next: Some(77), pages: 76, passes: 3, ..ScannedDatabase::default() };
        let forged = [
            ScannedDatabase { next: Some(u32::MAX), ..sound.clone() },
            ScannedDatabase { pages: u64::MAX, ..sound.clone() },
            ScannedDatabase { passes: u64::MAX, ..sound.clone() },
            ScannedDatabase { file: "../data.edb".to_string(), ..sound.clone() },
            ScannedDatabase { bad_pages: vec![(1, String::new()); NAMED + 1], ..sound.clone() },
        ];
        let stored = CopyScan { databases: forged.into_iter().chain([sound.clone()]).collect() };
        stored.store(&disk, directory).unwrap();
        assert_eq!(CopyScan::read(&disk, directory).unwrap(), CopyScan { databases: vec![sound] });
    }
}
