//! `jetcell raid scrub`: verifies and repairs all blocks of an array.

use std::time::{Duration, Instant};

use clap::Args;
use jetcell_array::{ScrubReport, SlotStatus};
use jetcell_input::number::human_bytes;
use jetcell_input::quantity::ByteRate;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::maintainer::{MIN_PAUSE, maintenance_throttle};
use super::maintenance::{ZONE_BYTES, ZonePace};
use super::operation_context::{OperationContext, OperationResult};
use super::output_options::OutputOptions;
use super::running_array::{ArrayEventSeverity, ArrayStartOptions};
use crate::outcome::{CommandError, CommandResult};

/// Interval at which the scrub checks whether a rebuild has completed. Rebuilds take precedence over the scrub.
const REBUILD_INTERVAL: Duration = Duration::from_millis(100);

/// Read and verify all blocks of an array, and repair damaged blocks
#[derive(Args)]
#[command(after_help = "\
A block with a wrong checksum, or from an older write, is recovered from the other members, verified and written back. If all
checksums are correct and parity disagrees with the data, only parity blocks are recomputed. Ctrl-C interrupts the pass; the same
command resumes it.

Examples:
  jetcell raid scrub arr1
  jetcell raid scrub arr1 --rate 20MB/s --json

Exit code: 0 no damage, 1 damage was found (repaired or not), or the pass was interrupted, 2 could not run.")]
pub struct RaidScrubArgs {
    #[command(flatten)]
    pub start: ArrayStartOptions,
    #[command(flatten)]
    pub pass: ScrubPassOptions,
    #[command(flatten)]
    pub shown: OutputOptions,
}

/// Options for a scrub pass of an array.
#[derive(Args, Serialize, Deserialize)]
pub struct ScrubPassOptions {
    /// Limit the rate, in bytes of array data
    #[arg(long, value_name = "BYTES/S")]
    rate: Option<ByteRate>,
}

impl ScrubPassOptions {
    pub fn perform(&self, on: &OperationContext<'_>) -> CommandResult<OperationResult> {
        let turn = on.concurrent_activity.map(super::operation_context::ConcurrentActivity::begin_scrub);
        if matches!(turn, Some(None)) {
            return Err(CommandError::new(format_args!(
                "{}: a scrub of the array is already running",
                on.name
            ))
            .advise("wait until it completes"));
        }
        let began = Instant::now();
        on.event("scrub_started", ArrayEventSeverity::Information, "A scrub has started.", json!({}));
        let (report, is_complete) = self.pass(on, began)?;
        let slots = on.with_array(|array| Ok(array.status().slots))?;
        Ok(answer(on.name, &slots, &report, is_complete, began.elapsed().as_secs_f64()))
    }

    /// Runs the rest of the pass. Returns the report, and whether the pass is complete.
    fn pass(&self, on: &OperationContext<'_>, began: Instant) -> CommandResult<(ScrubReport, bool)> {
        let mut pace = ZonePace::start(on, self.rate);
        let mut report = ScrubReport::default();
        let (zones, before, columns) = on.with_array(|array| {
            let layout = array.layout();
            Ok((layout.zones(), array.scrub_cursor(), layout.data_columns() as u64))
        })?;
        let is_beside = on.concurrent_activity.is_some();
        // By default, many zones are verified at once. A concurrent load would have to wait for them, and with a rate
        // limit they would take too long.
        let most = if is_beside || self.rate.is_some() { 1 } else { u64::MAX };
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
                on.pace.cancel.sleep(REBUILD_INTERVAL);
                continue;
            };
            is_complete = is_last;
            let bytes = ZONE_BYTES * columns;
            pace.advance((report.zones - done) * bytes, (before + report.zones) * bytes, zones * bytes);
            if is_beside {
                on.pace.cancel.sleep(pause.max(MIN_PAUSE));
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
        let text =
            format!("A scrub verified {rows} rows: {damaged} damaged blocks, {repaired} written back.");
        let figures = json!({ "rows": rows, "bytes": pace.bytes_processed(), "seconds": began.elapsed().as_secs_f64(),
            "damaged": damaged, "repaired": repaired, "complete": is_complete });
        on.event("scrub_ended", severity, &text, figures);
        Ok((report, is_complete))
    }
}

fn answer(
    name: &str,
    slots: &[SlotStatus],
    report: &ScrubReport,
    is_complete: bool,
    seconds: f64,
) -> OperationResult {
    let member = |slot: usize| slots[slot].member.clone().unwrap_or_default();
    let damaged: Vec<(usize, u64)> =
        report.damaged.iter().copied().enumerate().filter(|(_, count)| *count > 0).collect();
    let of_slots: Vec<Value> = damaged
        .iter()
        .map(|(slot, count)| json!({ "slot": slot, "member": member(*slot), "blocks": count }))
        .collect();
    let disagreements: Vec<Value> = report
        .parity_mismatches
        .iter()
        .map(|found| json!({ "row": found.row, "suspect": found.suspect, "repaired": found.is_repaired }))
        .collect();
    let value = json!({ "complete": is_complete, "seconds": seconds, "zones": report.zones, "rows": report.rows,
        "damaged": of_slots, "repaired": report.repaired, "unrecoverable_rows": report.unrecoverable,
        "disagreements": disagreements });
    let rate = human_bytes(((report.zones * ZONE_BYTES) as f64 / seconds.max(1e-3)) as u64);
    let end = if is_complete { "" } else { "; interrupted: the same command resumes it" };
    let mut lines =
        vec![format!("{name}: {} rows verified in {seconds:.1} s ({rate}/s per member){end}", report.rows)];
    lines.extend(damaged.iter().map(|(slot, count)| {
        format!("  slot {slot} ({}): {count} damaged or stale blocks", member(*slot).display())
    }));
    if report.repaired > 0 {
        lines.push(format!("  {} blocks written back", report.repaired));
    }
    lines.extend(report.unrecoverable.iter().map(|row| format!("  row {row}: too many blocks are damaged")));
    lines.extend(report.parity_mismatches.iter().map(|found| {
        let suspect = found.suspect.map_or("no single slot explains the mismatch".into(), |slot| {
            format!("slot {slot} would explain the mismatch")
        });
        let repaired = if found.is_repaired { "; parity was recomputed" } else { "; nothing was changed" };
        format!("  row {}: checksums are correct, parity disagrees; {suspect}{repaired}", found.row)
    }));
    OperationResult {
        is_good: is_complete && report.is_clean(),
        ..OperationResult::success(&value, &jetcell_input::printable_rows(&lines))
    }
}
