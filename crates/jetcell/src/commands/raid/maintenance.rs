//! `jetcell raid rebuild`, and the rebuild that follows a replacement.

use std::time::{Duration, Instant};

use clap::Args;
use jetcell_array::{ArrayState, BLOCK, RebuildProgress, ZONE_ROWS};
use jetcell_backup::{BackupProgress, TransferControl};
use jetcell_host::{Pacer, Rate};
use jetcell_input::number::human_bytes;
use jetcell_input::quantity::ByteRate;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::operation_context::{ConcurrentActivity, OperationContext, OperationResult};
use super::output_options::OutputOptions;
use super::running_array::{ArrayEventSeverity, ArrayStartOptions, state_name};
use crate::outcome::CommandResult;

/// Interval between two progress checks of a rebuild that runs alongside a load.
const WATCH_INTERVAL: Duration = Duration::from_millis(50);
/// Size in bytes of a zone on one member.
pub const ZONE_BYTES: u64 = ZONE_ROWS * BLOCK as u64;

/// Continue a rebuild, or start it on a spare
#[derive(Args)]
#[command(after_help = "\
Zones that lack the most members are rebuilt first. Ctrl-C interrupts the rebuild; the same command resumes it, also after a crash.

Examples:
  jetcell raid rebuild arr1
  jetcell raid rebuild arr1 --rate 50MB/s --json

Exit code: 0 nothing is left to rebuild, 1 interrupted, or blocks could not be recovered, 2 could not run.")]
pub struct RaidRebuildArgs {
    #[command(flatten)]
    pub start: ArrayStartOptions,
    #[command(flatten)]
    pub rebuild: RebuildOptions,
    #[command(flatten)]
    pub shown: OutputOptions,
}

/// Options for continuing a rebuild.
#[derive(Args, Serialize, Deserialize)]
pub struct RebuildOptions {
    /// Limit the rate of the rebuild
    #[arg(long, value_name = "BYTES/S")]
    rate: Option<ByteRate>,
}

impl RebuildOptions {
    pub fn perform(&self, on: &OperationContext<'_>) -> CommandResult<OperationResult> {
        rebuild(on, self.rate)
    }
}

/// Result of a rebuild.
struct RebuildResult {
    bytes: u64,
    seconds: f64,
    rows_lost: u64,
    is_complete: bool,
}

/// Paces array work that proceeds zone by zone, and tracks its progress.
pub struct ZonePace {
    pace: TransferControl,
    pacer: Pacer,
    bytes_processed: u64,
}

impl ZonePace {
    /// Creates a pace with the rate requested by the user.
    pub fn start(on: &OperationContext<'_>, rate: Option<ByteRate>) -> ZonePace {
        let rate = rate.map(|rate| Rate::BytesPerSecond(rate.0));
        let pacer = Pacer::new(on.vfs.clock(), rate, on.pace.cancel.clone());
        ZonePace { pace: on.pace.clone(), pacer, bytes_processed: 0 }
    }

    /// Returns the number of bytes processed so far.
    pub fn bytes_processed(&self) -> u64 {
        self.bytes_processed
    }

    /// Returns true if the user has cancelled the work.
    pub fn is_cancelled(&self) -> bool {
        self.pace.cancel.is_cancelled()
    }

    /// Records the zones that were rebuilt between two states.
    fn advance_to(&mut self, before: &RebuildProgress, now: &RebuildProgress) {
        self.advance(
            now.zones_since(before) * ZONE_BYTES,
            now.zones_done * ZONE_BYTES,
            now.zones * ZONE_BYTES,
        );
    }

    /// Records that `bytes` more bytes were processed, and waits as long as the rate limit requires.
    pub fn advance(&mut self, bytes: u64, done: u64, total: u64) {
        self.bytes_processed += bytes;
        if let Some(show) = &self.pace.progress {
            show(BackupProgress { done, total, transferred: self.bytes_processed });
        }
        self.pacer.wait(bytes);
    }
}

/// Rebuilds until nothing is left to rebuild or the user interrupts the rebuild.
pub fn rebuild(on: &OperationContext<'_>, rate: Option<ByteRate>) -> CommandResult<OperationResult> {
    let RebuildResult { bytes, seconds, rows_lost, is_complete } = match on.concurrent_activity {
        None => rebuild_directly(on, rate)?,
        Some(beside) => monitor_rebuild(on, beside, rate)?,
    };
    let (name, status) = (on.name, on.with_array(|array| Ok(array.status()))?);
    let state = state_name(status.state);
    let per_second = human_bytes((bytes as f64 / seconds.max(1e-3)) as u64);
    let end = match (is_complete, bytes) {
        (false, _) => format!("; interrupted; to resume, run jetcell raid rebuild {name}"),
        (true, 0) => "; nothing is left to rebuild".into(),
        (true, _) => String::new(),
    };
    let lost =
        if rows_lost > 0 { format!("; {rows_lost} rows could not be recovered") } else { String::new() };
    let figures = json!({ "complete": is_complete, "bytes": bytes, "seconds": seconds, "rows_lost": rows_lost, "state": state });
    let text = format!(
        "{name}: {} rebuilt in {seconds:.1} s ({per_second}/s), {state}{end}{lost}",
        human_bytes(bytes)
    );
    Ok(OperationResult {
        is_good: is_complete && rows_lost == 0,
        ..OperationResult::success(&figures, &text)
    })
}

fn rebuild_directly(on: &OperationContext<'_>, rate: Option<ByteRate>) -> CommandResult<RebuildResult> {
    let began = Instant::now();
    let mut pace = ZonePace::start(on, rate);
    let mut progress = on.with_array(|array| Ok(array.rebuild_progress()))?;
    if !progress.is_complete() {
        on.event("rebuild_started", ArrayEventSeverity::Information, "A rebuild has started.", json!({}));
    }
    // Without a rate limit, many zones are rebuilt at once. With a rate limit, that would take too long.
    let rows = if rate.is_some() { ZONE_ROWS } else { u64::MAX };
    let mut rows_lost = 0;
    while !progress.is_complete() && !pace.is_cancelled() {
        let before = progress;
        progress = on.with_array(|array| array.rebuild_rows(rows))?;
        rows_lost += progress.rows_lost;
        pace.advance_to(&before, &progress);
    }
    on.save_members()?;
    let (bytes, seconds) = (pace.bytes_processed(), began.elapsed().as_secs_f64());
    let is_complete = progress.is_complete();
    match is_complete {
        _ if bytes == 0 => {}
        true => on.files().rebuild_completed(bytes, seconds, rows_lost),
        false => {
            let figures = json!({ "bytes": bytes, "seconds": seconds, "rows_lost": rows_lost });
            on.event(
                "rebuild_interrupted",
                ArrayEventSeverity::Warning,
                "The rebuild was interrupted.",
                figures,
            );
        }
    }
    Ok(RebuildResult { bytes, seconds, rows_lost, is_complete })
}

/// Monitors a rebuild that is run by the array's maintainer, and reports its progress.
fn monitor_rebuild(
    on: &OperationContext<'_>,
    beside: &ConcurrentActivity,
    rate: Option<ByteRate>,
) -> CommandResult<RebuildResult> {
    let began = Instant::now();
    let lost_before = beside.rows_lost();
    let mut pace = ZonePace::start(on, None);
    let read_progress = || -> CommandResult<RebuildProgress> {
        on.with_array(|array| {
            if array.status().state == ArrayState::Stopped {
                // If the array has stopped, this returns the error that stopped it.
                array.flush()?;
            }
            Ok(array.rebuild_progress())
        })
    };
    beside.set_rate(rate.map(|rate| rate.0));
    let mut progress = read_progress()?;
    while !progress.is_complete() && !pace.is_cancelled() {
        on.pace.cancel.sleep(WATCH_INTERVAL);
        let before = progress;
        progress = read_progress()?;
        pace.advance_to(&before, &progress);
    }
    Ok(RebuildResult {
        bytes: pace.bytes_processed(),
        seconds: began.elapsed().as_secs_f64(),
        rows_lost: beside.rows_lost() - lost_before,
        is_complete: progress.is_complete(),
    })
}
