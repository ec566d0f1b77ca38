//! Time window in which a run was measured.

use chrono::DateTime;
use thiserror::Error;

use super::{PhaseTime, RunResult};
use crate::observer::RunPhase;

/// Reason why a run does not have a measured window.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages describe the variants and their fields")]
pub enum NoMeasuredWindow {
    #[error(
        "the run of {started}: the run was interrupted and resumed, so it does not have a single measured window"
    )]
    Resumed { started: String },
    #[error("the run of {started}: it does not contain a measurement")]
    NotMeasured { started: String },
}

impl RunResult {
    /// Returns the start and end of the measured time in milliseconds since 1970 UTC. Fails for a stress test that
    /// was continued, because it has no single window.
    pub fn measured_window(&self) -> Result<(i64, i64), NoMeasuredWindow> {
        if self.parts.len() > 1 {
            return Err(NoMeasuredWindow::Resumed { started: self.started.clone() });
        }
        compute_window(&self.started, &self.phases)
            .ok_or_else(|| NoMeasuredWindow::NotMeasured { started: self.started.clone() })
    }
}

/// Computes the window. The phases before the measurement determine its start.
fn compute_window(started: &str, phases: &[PhaseTime]) -> Option<(i64, i64)> {
    let started = DateTime::parse_from_rfc3339(started).ok()?.timestamp_millis();
    let measure = phases.iter().position(|phase| phase.phase == RunPhase::Measure)?;
    let before: f64 = phases.iter().take(measure).map(|phase| phase.seconds).sum();
    let from = started.saturating_add((before * 1000.0) as i64);
    Some((from, from.saturating_add((phases.get(measure)?.seconds * 1000.0) as i64)))
}

#[cfg(test)]
#[path = "measured_window_tests.rs"]
mod tests;
