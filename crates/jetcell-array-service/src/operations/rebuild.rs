//! Rebuilds. If the array is in use, its maintainer runs the rebuild, and this module only monitors it.

use std::time::{Duration, Instant};

use jetcell_array::{ArrayState, RebuildProgress, ZONE_ROWS};
use jetcell_input::quantity::ByteRate;
use jetcell_sync::atomic::Ordering;
use serde_json::json;

use super::context::OperationContext;
use super::result::{OperationResult, RebuildResult};
use super::zone_pace::ZonePace;
use crate::description::ArrayHealth;
use crate::directory::ArrayEventSeverity;
use crate::error::Result;
use crate::running::ConcurrentActivity;

/// Interval between two progress checks of a rebuild that runs alongside a load.
const WATCH_INTERVAL: Duration = Duration::from_millis(50);

/// Rebuilds until nothing is left to rebuild or the user interrupts the rebuild.
pub(super) fn rebuild(on: &OperationContext<'_>, rate: Option<ByteRate>) -> Result<OperationResult> {
    Ok(OperationResult::Rebuilt(match on.concurrent_activity {
        None => rebuild_directly(on, rate)?,
        Some(beside) => monitor_rebuild(on, beside, rate)?,
    }))
}

fn health(on: &OperationContext<'_>) -> Result<ArrayHealth> {
    let status = on.with_array(|array| Ok(array.status()))?;
    Ok(ArrayHealth::new(status.state, status.lost_rows))
}

fn rebuild_directly(on: &OperationContext<'_>, rate: Option<ByteRate>) -> Result<RebuildResult> {
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
    Ok(RebuildResult { bytes, seconds, rows_lost, is_complete, health: health(on)? })
}

/// Monitors a rebuild that is run by the array's maintainer, and reports its progress.
fn monitor_rebuild(
    on: &OperationContext<'_>,
    beside: &ConcurrentActivity,
    rate: Option<ByteRate>,
) -> Result<RebuildResult> {
    let began = Instant::now();
    let rows_lost = || beside.rows_lost.load(Ordering::Relaxed);
    let lost_before = rows_lost();
    let mut pace = ZonePace::start(on, None);
    let read_progress = || -> Result<RebuildProgress> {
        on.with_array(|array| {
            if array.status().state == ArrayState::Stopped {
                // If the array has stopped, this returns the error that stopped it.
                array.flush()?;
            }
            Ok(array.rebuild_progress())
        })
    };
    *beside.rate.lock() = rate.map(|rate| rate.0);
    let mut progress = read_progress()?;
    while !progress.is_complete() && !pace.is_cancelled() {
        on.control.cancel.sleep(WATCH_INTERVAL);
        let before = progress;
        progress = read_progress()?;
        pace.advance_to(&before, &progress);
    }
    Ok(RebuildResult {
        bytes: pace.bytes_processed(),
        seconds: began.elapsed().as_secs_f64(),
        rows_lost: rows_lost() - lost_before,
        is_complete: progress.is_complete(),
        health: health(on)?,
    })
}
