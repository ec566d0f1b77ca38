//! Progress on stderr: a bar in a terminal, now and then a plain line elsewhere.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use workload::{Observer, Phase, Unit};

/// Time between lines when there is no terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// Shows the phases of a run.
pub struct Progress {
    bar: Option<ProgressBar>,
    terminal: bool,
    phase: Option<Phase>,
    total: u64,
    shown: Instant,
}

impl Progress {
    /// Looks whether anybody watches.
    pub fn new() -> Progress {
        let terminal = std::io::stderr().is_terminal();
        Progress { bar: None, terminal, phase: None, total: 0, shown: Instant::now() }
    }

    /// Takes the bar away.
    pub fn finish(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

fn style(unit: Unit) -> ProgressStyle {
    let amount = match unit {
        Unit::Bytes => "{binary_bytes}/{binary_total_bytes} ",
        Unit::Milliseconds => "",
    };
    ProgressStyle::with_template(&format!(
        "{{prefix}} {{bar:24}} {{percent:>3}} % {amount}{{eta}} left  {{wide_msg}}"
    ))
    .expect("the template is constant")
}

impl Observer for Progress {
    fn begin(&mut self, phase: Phase, total: u64) {
        self.finish();
        (self.phase, self.total, self.shown) = (Some(phase), total, Instant::now());
        if !self.terminal {
            eprintln!("{}", phase.title());
            return;
        }
        let bar = ProgressBar::new(total).with_style(style(phase.unit())).with_prefix(phase.title());
        bar.tick();
        self.bar = Some(bar);
    }

    fn advance(&mut self, done: u64, note: &str) {
        if let Some(bar) = &self.bar {
            bar.set_position(done);
            bar.set_message(note.to_string());
            return;
        }
        if self.shown.elapsed() >= LINE_INTERVAL
            && let Some(phase) = self.phase
        {
            self.shown = Instant::now();
            let percent = (u128::from(done) * 100).checked_div(u128::from(self.total)).unwrap_or(100);
            eprintln!("{}: {percent} % {note}", phase.title());
        }
    }

    fn log(&mut self, _: &str) {}
}
