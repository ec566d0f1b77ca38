//! The scan of a copy, which reads and verifies all pages while logs may be replayed concurrently.
//!
//! The progress is stored in a file in the copy's directory. It therefore survives a process exit and an activation:
//! when the side becomes a copy again, the pass resumes. The scan is independent of the active side, which has its
//! own scan. A page that looks damaged may just be in the middle of a write. It is reread several times with
//! increasing pauses before it is reported as bad.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ese_engine::{
    DatabasePageReader, Event, EventKind, EventProfile, EventSink, MaintenanceThrottle, PageFlaw,
    PageReadOptions, PassReport,
};
use ese_format::{LogPosition, PageNumber};
use jetcell_backup::text_file;
use jetcell_host::{Cancellation, Pacer, Rate};
use jetcell_sync::Arc;
use jetcell_vfs::{FileName, Vfs, remove_unfinished};
use serde::{Deserialize, Serialize};

use crate::copy_state::{CopiedDatabase, CopyPhase, CopyState, database_header};
use crate::error::{CopyError, Refusal, Result};

/// Name of the scan progress file.
pub const SCAN_FILE: &str = "scan.json";
/// Name of the file that is locked while the copy is scanned.
const LOCK_FILE: &str = "scan.lock";
/// Number of bytes to read before the progress is stored again.
const STORE_INTERVAL_BYTES: u64 = 64 << 20;
/// Maximum page number of a database.
const LAST_PAGE: u32 = 0x7FFF_FFFF;
/// Maximum number of bad pages that the file lists per database.
const MAX_LISTED_BAD_PAGES: usize = 100;
/// Maximum file length in bytes, enough for hundreds of databases with bad pages.
const MAX_BYTES: u64 = 16 << 20;

/// Options for scanning a copy.
#[derive(Clone)]
pub struct CopyScanOptions {
    /// Size of one read in bytes.
    pub batch_bytes: usize,
    /// Rate limit and pauses.
    pub throttle: MaintenanceThrottle,
    /// Minimum time between the starts of two passes over a database. ESE: `JET_paramDbScanIntervalMinSec`.
    #[doc(alias = "JET_paramDbScanIntervalMinSec")]
    pub interval: Duration,
    /// Receiver of scan events.
    pub events: Option<Arc<dyn EventSink>>,
    /// Profile that selects the event numbers.
    pub profile: EventProfile,
    /// Ends the scan early, also during a pause. The next call resumes it.
    pub cancellation: Cancellation,
}

/// Scan progress for all databases in a copy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CopyScanProgress {
    /// Progress for each database.
    pub databases: Vec<ScannedDatabase>,
}

/// Scan progress for one database in a copy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScannedDatabase {
    /// Name of the file in the directory of the copy.
    pub file: String,
    /// Signature of the database, in hexadecimal digits.
    pub signature: String,
    /// Next page of the pass; `None` if no pass is in progress.
    pub next: Option<u32>,
    /// Time at which the current or most recent pass started, in milliseconds since 1970 UTC.
    pub began_unix_ms: i64,
    /// Time at which the last complete pass ended, in milliseconds since 1970 UTC.
    pub ended_unix_ms: Option<i64>,
    /// Number of complete passes.
    pub passes: u64,
    /// Number of times the pass was started or resumed.
    pub invocations: u64,
    /// Number of pages read in this pass.
    pub pages: u64,
    /// Number of never-written pages found in this pass.
    pub uninitialized: u64,
    /// Number of pages found in this pass with a single flipped bit that could be located.
    pub corrected: u64,
    /// Number of bad pages found in this pass.
    pub bad: u64,
    /// The first bad pages, each with a description.
    pub bad_pages: Vec<(u32, String)>,
}

impl ScannedDatabase {
    /// Returns true if a pass is in progress, or if the last pass started at least `interval` ago.
    fn is_due(&self, now_unix_ms: i64, interval: Duration) -> bool {
        let began = now_unix_ms.saturating_sub(self.began_unix_ms);
        self.next.is_some()
            || self.passes == 0
            || u128::try_from(began).is_ok_and(|ms| ms >= interval.as_millis())
    }

    /// Returns true if these values could have been stored by a scan. The check prevents overflow in later
    /// arithmetic.
    fn is_valid(&self) -> bool {
        let counts =
            [self.passes, self.invocations, self.pages, self.uninitialized, self.corrected, self.bad];
        counts.iter().all(|count| *count <= u64::from(u32::MAX))
            && self.next.is_none_or(|next| next <= LAST_PAGE)
            && FileName::new(self.file.as_str()).is_ok()
            && self.bad_pages.len() <= MAX_LISTED_BAD_PAGES
    }
}

impl CopyScanProgress {
    /// Reads the scan progress in a directory. Returns empty progress if there has been no scan or the file is
    /// damaged; the pass then starts over.
    pub fn read(vfs: &dyn Vfs, directory: &Path) -> Result<CopyScanProgress> {
        let text = text_file::read_at_most(vfs, &directory.join(SCAN_FILE), MAX_BYTES)?.unwrap_or_default();
        let mut scan: CopyScanProgress = serde_json::from_str(&text).unwrap_or_default();
        scan.databases.retain(ScannedDatabase::is_valid);
        Ok(scan)
    }

    fn store(&self, vfs: &dyn Vfs, directory: &Path) -> Result<()> {
        Ok(text_file::write_json(vfs, &directory.join(SCAN_FILE), self)?)
    }

    fn find_or_add(&mut self, database: &CopiedDatabase) -> usize {
        let is_same_database = |known: &ScannedDatabase| known.signature == database.signature;
        if let Some(at) = self.databases.iter().position(is_same_database) {
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

/// Reads and verifies all pages of a copy if a pass is due. Starts at the page where the previous call stopped.
///
/// `should_continue` receives the progress after each read and returns `false` to stop the scan. The next call then
/// resumes where this one stopped. Another thread or process may follow the copy during the scan.
///
/// # Errors
///
/// Returns an error if the directory is not a copy with databases, if another process is scanning it, or if a
/// database file cannot be read.
pub fn scan_copy(
    vfs: &Arc<dyn Vfs>,
    directory: &Path,
    options: &CopyScanOptions,
    should_continue: &mut dyn FnMut(&ScannedDatabase, u32) -> bool,
) -> Result<CopyScanProgress> {
    let Some(state) = CopyState::read(&**vfs, directory)? else {
        return Err(Refusal::NotACopy.at(directory));
    };
    if state.phase == CopyPhase::Seeding {
        return Err(Refusal::SeedingIncomplete.at(directory));
    }
    let lock = directory.join(LOCK_FILE);
    let _lock = vfs.lock(&lock).map_err(|error| match error.kind() {
        std::io::ErrorKind::WouldBlock => Refusal::ScanRunning.at(directory),
        _ => CopyError::io(&lock, &error),
    })?;
    remove_unfinished(&**vfs, &directory.join(SCAN_FILE));
    let mut scan = CopyScanProgress::read(&**vfs, directory)?;
    for database in &state.databases {
        let at = scan.find_or_add(database);
        if !scan.databases[at].is_due(vfs.clock().unix_ms(), options.interval) {
            continue;
        }
        let pass = ScanPass { vfs, directory, options, path: directory.join(&database.file) };
        if !pass.run(&mut scan, at, should_continue)? {
            break;
        }
    }
    Ok(scan)
}

struct ScanPass<'a> {
    vfs: &'a Arc<dyn Vfs>,
    directory: &'a Path,
    options: &'a CopyScanOptions,
    path: PathBuf,
}

impl ScanPass<'_> {
    fn run(
        &self,
        scan: &mut CopyScanProgress,
        at: usize,
        should_continue: &mut dyn FnMut(&ScannedDatabase, u32) -> bool,
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
        let read = PageReadOptions { read_bytes: self.options.batch_bytes, reads_in_flight: 1, from };
        // Recovery can replace a torn page by any saved image, so a torn page with an image is not bad.
        let (mut reader, _) = DatabasePageReader::for_file(vfs, &self.path, LogPosition::MAX, read)?;
        let MaintenanceThrottle { bytes_per_second, pause, .. } = self.options.throttle;
        let cancellation = &self.options.cancellation;
        let rate = bytes_per_second.map(Rate::BytesPerSecond);
        let pacer = Pacer::new(clock.clone(), rate, cancellation.clone());
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
                self.report_bad_page(*page, size.offset_of(*page), flaw);
                if state.bad_pages.len() < MAX_LISTED_BAD_PAGES {
                    state.bad_pages.push((page.get(), flaw.to_string()));
                }
            }
            named = reads.bad_pages.len();
            goes_on = !cancellation.is_cancelled() && should_continue(state, reader.last_page());
            stored += bytes;
            if stored >= STORE_INTERVAL_BYTES || !goes_on {
                stored = 0;
                scan.store(vfs, self.directory)?;
            }
            pacer.wait(bytes);
            cancellation.wait(&*clock, pause);
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

    fn report_bad_page(&self, page: PageNumber, offset: u64, flaw: &PageFlaw) {
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
    fn impossible_scan_progress_is_discarded() {
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
            ScannedDatabase {
                bad_pages: vec![(1, String::new()); MAX_LISTED_BAD_PAGES + 1],
                ..sound.clone()
            },
        ];
        let stored = CopyScanProgress { databases: forged.into_iter().chain([sound.clone()]).collect() };
        stored.store(&disk, directory).unwrap();
        assert_eq!(
            CopyScanProgress::read(&disk, directory).unwrap(),
            CopyScanProgress { databases: vec![sound] }
        );
    }
}
