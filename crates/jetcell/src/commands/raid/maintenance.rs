//! `jetcell raid rebuild`, and the rebuild that follows a replacement.

use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use jetcell_array::{ArrayState, BLOCK, RebuildProgress, ZONE_ROWS};
use jetcell_backup::{Pace, Progress};
use jetcell_vfs::Pacer;
use jetcell_workload::units::{ByteSize, human_bytes};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::operated::{Answer, Beside, Operated};
use super::running_array::{Severity, Start, state_word};
use super::shown::Shown;
use crate::commands::transfer_progress::rate;
use crate::outcome::Failure;

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
pub struct Rebuild {
    #[command(flatten)]
    pub start: Start,
    #[command(flatten)]
    pub rebuild: ContinueRebuild,
    #[command(flatten)]
    pub shown: Shown,
}

/// Options for continuing a rebuild.
#[derive(Args, Serialize, Deserialize)]
pub struct ContinueRebuild {
    /// Limit the rate of the rebuild
    #[arg(long, value_name = "BYTES/S", value_parser = rate)]
    rate: Option<ByteSize>,
}

impl ContinueRebuild {
    pub fn perform(&self, on: &Operated<'_>) -> Result<Answer, Failure> {
        rebuild(on, self.rate)
    }
}

/// Result of a rebuild.
struct Rebuilt {
    bytes: u64,
    seconds: f64,
    rows_lost: u64,
    is_complete: bool,
}

/// Pacing and progress of work that processes an array zone by zone.
pub struct ZonePace {
    pace: Pace,
    pacer: Pacer,
    moved: u64,
}

impl ZonePace {
    /// Creates a pace with the rate requested by the user.
    pub fn start(on: &Operated<'_>, rate: Option<ByteSize>) -> ZonePace {
        let pace = Pace { rate: rate.map(|rate| rate.0), ..on.pace.clone() };
        ZonePace { pace, pacer: Pacer::new(on.vfs.clock()), moved: 0 }
    }

    /// Returns the number of bytes processed so far.
    pub fn moved(&self) -> u64 {
        self.moved
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
        self.moved += bytes;
        if let Some(show) = &self.pace.progress {
            show(Progress { done, total, moved: self.moved });
        }
        if let Some(rate) = self.pace.rate {
            self.pacer.wait(Pacer::time_of(bytes, rate), || self.pace.cancel.is_cancelled());
        }
    }
}

/// Rebuilds until nothing is left to rebuild or the user interrupts the rebuild.
pub fn rebuild(on: &Operated<'_>, rate: Option<ByteSize>) -> Result<Answer, Failure> {
    let Rebuilt { bytes, seconds, rows_lost, is_complete } = match on.beside {
        None => rebuild_here(on, rate)?,
        Some(beside) => watch(on, beside, rate)?,
    };
    let (name, status) = (on.name, on.on_array(|array| Ok(array.status()))?);
    let state = state_word(status.state);
    let per_second = human_bytes((bytes as f64 / seconds.max(1e-3)) as u64);
    let end = match (is_complete, bytes) {
        (false, _) => format!("; interrupted: jetcell raid rebuild {name} resumes"),
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
    Ok(Answer { is_good: is_complete && rows_lost == 0, ..Answer::good(&figures, &text) })
}

fn rebuild_here(on: &Operated<'_>, rate: Option<ByteSize>) -> Result<Rebuilt, Failure> {
    let began = Instant::now();
    let mut pace = ZonePace::start(on, rate);
    let mut progress = on.on_array(|array| Ok(array.rebuild_progress()))?;
    if !progress.is_complete() {
        on.event("rebuild_started", Severity::Information, "A rebuild has started.", json!({}));
    }
    // Without a rate limit, many zones are rebuilt at once. With a rate limit, that would take too long.
    let rows = if rate.is_some() { ZONE_ROWS } else { u64::MAX };
    let mut rows_lost = 0;
    while !progress.is_complete() && !pace.is_cancelled() {
        let before = progress;
        progress = on.on_array(|array| array.rebuild_rows(rows))?;
        rows_lost += progress.rows_lost;
        pace.advance_to(&before, &progress);
    }
    on.save_members()?;
    let (bytes, seconds) = (pace.moved(), began.elapsed().as_secs_f64());
    let is_complete = progress.is_complete();
    match is_complete {
        _ if bytes == 0 => {}
        true => on.files().rebuild_completed(bytes, seconds, rows_lost),
        false => {
            let figures = json!({ "bytes": bytes, "seconds": seconds, "rows_lost": rows_lost });
            on.event("rebuild_interrupted", Severity::Warning, "The rebuild was interrupted.", figures);
        }
    }
    Ok(Rebuilt { bytes, seconds, rows_lost, is_complete })
}

/// Monitors a rebuild that is run by the array's caretaker, and reports its progress.
fn watch(on: &Operated<'_>, beside: &Beside, rate: Option<ByteSize>) -> Result<Rebuilt, Failure> {
    let began = Instant::now();
    let lost_before = beside.rows_lost();
    let mut pace = ZonePace::start(on, None);
    let look = || -> Result<RebuildProgress, Failure> {
        on.on_array(|array| {
            if array.status().state == ArrayState::Stopped {
                // If the array has stopped, this returns the error that stopped it.
                array.flush()?;
            }
            Ok(array.rebuild_progress())
        })
    };
    beside.set_rate(rate.map(|rate| rate.0));
    let mut progress = look()?;
    while !progress.is_complete() && !pace.is_cancelled() {
        thread::sleep(WATCH_INTERVAL);
        let before = progress;
        progress = look()?;
        pace.advance_to(&before, &progress);
    }
    Ok(Rebuilt {
        bytes: pace.moved(),
        seconds: began.elapsed().as_secs_f64(),
        rows_lost: beside.rows_lost() - lost_before,
        is_complete: progress.is_complete(),
    })
}
