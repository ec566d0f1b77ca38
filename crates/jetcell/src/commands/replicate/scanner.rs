//! Page scan of the copy in a separate thread while the logs are replayed.

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use ese_engine::{EventProfile, EventSink, MaintenanceThrottle};
use jetcell_copies::{CopyScanOptions, scan_copy};
use jetcell_host::Cancellation;
use jetcell_vfs::Vfs;
use parking_lot::Mutex;

use crate::console;
use crate::outcome::{CommandContext, CommandError, CommandResult};

/// Interval between the starts of two passes: one day, as in ESE.
const PASS_INTERVAL: Duration = Duration::from_secs(86_400);
/// Interval at which the scanner checks whether a pass is due.
const DUE_CHECK_INTERVAL: Duration = Duration::from_secs(60);
/// Size of a read in bytes.
const BATCH_BYTES: usize = 256 << 10;

/// A background scanner that scans a copy until it is stopped.
pub struct CopyScanner {
    cancellation: Cancellation,
    progress: Arc<Mutex<Option<String>>>,
    thread: JoinHandle<CommandResult<()>>,
}

/// Options for scanning a copy continuously.
pub struct ContinuousScanOptions {
    /// Pause after each read.
    pub pause: Duration,
    /// True to run a single pass immediately.
    pub once: bool,
    pub events: Arc<dyn EventSink>,
}

impl CopyScanner {
    pub fn start(
        vfs: &Arc<dyn Vfs>,
        directory: &Path,
        order: ContinuousScanOptions,
    ) -> CommandResult<CopyScanner> {
        let (cancellation, progress) = (Cancellation::default(), Arc::<Mutex<Option<String>>>::default());
        let options = CopyScanOptions {
            batch_bytes: BATCH_BYTES,
            throttle: MaintenanceThrottle { pause: order.pause, ..MaintenanceThrottle::default() },
            interval: if order.once { Duration::ZERO } else { PASS_INTERVAL },
            events: Some(order.events),
            profile: EventProfile::default(),
            cancellation: cancellation.clone(),
        };
        let (vfs, directory) = (vfs.clone(), directory.to_path_buf());
        let (cancelled, shown, once) = (cancellation.clone(), progress.clone(), order.once);
        let work = move || {
            let mut said = String::new();
            loop {
                let scanned = scan_copy(&vfs, &directory, &options, &mut |database, last| {
                    let page = database.next.unwrap_or(last).min(last);
                    *shown.lock() = Some(format!("{}: page {page} of {last}", database.file));
                    true
                });
                *shown.lock() = None;
                match scanned.map_err(CommandError::from) {
                    Ok(_) if once => return Ok(()),
                    Ok(_) => said.clear(),
                    Err(failure) if once => return Err(failure),
                    // A scan error does not stop replay. A repeated error is reported only once.
                    Err(failure) => {
                        let now = failure.full_text();
                        if now != said {
                            console::print_note(&format!("the copy is not scanned: {now}"));
                            said = now;
                        }
                    }
                }
                if !cancelled.sleep(DUE_CHECK_INTERVAL) {
                    return Ok(());
                }
            }
        };
        let thread = std::thread::Builder::new().name("jetcell-scan".into()).spawn(work);
        let thread = thread.context("could not start the scan")?;
        Ok(CopyScanner { cancellation, progress, thread })
    }

    /// Returns the progress of the pass, or `None` between passes.
    pub fn progress(&self) -> Option<String> {
        self.progress.lock().clone()
    }

    /// Returns true if the thread has finished. If `once` is set, this is at the end of the pass.
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Interrupts the pass. The next scan resumes it.
    pub fn stop(self) -> CommandResult<()> {
        self.cancellation.cancel();
        self.thread.join().unwrap_or_else(|_| Err(CommandError::new("the scan of the copy panicked")))
    }
}
