//! `jetcell raid rebuild`, and the rebuild that follows a replacement.

use std::time::Instant;

use clap::Args;
use jetcell_array::{BLOCK, ZONE_ROWS};
use jetcell_backup::{Cancel, Pace, Progress};
use jetcell_vfs::Pacer;
use jetcell_workload::units::{ByteSize, human_bytes};
use serde_json::json;

use super::running_array::{RunningArray, Severity, Start, state_word};
use crate::commands::transfer_progress::{TransferProgress, rate, stop_on_signals};
use crate::console;
use crate::outcome::{Failure, Outcome};

/// Bytes of a zone on one member.
pub const ZONE_BYTES: u64 = ZONE_ROWS * BLOCK as u64;

/// Continues a rebuild, or begins it on a spare
#[derive(Args)]
#[command(after_help = "\
Zones that miss the most members come first. Ctrl-C interrupts the work, and the same command continues it, also after a crash.

Examples:
  jetcell raid rebuild arr1
  jetcell raid rebuild arr1 --rate 50MB/s --json

Exit code: 0 nothing is left to rebuild, 1 interrupted, or blocks could not be recovered, 2 could not run.")]
pub struct Rebuild {
    #[command(flatten)]
    start: Start,
    /// Limit the rate of the rebuild
    #[arg(long, value_name = "BYTES/S", value_parser = rate)]
    rate: Option<ByteSize>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl Rebuild {
    pub fn rebuild(&self) -> Result<Outcome, Failure> {
        let mut running = self.start.start()?;
        let result = rebuild(&mut running, self.rate);
        finish(running, result, self.json)
    }
}

/// What a rebuild did.
pub struct Rebuilt {
    bytes: u64,
    seconds: f64,
    rows_lost: u64,
    is_complete: bool,
}

/// Pace and progress of work that goes through an array zone by zone.
pub struct ZonePace {
    pace: Pace,
    pacer: Pacer,
    moved: u64,
}

impl ZonePace {
    /// The pace, and the progress that is shown until it is dropped.
    pub fn start(
        title: &'static str,
        rate: Option<ByteSize>,
        running: &RunningArray,
    ) -> Result<(TransferProgress, ZonePace), Failure> {
        let cancel = Cancel::default();
        stop_on_signals(cancel.clone())?;
        let (progress, pace) = TransferProgress::with_cancel(title, rate, cancel);
        Ok((progress, ZonePace { pace, pacer: Pacer::new(running.vfs.clock()), moved: 0 }))
    }

    /// Bytes that were done so far.
    pub fn moved(&self) -> u64 {
        self.moved
    }

    /// Whether the user wants the work to end.
    pub fn is_cancelled(&self) -> bool {
        self.pace.cancel.is_cancelled()
    }

    /// Notes `bytes` more, and waits as long as the rate demands.
    pub fn advance(&mut self, bytes: u64, done: u64, total: u64) {
        self.moved += bytes;
        if let Some(show) = &self.pace.progress {
            show(Progress { done, total, moved: self.moved });
        }
        if let Some(rate) = self.pace.rate {
            self.pacer.wait(Pacer::time_of(bytes, rate), || self.pace.cancel.is_cancelled());
        }
    }
}

/// Rebuilds until nothing is left, or the user interrupts it.
pub fn rebuild(running: &mut RunningArray, rate: Option<ByteSize>) -> Result<Rebuilt, Failure> {
    let began = Instant::now();
    let (shown, mut pace) = ZonePace::start("Rebuild", rate, running)?;
    let mut progress = running.array.rebuild_progress();
    if !progress.is_complete() {
        running.event("rebuild_started", Severity::Information, "A rebuild has started.", json!({}));
    }
    let mut rows_lost = 0;
    while !progress.is_complete() && !pace.is_cancelled() {
        let before = progress;
        progress = running.array.rebuild_step().map_err(|error| running.failed(error))?;
        rows_lost += progress.rows_lost;
        let bytes = progress.zones_since(&before) * ZONE_BYTES;
        pace.advance(bytes, progress.zones_done * ZONE_BYTES, progress.zones * ZONE_BYTES);
    }
    drop(shown);
    let rebuilt = Rebuilt {
        bytes: pace.moved(),
        seconds: began.elapsed().as_secs_f64(),
        rows_lost,
        is_complete: progress.is_complete(),
    };
    running.save_members()?;
    match rebuilt.is_complete {
        _ if rebuilt.bytes == 0 => {}
        true => running.files.rebuild_completed(rebuilt.bytes, rebuilt.seconds, rows_lost),
        false => {
            let figures =
                json!({ "bytes": rebuilt.bytes, "seconds": rebuilt.seconds, "rows_lost": rows_lost });
            running.event("rebuild_interrupted", Severity::Warning, "The rebuild was interrupted.", figures);
        }
    }
    Ok(rebuilt)
}

/// Shuts the array down, whatever happened, and prints the result.
pub fn finish(
    running: RunningArray,
    result: Result<Rebuilt, Failure>,
    json: bool,
) -> Result<Outcome, Failure> {
    let name = running.files.directory.path.display().to_string();
    let state = state_word(running.array.status().state);
    let closed = running.close();
    let Rebuilt { bytes, seconds, rows_lost, is_complete } = result?;
    closed?;
    let rate = human_bytes((bytes as f64 / seconds.max(1e-3)) as u64);
    let end = match (is_complete, bytes) {
        (false, _) => format!("; interrupted: jetcell raid rebuild {name} continues"),
        (true, 0) => "; nothing is left to rebuild".into(),
        (true, _) => String::new(),
    };
    let lost =
        if rows_lost > 0 { format!("; {rows_lost} rows could not be recovered") } else { String::new() };
    console::answer(
        json,
        &match json {
            true => format!(
                "{}\n",
                json!({ "complete": is_complete, "bytes": bytes, "seconds": seconds, "rows_lost": rows_lost, "state": state })
            ),
            false => format!(
                "{name}: {} rebuilt in {seconds:.1} s ({rate}/s), {state}{end}{lost}\n",
                human_bytes(bytes)
            ),
        },
    );
    Ok(if is_complete && rows_lost == 0 { Outcome::Good } else { Outcome::Findings })
}
