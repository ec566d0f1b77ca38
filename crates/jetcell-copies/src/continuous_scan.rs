//! The scan of a copy in a separate thread while its logs are replayed.

use std::io;
use std::panic::resume_unwind;
use std::path::Path;
use std::time::Duration;

use ese_engine::{EventProfile, EventSink, MaintenanceThrottle};
use jetcell_host::Cancellation;
use jetcell_sync::thread::{Builder, JoinHandle};
use jetcell_sync::{Arc, Mutex};
use jetcell_vfs::Vfs;

use crate::copy_scan::{CopyScanOptions, scan_copy};
use crate::error::{CopyError, Result};

/// Interval between the starts of two passes: one day, as in ESE.
const PASS_INTERVAL: Duration = Duration::from_secs(86_400);
/// Interval at which the scan checks whether a pass is due.
const DUE_CHECK_INTERVAL: Duration = Duration::from_secs(60);
/// Size of a read in bytes.
const BATCH_BYTES: usize = 256 << 10;

/// A thread that scans a copy until it is stopped.
pub struct ContinuousScan {
    cancellation: Cancellation,
    progress: Arc<Mutex<Option<String>>>,
    thread: JoinHandle<Result<()>>,
}

/// Options for scanning a copy continuously.
pub struct ContinuousScanOptions {
    /// Pause after each read.
    pub pause: Duration,
    /// True to run a single pass immediately.
    pub once: bool,
    /// Receiver of scan events.
    pub events: Arc<dyn EventSink>,
}

impl ContinuousScan {
    /// Starts the thread. If a pass fails, the thread continues, unless [`ContinuousScanOptions::once`] is set. The
    /// error is passed to `report`, but not repeatedly if each pass fails with the same error.
    ///
    /// # Errors
    /// Returns an error if the thread cannot be started.
    pub fn start(
        vfs: &Arc<dyn Vfs>,
        directory: &Path,
        options: ContinuousScanOptions,
        report: impl Fn(CopyError) + Send + 'static,
    ) -> io::Result<ContinuousScan> {
        let (cancellation, progress) = (Cancellation::default(), Arc::<Mutex<Option<String>>>::default());
        let once = options.once;
        let options = CopyScanOptions {
            batch_bytes: BATCH_BYTES,
            throttle: MaintenanceThrottle { pause: options.pause, ..MaintenanceThrottle::default() },
            interval: if once { Duration::ZERO } else { PASS_INTERVAL },
            events: Some(options.events),
            profile: EventProfile::default(),
            cancellation: cancellation.clone(),
        };
        let (vfs, directory) = (vfs.clone(), directory.to_path_buf());
        let (cancelled, current) = (cancellation.clone(), progress.clone());
        let work = move || {
            let mut reported = String::new();
            loop {
                let scanned = scan_copy(&vfs, &directory, &options, &mut |database, last| {
                    let page = database.next.unwrap_or(last).min(last);
                    *current.lock() = Some(format!("{}: page {page} of {last}", database.file));
                    true
                });
                *current.lock() = None;
                match scanned {
                    scanned if once => return scanned.map(drop),
                    Ok(_) => reported.clear(),
                    Err(error) if error.to_string() != reported => {
                        reported = error.to_string();
                        report(error);
                    }
                    Err(_) => {}
                }
                if !cancelled.sleep(DUE_CHECK_INTERVAL) {
                    return Ok(());
                }
            }
        };
        let thread = Builder::new().name("jetcell-scan".into()).spawn(work)?;
        Ok(ContinuousScan { cancellation, progress, thread })
    }

    /// Returns the progress of the pass, or `None` between passes.
    pub fn progress(&self) -> Option<String> {
        self.progress.lock().clone()
    }

    /// Returns true if the thread has finished. With [`ContinuousScanOptions::once`], this is at the end of the pass.
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Interrupts the pass. The next scan resumes it.
    ///
    /// # Errors
    /// With [`ContinuousScanOptions::once`], returns the error of the pass.
    pub fn stop(self) -> Result<()> {
        self.cancellation.cancel();
        self.thread.join().unwrap_or_else(|panic| resume_unwind(panic))
    }
}
