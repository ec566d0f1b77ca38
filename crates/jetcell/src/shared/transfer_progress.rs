//! Progress of a backup, a restore or a backup check: bytes, rate and remaining time.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jetcell_backup::{BackupProgress, TransferControl};
use jetcell_host::{Cancellation, ProgressReport, cancelled_by_signals, completed_share};
use jetcell_input::number::human_bytes;
use jetcell_input::quantity::ByteRate;
use jetcell_input::time::format_duration;

use crate::console;
use crate::outcome::CommandResult;

struct TransferProgressState {
    report: ProgressReport,
    began: Instant,
}

/// Progress line for a data transfer. It is removed when this value is dropped.
pub struct TransferProgress(Arc<Mutex<TransferProgressState>>);

impl TransferProgress {
    /// Creates a progress line and the pace of the transfer that it shows. The pace limits the transfer to `rate`,
    /// and Ctrl-C cancels the transfer.
    pub fn start(
        title: &'static str,
        rate: Option<ByteRate>,
    ) -> CommandResult<(TransferProgress, TransferControl)> {
        let cancel = cancelled_by_signals()?;
        Ok(TransferProgress::with_cancel(title, rate, cancel))
    }

    /// Like [`TransferProgress::start`], but `cancel` cancels the transfer.
    pub fn with_cancel(
        title: &'static str,
        rate: Option<ByteRate>,
        cancel: Cancellation,
    ) -> (TransferProgress, TransferControl) {
        let report = ProgressReport::new(ProgressReport::PLAIN_INTERVAL);
        let shown = Arc::new(Mutex::new(TransferProgressState { report, began: Instant::now() }));
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
        self.0.lock().unwrap_or_else(PoisonError::into_inner).report.close();
    }
}

fn show(shown: &mut TransferProgressState, title: &'static str, progress: BackupProgress) {
    if !shown.report.is_due() {
        return;
    }
    let seconds = shown.began.elapsed().as_secs_f64().max(1e-3);
    let rate = progress.transferred as f64 / seconds;
    let left = Duration::from_secs_f64(((progress.total - progress.done) as f64 / rate.max(1.0)).min(1e9));
    let (total, rate) = (human_bytes(progress.total), human_bytes(rate as u64));
    let left = format_duration(left);
    if let Some(line) = shown.report.line() {
        let details = format!("{left} left, {rate}/s, {total} in total");
        line.show(title, completed_share(progress.done, progress.total), &details);
        return;
    }
    let percent = (progress.done * 100).checked_div(progress.total).unwrap_or(100);
    console::print_note(&format!("{title}: {percent} % of {total}, {rate}/s, {left} left"));
}
