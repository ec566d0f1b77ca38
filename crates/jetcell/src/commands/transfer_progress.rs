//! Progress of a backup, a restore or a backup check: bytes, rate and remaining time.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jetcell_backup::{BackupProgress, CancelToken, TransferControl};
use jetcell_input::number::human_bytes;
use jetcell_input::quantity::ByteRate;
use jetcell_input::time::format_duration;

use crate::console;
use crate::outcome::CommandError;
use crate::progress_line::{ProgressLine, completed_share};

/// Interval between redraws of the progress line on a terminal.
const REDRAW_INTERVAL: Duration = Duration::from_millis(100);
/// Interval between progress lines if stderr is not a terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

struct TransferProgressState {
    line: Option<ProgressLine>,
    began: Instant,
    last_shown: Instant,
}

/// Progress line for a data transfer. It is removed when this value is dropped.
pub struct TransferProgress(Arc<Mutex<TransferProgressState>>);

impl TransferProgress {
    /// Creates a progress line and the pace of the transfer that it shows. The pace limits the transfer to `rate`,
    /// and Ctrl-C cancels the transfer.
    pub fn start(
        title: &'static str,
        rate: Option<ByteRate>,
    ) -> Result<(TransferProgress, TransferControl), CommandError> {
        let cancel = CancelToken::default();
        stop_on_signals(cancel.clone())?;
        Ok(TransferProgress::with_cancel(title, rate, cancel))
    }

    /// Like [`TransferProgress::start`], but `cancel` cancels the transfer.
    pub fn with_cancel(
        title: &'static str,
        rate: Option<ByteRate>,
        cancel: CancelToken,
    ) -> (TransferProgress, TransferControl) {
        let now = Instant::now();
        let shown = Arc::new(Mutex::new(TransferProgressState {
            line: ProgressLine::new(),
            began: now,
            last_shown: now,
        }));
        let watched = shown.clone();
        let show = move |progress| {
            show(&mut watched.lock().unwrap_or_else(PoisonError::into_inner), title, progress);
        };
        let pace = TransferControl { rate: rate.map(|rate| rate.0), cancel, progress: Some(Arc::new(show)) };
        (TransferProgress(shown), pace)
    }
}

impl Drop for TransferProgress {
    fn drop(&mut self) {
        // The pace may outlive the progress line.
        drop(self.0.lock().unwrap_or_else(PoisonError::into_inner).line.take());
    }
}

fn show(shown: &mut TransferProgressState, title: &'static str, progress: BackupProgress) {
    if shown.last_shown.elapsed() < if shown.line.is_some() { REDRAW_INTERVAL } else { LINE_INTERVAL } {
        return;
    }
    shown.last_shown = Instant::now();
    let seconds = shown.began.elapsed().as_secs_f64().max(1e-3);
    let rate = progress.transferred as f64 / seconds;
    let left = Duration::from_secs_f64(((progress.total - progress.done) as f64 / rate.max(1.0)).min(1e9));
    let (total, rate) = (human_bytes(progress.total), human_bytes(rate as u64));
    let left = format_duration(left);
    if let Some(line) = &shown.line {
        let details = format!("{left} left, {rate}/s, {total} in total");
        line.show(title, completed_share(progress.done, progress.total), &details);
        return;
    }
    let percent = (progress.done * 100).checked_div(progress.total).unwrap_or(100);
    console::print_note(&format!("{title}: {percent} % of {total}, {rate}/s, {left} left"));
}

/// Installs a signal handler. The first signal cancels the work, and the second one ends the process.
pub fn stop_on_signals(cancel: CancelToken) -> Result<(), CommandError> {
    let handler = move || {
        if cancel.is_cancelled() {
            std::process::exit(130);
        }
        cancel.cancel();
    };
    ctrlc::set_handler(handler)
        .map_err(|error| format!("could not install the Ctrl-C handler: {error}").into())
}
