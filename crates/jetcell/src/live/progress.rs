//! Progress on stderr: a bar if stderr is a terminal, otherwise no output.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use jetcell_workload::Phase;
use jetcell_workload::units::human_bytes;

use super::{Rates, State};

/// Shows the phases of a run.
pub struct Progress {
    bar: Option<ProgressBar>,
    terminal: bool,
    phase: Option<Phase>,
}

impl Progress {
    /// A progress line without a bar.
    pub fn new() -> Progress {
        Progress { bar: None, terminal: std::io::stderr().is_terminal(), phase: None }
    }

    /// Removes the bar.
    pub fn finish(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }

    /// Shows the current state.
    pub fn show(&mut self, state: &State) {
        let Some(phase) = state.phase.filter(|_| self.terminal) else { return };
        if self.phase != Some(phase) {
            self.begin(phase, state);
        }
        if let Some(bar) = &self.bar {
            bar.set_position(state.done);
            bar.set_message(describe(state));
        }
    }

    fn begin(&mut self, phase: Phase, state: &State) {
        self.finish();
        self.phase = Some(phase);
        let template = match state.measurable() {
            true => "{prefix} {bar:20} {percent:>3} %  {wide_msg}",
            false => "{prefix} {spinner} {wide_msg}",
        };
        let style = ProgressStyle::with_template(template).expect("the template is constant");
        let bar = ProgressBar::new(state.total).with_style(style).with_prefix(phase.title());
        bar.enable_steady_tick(Duration::from_millis(200));
        self.bar = Some(bar);
    }
}

/// Time left, rate and latency, if the phase has them.
fn describe(state: &State) -> String {
    let elapsed = || format!("{} so far", time(state.began.elapsed()));
    let mut parts = vec![state.remaining().map_or_else(elapsed, |left| format!("{} left", time(left)))];
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

/// A line of figures.
pub fn describe_rates(rates: &Rates) -> String {
    let Rates { read_ms, write_ms, log_write_ms, operations, .. } = rates;
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

/// `45s`, `3m05s`, `2h07m`, `1d03h`.
pub fn time(span: Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600..86400 => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86400, seconds / 3600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::watcher::tests::measuring;

    #[test]
    fn a_line_has_time_rate_and_latency() {
        let text = describe(&measuring(5).state());
        assert_eq!(
            text,
            "55s left, 40 IOPS, read 2.00 ms, write 4.00 ms, log write 0.50 ms, 50 operations/s"
        );
    }

    #[test]
    fn times_are_short() {
        for (seconds, text) in [(59, "59s"), (185, "3m05s"), (7620, "2h07m"), (97_200, "1d03h")] {
            assert_eq!(time(Duration::from_secs(seconds)), text);
        }
    }
}
