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
    assert_eq!(compute_window("2026-01-01T00:00:00.500Z", &phases), Some((begin + 12_500, begin + 72_500)));
    assert_eq!(compute_window("2026-01-01T00:00:00.500Z", &phases[..2]), None);
    assert_eq!(compute_window("yesterday", &phases), None);
    // Stored results are untrusted, so they may contain absurd durations.
    let endless = [phase(RunPhase::Create, 1e300), phase(RunPhase::Measure, 1e300)];
    assert_eq!(compute_window("2026-01-01T00:00:00Z", &endless), Some((i64::MAX, i64::MAX)));
}
