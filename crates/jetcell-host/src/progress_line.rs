//! Progress on standard error: a line that is redrawn if it is a terminal, and otherwise plain lines at intervals.

use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use jetcell_input::{columns, cut};

/// Width of the bar in characters.
const BAR_WIDTH: usize = 20;
/// Width in characters of the spinner and the following space.
const SPINNER_WIDTH: usize = 2;
/// Number of details that take priority over the bar.
const PRIORITY_DETAILS: usize = 2;
/// Minimum length in characters to which a title may be shortened.
const MIN_TITLE_WIDTH: usize = 8;
/// Interval between two steps of the spinner.
const SPINNER_INTERVAL: Duration = Duration::from_millis(200);

/// Interval between redraws of a progress line.
const REDRAW_INTERVAL: Duration = Duration::from_millis(100);

/// Returns the number of columns of the terminal on standard error, or a default if it is unknown.
pub fn terminal_width() -> usize {
    let size = rustix::termios::tcgetwinsize(stderr());
    size.ok().map(|size| size.ws_col.into()).filter(|columns| *columns > 0).unwrap_or(80).max(20)
}

/// Reports the progress of a long-running operation whenever an update is due.
pub struct ProgressReport {
    /// Progress line on a terminal. It exists only after the first update, so short work has none.
    line: Option<ProgressLine>,
    is_terminal: bool,
    /// Time of the last update.
    shown: Instant,
    plain_interval: Duration,
    is_closed: bool,
}

impl ProgressReport {
    /// Interval between plain lines, which are used if standard error is not a terminal.
    pub const PLAIN_INTERVAL: Duration = Duration::from_secs(10);
    /// Interval between plain lines for work that takes hours.
    pub const LONG_PLAIN_INTERVAL: Duration = Duration::from_secs(60);

    /// Creates a report whose first update is due after an interval.
    pub fn new(plain_interval: Duration) -> ProgressReport {
        let is_terminal = stderr().is_terminal();
        ProgressReport { line: None, is_terminal, shown: Instant::now(), plain_interval, is_closed: false }
    }

    /// Returns the progress line, or `None` if plain lines are due instead.
    pub fn line(&self) -> Option<&ProgressLine> {
        self.line.as_ref()
    }

    /// Returns true if an update is due. The next one is due after an interval.
    pub fn is_due(&mut self) -> bool {
        let interval = if self.is_terminal { REDRAW_INTERVAL } else { self.plain_interval };
        let is_due = !self.is_closed && self.shown.elapsed() >= interval;
        if is_due {
            self.shown = Instant::now();
            self.line = self.line.take().or_else(ProgressLine::new);
        }
        is_due
    }

    /// Hides the line while `write` runs.
    pub fn suspend(&self, write: impl FnOnce()) {
        match &self.line {
            Some(line) => line.suspend(write),
            None => write(),
        }
    }

    /// Removes the line from the terminal until the next update.
    pub fn clear(&mut self) {
        self.line = None;
    }

    /// Removes the line from the terminal. No later update is due.
    pub fn close(&mut self) {
        (self.line, self.is_closed) = (None, true);
    }
}

/// A progress line that is redrawn until it is dropped.
pub struct ProgressLine(ProgressBar);

impl ProgressLine {
    /// Creates a progress line on standard error, or returns `None` if standard error is not a terminal.
    pub fn new() -> Option<ProgressLine> {
        if !stderr().is_terminal() {
            return None;
        }
        let bar = ProgressBar::new_spinner();
        // If the terminal becomes narrower, a line that no longer fits is truncated.
        if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(SPINNER_INTERVAL);
        Some(ProgressLine(bar))
    }

    /// Shows a title, the completed share if it is known, and comma-separated details, the most important first.
    pub fn show(&self, title: &str, share: Option<f64>, details: &str) {
        let width = terminal_width().saturating_sub(SPINNER_WIDTH);
        self.0.set_message(line(width, &jetcell_input::printable(title), share, details));
    }

    /// Hides the line while `write` runs.
    pub fn suspend(&self, write: impl FnOnce()) {
        self.0.suspend(write);
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// Returns the completed share of `total`. If `total` is zero, everything is complete.
pub fn completed_share(done: u64, total: u64) -> Option<f64> {
    Some(if total == 0 { 1.0 } else { (done as f64 / total as f64).min(1.0) })
}

/// Formats the text in at most `width` columns. Parts that do not fit are omitted in this order: the last details
/// until two are left, the bar, the remaining details, the end of the title.
fn line(width: usize, title: &str, share: Option<f64>, details: &str) -> String {
    let percent = share.map_or(String::new(), |share| format!(" {:>3.0} %", (share * 100.0).floor()));
    let joined = |title: &str, bar: &str, details: &str| match details {
        "" => format!("{title}{bar}{percent}"),
        details => format!("{title}{bar}{percent}  {details}"),
    };
    let fits = |text: &String| columns(text) <= width;
    let bar = share.map_or(String::new(), |share| {
        let full = ((share * BAR_WIDTH as f64) as usize).min(BAR_WIDTH);
        format!(" {}{}", "█".repeat(full), "░".repeat(BAR_WIDTH - full))
    });
    let parts: Vec<&str> = details.split(", ").collect();
    let fewest = parts.len().min(PRIORITY_DETAILS);
    let first = |kept: usize| parts.get(..kept).unwrap_or_default().join(", ");
    let with_bar = (fewest..=parts.len()).rev().map(|kept| joined(title, &bar, &first(kept)));
    let without_bar = (0..=parts.len()).rev().map(|kept| joined(title, "", &first(kept)));
    with_bar.chain(without_bar).find(fits).unwrap_or_else(|| {
        let room = width.saturating_sub(columns(&percent) + 1).max(MIN_TITLE_WIDTH);
        let (short, _) = cut(title, room);
        joined(&format!("{short}…"), "", "")
    })
}

#[cfg(test)]
#[path = "progress_line_tests.rs"]
mod tests;
