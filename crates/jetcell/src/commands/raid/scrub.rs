//! `jetcell raid scrub`.

use std::time::Instant;

use clap::Args;
use jetcell_array::ScrubReport;
use jetcell_workload::units::{ByteSize, human_bytes};
use serde_json::{Value, json};

use super::maintenance::{ZONE_BYTES, ZonePace};
use super::running_array::{RunningArray, Severity, Start};
use crate::commands::transfer_progress::rate;
use crate::console;
use crate::outcome::{Failure, Outcome};

/// Reads and verifies all blocks of an array, and repairs what is damaged
#[derive(Args)]
#[command(after_help = "\
A block without its checksum, or of an older write, is recovered from the others, verified and written back. Where all checksums are
right and parity disagrees with the data, nothing but a parity block is ever computed again. Ctrl-C interrupts the pass, and the
same command continues it.

Examples:
  jetcell raid scrub arr1
  jetcell raid scrub arr1 --rate 20MB/s --json

Exit code: 0 all is right, 1 damage was found (repaired or not), or the pass was interrupted, 2 could not run.")]
pub struct Scrub {
    #[command(flatten)]
    start: Start,
    /// Limit the rate, in bytes of the array
    #[arg(long, value_name = "BYTES/S", value_parser = rate)]
    rate: Option<ByteSize>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl Scrub {
    pub fn scrub(&self) -> Result<Outcome, Failure> {
        let mut running = self.start.start()?;
        let began = Instant::now();
        let result = self.pass(&mut running);
        let slots = running.array.status().slots;
        let member = |slot: usize| slots[slot].member.clone().unwrap_or_default();
        let closed = running.close();
        let (report, is_complete) = result?;
        closed?;
        let seconds = began.elapsed().as_secs_f64();
        let damaged: Vec<(usize, u64)> =
            report.damaged.iter().copied().enumerate().filter(|(_, count)| *count > 0).collect();
        if self.json {
            let damaged: Vec<Value> = damaged
                .iter()
                .map(|(slot, count)| json!({ "slot": slot, "member": member(*slot), "blocks": count }))
                .collect();
            let disagreements: Vec<Value> = report
                .disagreements
                .iter()
                .map(|found| json!({ "row": found.row, "suspect": found.suspect, "repaired": found.is_repaired }))
                .collect();
            let value = json!({ "complete": is_complete, "seconds": seconds, "zones": report.zones, "rows": report.rows,
                "damaged": damaged, "repaired": report.repaired, "unrecoverable_rows": report.unrecoverable,
                "disagreements": disagreements });
            console::print(&format!("{value}\n"));
        } else {
            let rate = human_bytes(((report.zones * ZONE_BYTES) as f64 / seconds.max(1e-3)) as u64);
            let end = if is_complete { "" } else { "; interrupted: the same command continues" };
            let mut lines = vec![format!(
                "{}: {} rows verified in {seconds:.1} s ({rate}/s of each member){end}",
                self.start.array.display(),
                report.rows
            )];
            lines.extend(damaged.iter().map(|(slot, count)| {
                format!("  slot {slot} ({}): {count} damaged or stale blocks", member(*slot).display())
            }));
            if report.repaired > 0 {
                lines.push(format!("  {} blocks written back", report.repaired));
            }
            lines.extend(
                report.unrecoverable.iter().map(|row| format!("  row {row}: too many blocks are damaged")),
            );
            lines.extend(report.disagreements.iter().map(|found| {
                let suspect = found.suspect.map_or("no single slot explains it".into(), |slot| {
                    format!("slot {slot} would explain it")
                });
                let repaired =
                    if found.is_repaired { "; parity was computed again" } else { "; nothing was changed" };
                format!("  row {}: checksums are right, parity disagrees; {suspect}{repaired}", found.row)
            }));
            console::show(&(lines.join("\n") + "\n"));
        }
        Ok(if is_complete && report.is_clean() { Outcome::Good } else { Outcome::Findings })
    }

    /// The rest of the pass. Returns whether it came to its end.
    fn pass(&self, running: &mut RunningArray) -> Result<(ScrubReport, bool), Failure> {
        let began = Instant::now();
        let (shown, mut pace) = ZonePace::start("Scrub", self.rate, running)?;
        let mut report = ScrubReport::default();
        let zones = running.array.layout().zones();
        let before = running.array.scrub_cursor();
        let columns = running.array.layout().data_columns() as u64;
        let mut is_complete = false;
        while !is_complete && !pace.is_cancelled() {
            is_complete = running.array.scrub_step(&mut report).map_err(|error| running.failed(error))?;
            let bytes = ZONE_BYTES * columns;
            pace.advance(bytes, (before + report.zones) * bytes, zones * bytes);
        }
        drop(shown);
        let damaged: u64 = report.damaged.iter().sum();
        let severity = match report.is_clean() {
            true => Severity::Information,
            false
                if report.unrecoverable.is_empty()
                    && report.disagreements.iter().all(|found| found.is_repaired) =>
            {
                Severity::Warning
            }
            false => Severity::Error,
        };
        let (rows, repaired) = (report.rows, report.repaired);
        let text =
            format!("A scrub verified {rows} rows: {damaged} damaged blocks, {repaired} written back.");
        let figures = json!({ "rows": rows, "bytes": pace.moved(), "seconds": began.elapsed().as_secs_f64(),
            "damaged": damaged, "repaired": repaired, "complete": is_complete });
        running.event("scrub_ended", severity, &text, figures);
        Ok((report, is_complete))
    }
}
