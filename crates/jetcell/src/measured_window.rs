//! Time window in which a run was measured.

use chrono::DateTime;
use jetcell_workload::RunPhase;
use jetcell_workload::result::{PhaseTime, RunResult};

use crate::outcome::{CommandError, CommandResult};

/// Returns the start and end of a run's measured time in milliseconds since 1970 UTC. Fails for a stress test that
/// was continued, because it has no single window.
pub fn measured_window(run: &RunResult) -> CommandResult<(i64, i64)> {
    let run_error = |what: &str| CommandError::new(format_args!("the run of {}: {what}", run.started));
    if run.parts.len() > 1 {
        return Err(run_error(
            "the run was interrupted and resumed, so it does not have a single measured window",
        ));
    }
    compute_window(&run.started, &run.phases).ok_or_else(|| run_error("it does not contain a measurement"))
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
mod tests {
    use super::*;

    #[test]
    fn the_measured_window_starts_after_the_preceding_phases() {
        let phase = |phase, seconds| PhaseTime { phase, seconds, processor_seconds: 0.0 };
        let phases = [
            phase(RunPhase::Create, 10.0),
            phase(RunPhase::Warm, 2.5),
            phase(RunPhase::Measure, 60.0),
            phase(RunPhase::Shutdown, 1.0),
        ];
        let begin = 1_767_225_600_500;
        assert_eq!(
            compute_window("2026-01-01T00:00:00.500Z", &phases),
            Some((begin + 12_500, begin + 72_500))
        );
        assert_eq!(compute_window("2026-01-01T00:00:00.500Z", &phases[..2]), None);
        assert_eq!(compute_window("yesterday", &phases), None);
        // Stored results are untrusted, so they may contain absurd durations.
        let endless = [phase(RunPhase::Create, 1e300), phase(RunPhase::Measure, 1e300)];
        assert_eq!(compute_window("2026-01-01T00:00:00Z", &endless), Some((i64::MAX, i64::MAX)));
    }
}
