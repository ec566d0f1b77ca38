//! Scrub passes: verification and repair of all blocks of an array.

use std::time::{Duration, Instant};

use jetcell_array::{ScrubReport, SlotStatus};
use jetcell_input::quantity::ByteRate;
use serde_json::json;

use super::context::OperationContext;
use super::result::{DamagedSlot, OperationResult, ParityDisagreement, ScrubResult};
use super::zone_pace::ZonePace;
use crate::directory::ArrayEventSeverity;
use crate::error::{Error, Result};
use crate::running::{ConcurrentActivity, MIN_PAUSE, ZONE_BYTES, maintenance_throttle};

/// Interval at which the scrub checks whether a rebuild has completed. Rebuilds take precedence over the scrub.
const REBUILD_INTERVAL: Duration = Duration::from_millis(100);

/// Runs the rest of a scrub pass.
pub(super) fn scrub(on: &OperationContext<'_>, rate: Option<ByteRate>) -> Result<OperationResult> {
    let turn = on.concurrent_activity.map(ConcurrentActivity::begin_scrub);
    if matches!(turn, Some(None)) {
        return Err(Error::ScrubIsRunning(on.name.into()));
    }
    let began = Instant::now();
    on.event("scrub_started", ArrayEventSeverity::Information, "A scrub has started.", json!({}));
    let (report, is_complete) = scrub_zones(on, rate, began)?;
    let slots = on.with_array(|array| Ok(array.status().slots))?;
    Ok(OperationResult::Scrubbed(result(&slots, report, is_complete, began.elapsed().as_secs_f64())))
}

/// Runs the rest of the pass. Returns the report, and whether the pass is complete.
fn scrub_zones(
    on: &OperationContext<'_>,
    rate: Option<ByteRate>,
    began: Instant,
) -> Result<(ScrubReport, bool)> {
    let mut pace = ZonePace::start(on, rate);
    let mut report = ScrubReport::default();
    let (zones, before, columns) = on.with_array(|array| {
        let layout = array.layout();
        Ok((layout.zones(), array.scrub_cursor(), layout.data_columns() as u64))
    })?;
    let is_beside = on.concurrent_activity.is_some();
    // By default, many zones are verified at once. A concurrent load would have to wait for them, and with a rate
    // limit they would take too long.
    let most = if is_beside || rate.is_some() { 1 } else { u64::MAX };
    let mut throttle = maintenance_throttle();
    let mut is_complete = false;
    while !is_complete && !pace.is_cancelled() {
        let done = report.zones;
        let step = on.with_array(|array| {
            if is_beside && !array.rebuild_progress().is_complete() {
                return Ok(None);
            }
            let meter = array.load_meter();
            let (is_last, pause) = throttle.step(&meter, |_| array.scrub_zones(most, &mut report));
            Ok(Some((is_last?, pause)))
        })?;
        let Some((is_last, pause)) = step else {
            on.control.cancel.sleep(REBUILD_INTERVAL);
            continue;
        };
        is_complete = is_last;
        let bytes = ZONE_BYTES * columns;
        pace.advance((report.zones - done) * bytes, (before + report.zones) * bytes, zones * bytes);
        if is_beside {
            on.control.cancel.sleep(pause.max(MIN_PAUSE));
        }
    }
    let damaged: u64 = report.damaged.iter().sum();
    let severity = if report.is_clean() {
        ArrayEventSeverity::Information
    } else if report.unrecoverable.is_empty()
        && report.parity_mismatches.iter().all(|found| found.is_repaired)
    {
        ArrayEventSeverity::Warning
    } else {
        ArrayEventSeverity::Error
    };
    let (rows, repaired) = (report.rows, report.repaired);
    let text = format!("A scrub verified {rows} rows: {damaged} damaged blocks, {repaired} written back.");
    let figures = json!({ "rows": rows, "bytes": pace.bytes_processed(), "seconds": began.elapsed().as_secs_f64(),
        "damaged": damaged, "repaired": repaired, "complete": is_complete });
    on.event("scrub_ended", severity, &text, figures);
    Ok((report, is_complete))
}

fn result(slots: &[SlotStatus], report: ScrubReport, is_complete: bool, seconds: f64) -> ScrubResult {
    let damaged = report.damaged.iter().copied().enumerate().filter(|(_, blocks)| *blocks > 0);
    let damaged_slot = |(slot, blocks): (usize, u64)| {
        let member = slots[slot].member.clone().unwrap_or_default();
        DamagedSlot { slot, member, blocks }
    };
    let disagreements = report.parity_mismatches.iter();
    ScrubResult {
        is_complete,
        seconds,
        zones: report.zones,
        rows: report.rows,
        repaired: report.repaired,
        damaged: damaged.map(damaged_slot).collect(),
        unrecoverable_rows: report.unrecoverable,
        disagreements: disagreements
            .map(|found| ParityDisagreement {
                row: found.row,
                suspect: found.suspect,
                repaired: found.is_repaired,
            })
            .collect(),
    }
}
