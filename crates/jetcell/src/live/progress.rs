//! Progress output on stderr: a single updated line on a terminal, otherwise one line for each phase and each minute.

use std::time::Instant;

use jetcell_host::{ProgressLine, ProgressReport};
use jetcell_input::number::human_bytes;
use jetcell_input::time::format_duration;
use jetcell_workload::RunPhase;

use super::{MonitorState, RunIoRates};
use crate::console::print_note;

/// Displays a run's progress through its phases.
pub struct RunProgressDisplay {
    /// Progress line. It exists only on a terminal.
    progress_line: Option<ProgressLine>,
    phase: Option<RunPhase>,
    /// Time at which the last plain line was written.
    last_line_at: Instant,
}

impl RunProgressDisplay {
    /// Creates an empty progress display.
    pub fn new() -> RunProgressDisplay {
        RunProgressDisplay { progress_line: ProgressLine::new(), phase: None, last_line_at: Instant::now() }
    }

    /// Removes the progress line.
    pub fn finish(&mut self) {
        self.progress_line = None;
    }

    /// Shows the current state.
    pub fn show(&mut self, state: &MonitorState) {
        match (&self.progress_line, state.phase) {
            (None, _) => {
                if let Some(line) = self.line(state, Instant::now()) {
                    print_note(&line);
                }
            }
            (Some(shown), Some(phase)) => {
                let share = state.has_total().then(|| state.fraction());
                shown.show(phase.title(), share, &describe(state));
            }
            (Some(_), None) => {}
        }
    }

    /// Returns a plain line if one is due, which is at the start of a phase and every minute.
    fn line(&mut self, state: &MonitorState, now: Instant) -> Option<String> {
        let phase = state.phase?;
        let began = self.phase != Some(phase);
        if !began && now.saturating_duration_since(self.last_line_at) < ProgressReport::LONG_PLAIN_INTERVAL {
            return None;
        }
        (self.phase, self.last_line_at) = (Some(phase), now);
        if began {
            return Some(phase.title().to_string());
        }
        let percent =
            if state.has_total() { format!(" {:.0} %,", state.fraction() * 100.0) } else { String::new() };
        Some(format!("{}:{percent} {}", phase.title(), describe(state)))
    }
}

/// Returns the remaining time, rate and latency, if they are known for the phase.
fn describe(state: &MonitorState) -> String {
    let elapsed = || format!("{} so far", format_duration(state.began.elapsed()));
    let mut parts =
        vec![state.remaining().map_or_else(elapsed, |left| format!("{} left", format_duration(left)))];
    if let Some(rate) = state.bytes_per_second() {
        parts.push(format!("{}/s", human_bytes(rate as u64)));
    }
    if let Some(rates) = state.rates() {
        parts.push(describe_rates(rates));
    }
    if !state.note.is_empty() {
        parts.push(state.note.clone());
    }
    parts.join(", ")
}

/// Formats rates as one line.
pub fn describe_rates(rates: &RunIoRates) -> String {
    let RunIoRates { read_ms, write_ms, log_write_ms, operations, .. } = rates;
    let mut text = format!("{:.0} IOPS", rates.iops());
    for (name, count, ms) in [
        ("read", rates.reads, read_ms),
        ("write", rates.writes, write_ms),
        ("log write", rates.log_writes, log_write_ms),
    ] {
        if count > 0.0 {
            text += &format!(", {name} {ms:.2} ms");
        }
    }
    if *operations > 0.0 {
        text += &format!(", {operations:.0} operations/s");
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::live::monitor_observer::tests::measuring;

    #[test]
    fn a_progress_line_has_time_rate_and_latency() {
        let text = describe(&measuring(5).state());
        assert_eq!(
            text,
            "55s left, 40 IOPS, read 2.00 ms, write 4.00 ms, log write 0.50 ms, 50 operations/s"
        );
    }

    #[test]
    fn without_a_terminal_each_phase_and_minute_prints_a_line() {
        let state = measuring(5).state();
        let start = Instant::now();
        let mut progress = RunProgressDisplay { progress_line: None, phase: None, last_line_at: start };
        let mut line = |seconds| progress.line(&state, start + Duration::from_secs(seconds));
        assert_eq!(line(0), Some(RunPhase::Measure.title().to_string()));
        assert_eq!((line(1), line(59)), (None, None));
        let text = line(60).unwrap();
        assert!(
            text.starts_with(&format!("{}: 8 %, 55s left, 40 IOPS", RunPhase::Measure.title())),
            "{text}"
        );
        assert_eq!(line(119), None);
        assert!(line(120).is_some());
        let mut next = state.clone();
        next.phase = Some(RunPhase::Verify);
        assert_eq!(
            progress.line(&next, start + Duration::from_secs(121)),
            Some(RunPhase::Verify.title().to_string())
        );
    }
}
