//! Progress line on a terminal. The line is never wider than the terminal.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::console;

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

/// A progress line that is redrawn until it is dropped.
pub struct ProgressLine(ProgressBar);

impl ProgressLine {
    /// Creates a progress line on standard error, or returns `None` if standard error is not a terminal.
    pub fn new() -> Option<ProgressLine> {
        if !std::io::stderr().is_terminal() {
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
        let width = console::terminal_width().saturating_sub(SPINNER_WIDTH);
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

/// Formats the text in at most `width` characters. Parts that do not fit are omitted in this order: the last details
/// until two are left, the bar, the remaining details, the end of the title.
fn line(width: usize, title: &str, share: Option<f64>, details: &str) -> String {
    let percent = share.map_or(String::new(), |share| format!(" {:>3.0} %", (share * 100.0).floor()));
    let joined = |title: &str, bar: &str, details: &str| match details {
        "" => format!("{title}{bar}{percent}"),
        details => format!("{title}{bar}{percent}  {details}"),
    };
    let fits = |text: &String| text.chars().count() <= width;
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
        let room = width.saturating_sub(percent.chars().count() + 1).max(MIN_TITLE_WIDTH);
        let short: String = title.chars().take(room).collect();
        joined(&format!("{short}…"), "", "")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_progress_line_drops_the_least_important_parts_to_fit() {
        let details = "55s left, 40 IOPS, read 2.00 ms, write 4.00 ms";
        let line_of_width = |width| line(width, "measuring", Some(0.425), details);
        assert_eq!(line_of_width(100), format!("measuring ████████░░░░░░░░░░░░  42 %  {details}"));
        assert_eq!(
            line_of_width(70),
            "measuring ████████░░░░░░░░░░░░  42 %  55s left, 40 IOPS, read 2.00 ms"
        );
        assert_eq!(line_of_width(54), "measuring  42 %  55s left, 40 IOPS, read 2.00 ms");
        assert_eq!(line_of_width(40), "measuring  42 %  55s left, 40 IOPS");
        assert_eq!(line_of_width(26), "measuring  42 %  55s left");
        assert_eq!(line_of_width(20), "measuring  42 %");
        assert_eq!(line(20, "a very long name of a table", Some(1.0), ""), "a very long n… 100 %");
        assert_eq!(line(12, "no share", None, "1 so far"), "no share");
        for width in 15..120 {
            for title in ["t", "measuring", "a very long name of a table in a database"] {
                for share in [None, Some(0.0), Some(0.999), Some(1.0)] {
                    let text = line(width, title, share, details);
                    assert!(text.chars().count() <= width, "{width}: {text}");
                }
            }
        }
    }

    #[test]
    fn a_share_is_between_zero_and_one_hundred_percent() {
        assert_eq!(
            [completed_share(0, 4), completed_share(1, 4), completed_share(9, 4), completed_share(0, 0)]
                .map(Option::unwrap),
            [0.0, 0.25, 1.0, 1.0]
        );
    }
}
