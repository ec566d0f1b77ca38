//! `jetcell raid status`: shows the content of the superblocks. It does not change anything or need a lock, so it
//! also works on an array that is in use.

use std::io::IsTerminal;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use jetcell_array::{ArrayExamination, ArrayState, LifetimeTotals, SlotState, SlotStatus, TransferCounters};
use jetcell_array_service::{
    ArrayDirectory, ArrayHealth, SimulatedDriveOptions, describe_exclusion, find_locked_member,
    transfers_json,
};
use jetcell_input::number::human_bytes;
use jetcell_input::{Align, json_path};
use jetcell_report::{ReportCell, ReportTable, StyledText, table_text};
use jetcell_vfs::Vfs;
use jetcell_workload::units::TimeSpan;
use serde_json::{Value, json};

use crate::console;
use crate::outcome::{CommandContext, CommandOutcome, CommandResult};
use crate::shared::files::vfs;

const EXAMPLES: &str = "\
A rebuild or scrub in another process records its progress at least every few seconds. It also records member transfers and defects,
which are recorded again when the array is shut down.

Examples:
  jetcell raid status arr1
  jetcell raid status arr1 --watch --interval 5s
  jetcell raid status arr1 --json | jq .state

Exit code: 0 optimal, 1 members are missing or being rebuilt, or data is lost; 2 could not run.";

/// Show the state of an array
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct ArrayStatusArgs {
    /// Directory of the array
    #[arg(value_name = "ARRAY")]
    array: PathBuf,
    /// Show the state repeatedly, until Ctrl-C
    #[arg(long)]
    watch: bool,
    /// Interval between two updates with --watch
    #[arg(long, default_value = "1s", value_name = "TIME")]
    interval: TimeSpan,
    /// Print JSON: one object, or with --watch one object per line
    #[arg(long)]
    json: bool,
}

/// State of the array at a point in time.
struct StatusSnapshot {
    directory: ArrayDirectory,
    examination: ArrayExamination,
    in_use: bool,
    /// Files on the array that have lost bytes, each with a range of lost bytes.
    lost_files: Vec<(PathBuf, Range<u64>)>,
    at: Instant,
}

impl ArrayStatusArgs {
    pub fn show(&self) -> CommandResult {
        let vfs = vfs()?;
        let mut first: Option<StatusSnapshot> = None;
        loop {
            let snapshot = StatusSnapshot::read(&vfs, &self.array, !self.watch)?;
            let rates = first.as_ref().map(|first| snapshot.rates_since(first));
            let print = || {
                console::print_result(self.json, || snapshot.as_json(), || snapshot.as_text(rates.as_ref()));
            };
            if !self.watch {
                print();
                return Ok(match snapshot.health() {
                    ArrayHealth::Optimal => CommandOutcome::Good,
                    _ => CommandOutcome::Findings,
                });
            }
            if !self.json && std::io::stdout().is_terminal() {
                console::print_unescaped("\u{1b}[H\u{1b}[J");
            }
            print();
            first.get_or_insert(snapshot);
            std::thread::sleep(self.interval.0.max(Duration::from_millis(100)));
        }
    }
}

/// Progress per second since the first update.
struct StatusRates {
    slots: Vec<f64>,
    scrub: f64,
}

impl StatusSnapshot {
    fn read(vfs: &Arc<dyn Vfs>, array: &Path, trace_files: bool) -> CommandResult<StatusSnapshot> {
        let directory = ArrayDirectory::open(array)?;
        let in_use = find_locked_member(&directory.members).is_some();
        let found = directory.examine(&**vfs).context(array.display())?;
        let lost_files = if trace_files && !in_use { directory.lost_files(vfs, &found) } else { vec![] };
        Ok(StatusSnapshot { directory, examination: found, in_use, lost_files, at: Instant::now() })
    }

    fn health(&self) -> ArrayHealth {
        ArrayHealth::new(self.examination.state, self.examination.lost_rows)
    }

    fn rates_since(&self, earlier: &StatusSnapshot) -> StatusRates {
        let seconds = (self.at - earlier.at).as_secs_f64().max(1e-3);
        let pairs = self.examination.slots.iter().zip(&earlier.examination.slots);
        StatusRates {
            slots: pairs.map(|(now, then)| (now.progress - then.progress).max(0.0) / seconds).collect(),
            scrub: (self.examination.scrubbed - earlier.examination.scrubbed).max(0.0) / seconds,
        }
    }

    fn as_text(&self, rates: Option<&StatusRates>) -> StyledText {
        let StatusSnapshot { directory, examination: found, .. } = self;
        let count = found.slots.len();
        let bytes = human_bytes(found.layout.bytes());
        let state = match found.state {
            ArrayState::Degraded(lost) => {
                format!("degraded: {lost} of {count} slots have no complete member")
            }
            ArrayState::Stopped => "stopped: more members are missing than the level tolerates".into(),
            ArrayState::Optimal if found.lost_rows > 0 => "all members present, but data is lost".into(),
            ArrayState::Optimal => "optimal".into(),
        };
        let use_of = match (self.in_use, found.is_open) {
            (true, _) => ", in use",
            (false, true) => ", not shut down cleanly",
            (false, false) => "",
        };
        let mut out = StyledText::new();
        let (path, level) = (directory.path.display(), found.layout.level);
        out.add_line(&format!("{path}: {level}, {count} slots, {bytes}, {state}{use_of}"));
        if let Some(drive) = &directory.simulated_drive {
            out.add_line(&format!("  {}", drive.as_text()));
        }
        let slots = found.slots.iter().enumerate();
        let slots =
            slots.map(|(number, slot)| slot_row(number, slot, rates.map(|rates| rates.slots[number])));
        let slots = ReportTable::text_columns("", &[""; 4]).aligned(..1, Align::Right).rows(slots);
        out.append(table_text(&ReportTable { facts: true, ..slots }, console::width()));
        for (path, state) in found.members.iter().filter(|(_, state)| !is_in_slot(state)) {
            out.add_line(&format!("  {}: {}", path.display(), describe_exclusion(state)));
        }
        if found.scrubbed > 0.0 {
            let left = remaining_time(found.scrubbed, rates.map(|rates| rates.scrub));
            out.add_line(&format!("  scrub: {:.1} %{left}", found.scrubbed * 100.0));
        }
        add_lost_data(&mut out, found, &self.lost_files);
        add_lifetime(&mut out, &found.lifetime);
        out
    }

    fn as_json(&self) -> Value {
        let StatusSnapshot { directory, examination: found, in_use, .. } = self;
        let slot = |(number, slot): (usize, &SlotStatus)| {
            json!({ "slot": number, "state": slot_state_name(slot.state), "member": slot.member.as_ref().map(json_path),
                    "replacement": slot.replacement.as_ref().map(json_path), "progress": slot.progress })
        };
        let other = found.members.iter().filter(|(_, state)| !is_in_slot(state));
        let (spares, left_out): (Vec<_>, Vec<_>) = other.partition(|(_, state)| state.is_used());
        let bytes = |range: &Range<u64>| json!({ "start": range.start, "end": range.end });
        let missing = found.slots.iter().filter(|slot| slot.member.is_none()).count();
        json!({
            "array": json_path(&directory.path), "id": format!("{:032x}", directory.id), "level": found.layout.level.to_string(),
            "state": self.health(), "lost_rows": found.lost_rows, "lost": found.lost_bytes.iter().map(bytes).collect::<Vec<_>>(),
            "lost_files": self.lost_files.iter().map(|(file, range)| json!({ "file": json_path(file), "start": range.start, "end": range.end })).collect::<Vec<_>>(),
            "missing": missing, "bytes": found.layout.bytes(), "in_use": in_use,
            "shut_down": !found.is_open, "scrubbed": found.scrubbed,
            "simulated_drive": directory.simulated_drive.as_ref().map(SimulatedDriveOptions::as_json),
            "blocks_read": found.lifetime.blocks_read, "blocks_written": found.lifetime.blocks_written,
            "defects": found.lifetime.defects, "members": transfers_json(&found.lifetime.members),
            "slots": found.slots.iter().enumerate().map(slot).collect::<Vec<_>>(),
            "spares": spares.iter().map(|(path, _)| json_path(path)).collect::<Vec<_>>(),
            "left_out": left_out.iter().map(|(path, state)| json!({ "file": json_path(path), "why": describe_exclusion(state) })).collect::<Vec<_>>(),
        })
    }
}

fn is_in_slot(state: &jetcell_array::MemberState) -> bool {
    use jetcell_array::MemberState::{Replacement, Slot};
    matches!(state, Slot(_) | Replacement(_))
}

fn slot_state_name(state: SlotState) -> &'static str {
    match state {
        SlotState::Present => "present",
        SlotState::Copying => "copying",
        SlotState::Rebuilding => "rebuilding",
        SlotState::Missing => "missing",
    }
}

/// Maximum number of ranges of lost bytes in the text.
const MAX_LOST_RANGES: usize = 20;

/// Adds the data that was lost.
fn add_lost_data(out: &mut StyledText, found: &ArrayExamination, files: &[(PathBuf, Range<u64>)]) {
    if found.lost_rows == 0 {
        return;
    }
    out.add_line(&format!(
        "  lost: data of {} rows; reads of these bytes of the array fail until they are written again:",
        found.lost_rows
    ));
    for range in found.lost_bytes.iter().take(MAX_LOST_RANGES) {
        out.add_line(&format!("    bytes {} to {}", range.start, range.end - 1));
    }
    let more = found.lost_bytes.len().saturating_sub(MAX_LOST_RANGES);
    if more > 0 {
        out.add_line(&format!("    and {more} other ranges; --json shows them"));
    }
    for (file, range) in files.iter().take(MAX_LOST_RANGES) {
        out.add_line(&format!("    {}: bytes {} to {}", file.display(), range.start, range.end - 1));
    }
}

/// Adds the members' transfers since their creation, and the damage found.
fn add_lifetime(out: &mut StyledText, lifetime: &LifetimeTotals) {
    if lifetime.members.total() != TransferCounters::default() {
        let row = |(name, of): (&str, TransferCounters)| {
            let counts = [of.reads, of.blocks_read, of.writes, of.blocks_written];
            let counts = counts.into_iter().map(ReportCell::count);
            std::iter::once(name.replace('_', " ").into()).chain(counts).collect()
        };
        let columns = ["reads", "of blocks", "writes", "of blocks"];
        let table = ReportTable::numbers("", "since creation", columns);
        out.append(table_text(&table.rows(lifetime.members.by_purpose().map(row)), console::width()));
    }
    if lifetime.defects > 0 {
        out.add_line(&format!(
            "  defects found by reads and writes: {} blocks; jetcell raid scrub finds the others",
            lifetime.defects
        ));
    }
}

/// Returns the time left at a rate given in progress per second, or an empty text if it is unknown.
fn remaining_time(progress: f64, rate: Option<f64>) -> String {
    match rate {
        Some(rate) if rate > 0.0 => format!(", {:.0} s left", (1.0 - progress) / rate),
        _ => String::new(),
    }
}

fn slot_row(number: usize, slot: &SlotStatus, rate: Option<f64>) -> Vec<ReportCell> {
    let path = |path: &Option<PathBuf>| path.as_ref().map_or("-".into(), |path| path.display().to_string());
    let replacement = match &slot.replacement {
        Some(_) => {
            let left = remaining_time(slot.progress, rate);
            format!("to {}: {:.1} %{left}", path(&slot.replacement), slot.progress * 100.0)
        }
        None => String::new(),
    };
    [number.to_string(), slot_state_name(slot.state).into(), path(&slot.member), replacement]
        .map(ReportCell::from)
        .into()
}
