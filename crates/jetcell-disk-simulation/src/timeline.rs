//! A run before, during and after the loss of a drive, up to the end of the rebuild and for some time afterwards.

use serde::Serialize;

use crate::engine::{SampledRebuild, SecondMeasurements, SimulationSetup, simulate};

/// Duration of each phase other than the rebuild (before the loss, degraded, and after the rebuild), as a fraction of
/// a state's duration.
const PHASE_DURATION: f64 = 1.0 / 3.0;
/// Approximate duration of the rebuild, and its maximum duration, as multiples of a state's duration.
const REBUILD_DURATION: f64 = 2.0;
const MAX_REBUILD_DURATION: f64 = 10.0;
/// Minimum number of bytes that are rebuilt.
const MIN_REBUILT_BYTES: f64 = (64 << 20) as f64;

/// The timeline of a simulation in which a drive fails and is rebuilt. Times are in simulated seconds from the start.
#[derive(Clone, Debug, Serialize)]
pub struct Timeline {
    /// Time at which the drive failed.
    pub failed: f64,
    /// Time at which the rebuild began.
    pub rebuild_began: f64,
    /// Time at which the rebuild completed. Absent if it took longer than the run.
    pub rebuild_ended: Option<f64>,
    /// Fraction of the drive that was rebuilt. The rebuilt parts are evenly distributed over the whole drive.
    pub share_rebuilt: f64,
    /// Estimated time to rebuild the whole drive in seconds: the duration of this rebuild, divided by the fraction
    /// that was rebuilt.
    pub whole_rebuild_seconds: Option<f64>,
    /// Mean values for each phase.
    pub phases: Vec<TimelinePhase>,
    /// Measurements for each second.
    pub seconds: Vec<TimelineSecond>,
}

/// One phase of a simulation's timeline, with its measurements.
#[derive(Clone, Debug, Serialize)]
pub struct TimelinePhase {
    /// Name of the phase: `before`, `degraded`, `rebuilding` or `after`.
    pub name: &'static str,
    /// Start of the phase, in simulated seconds from the beginning of the run.
    pub from: f64,
    /// End of the phase.
    pub to: f64,
    /// Mean read latency in milliseconds.
    pub read_ms: Option<f64>,
    /// Mean write latency in milliseconds.
    pub write_ms: Option<f64>,
    /// Mean latency of log writes in milliseconds.
    pub log_ms: Option<f64>,
    /// Write commands to drives per host write, excluding those of the rebuild.
    pub disk_writes_per_host_write: Option<f64>,
    /// Rebuild rate in megabytes (10^6) per second.
    pub rebuild_mb_per_second: f64,
}

/// Measurements from one second of a simulation's timeline.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct TimelineSecond {
    /// Mean read latency in milliseconds. Absent if there were no reads.
    pub read_ms: Option<f64>,
    /// Mean write latency in milliseconds.
    pub write_ms: Option<f64>,
    /// Mean latency of log writes in milliseconds.
    pub log_ms: Option<f64>,
    /// Number of write commands to drives.
    pub disk_writes: u64,
    /// Number of host writes.
    pub host_writes: u64,
    /// Rebuilt data in megabytes (10^6).
    pub rebuilt_mb: f64,
    /// Completed fraction of the rebuild, between 0 and 1.
    pub rebuilt_share: f64,
}

/// Runs the loss and rebuild of one drive. `setup` contains the duration of a state, and `rate` is the approximate
/// rebuild rate in MB/s.
pub(crate) fn timeline(setup: SimulationSetup<'_>, rate: f64) -> Timeline {
    let seconds = setup.seconds;
    let (failed, rebuild_began) = (seconds * PHASE_DURATION, seconds * 2.0 * PHASE_DURATION);
    let capacity = setup.drive.capacity();
    let bytes = ((rate * 1e6 * REBUILD_DURATION * seconds).max(MIN_REBUILT_BYTES) as u64).min(capacity);
    let measured = simulate(SimulationSetup {
        warm_up: 0.0,
        seconds: rebuild_began + MAX_REBUILD_DURATION * seconds,
        lost: 1,
        failure: Some(failed),
        rebuild: Some(rebuild_began),
        pass: Some(SampledRebuild { bytes, tail: seconds * PHASE_DURATION }),
        ..setup
    });
    let mut done = 0;
    let of_second = |second: &SecondMeasurements| {
        done += second.rebuilt_bytes;
        TimelineSecond {
            read_ms: mean(second.read_ms, second.reads),
            write_ms: mean(second.write_ms, second.writes),
            log_ms: mean(second.log_ms, second.log_writes),
            disk_writes: second.disk_writes,
            host_writes: second.writes,
            rebuilt_mb: second.rebuilt_bytes as f64 / 1e6,
            rebuilt_share: done as f64 / bytes as f64,
        }
    };
    let all: Vec<TimelineSecond> = measured.seconds.iter().map(of_second).collect();
    let end = all.len() as f64;
    let rebuild_ended = measured.rebuild_ended;
    let repaired = rebuild_ended.unwrap_or(end).min(end);
    let phases = [
        ("before", 0.0, failed),
        ("degraded", failed, rebuild_began),
        ("rebuilding", rebuild_began, repaired),
        ("after", repaired, end),
    ];
    let phases = phases.into_iter().filter(|(_, from, to)| from < to);
    let share_rebuilt = bytes as f64 / capacity as f64;
    Timeline {
        failed,
        rebuild_began,
        rebuild_ended,
        share_rebuilt,
        whole_rebuild_seconds: rebuild_ended.map(|ended| (ended - rebuild_began) / share_rebuilt),
        phases: phases.map(|(name, from, to)| phase(name, from, to, &measured.seconds)).collect(),
        seconds: all,
    }
}

fn mean(sum: f64, count: u64) -> Option<f64> {
    (count > 0).then(|| sum / count as f64)
}

/// Computes mean values over the seconds of a phase. A second in which the phase changes belongs to neither phase.
fn phase(name: &'static str, from: f64, to: f64, seconds: &[SecondMeasurements]) -> TimelinePhase {
    let first = (from.ceil() as usize).min(seconds.len());
    let inside = &seconds[first..(to.floor() as usize).clamp(first, seconds.len())];
    let sum_of = |value: fn(&SecondMeasurements) -> f64| inside.iter().map(value).sum::<f64>();
    let count = |value: fn(&SecondMeasurements) -> u64| inside.iter().map(value).sum::<u64>();
    let host_writes = count(|second| second.writes);
    TimelinePhase {
        name,
        from,
        to,
        read_ms: mean(sum_of(|second| second.read_ms), count(|second| second.reads)),
        write_ms: mean(sum_of(|second| second.write_ms), host_writes),
        log_ms: mean(sum_of(|second| second.log_ms), count(|second| second.log_writes)),
        disk_writes_per_host_write: mean(count(|second| second.disk_writes) as f64, host_writes),
        rebuild_mb_per_second: count(|second| second.rebuilt_bytes) as f64 / 1e6 / inside.len().max(1) as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;
    use crate::engine::prepare_volume;

    #[test]
    fn a_timeline_covers_before_during_and_after_the_rebuild() {
        let config = Config { seconds: 15.0, ..Config::exchange_2007() };
        let layout = &config.layouts[4];
        let drive = config.selected_drive().unwrap();
        let volume = prepare_volume(&config, layout, &drive);
        let setup = SimulationSetup {
            config: &config,
            layout,
            drive: &drive,
            volume: volume.as_ref(),
            iops: 2000.0,
            warm_up: 0.0,
            seconds: config.seconds,
            lost: 0,
            failure: None,
            rebuild: None,
            pass: None,
        };
        let found = timeline(setup, 20.0);
        let names: Vec<&str> = found.phases.iter().map(|phase| phase.name).collect();
        assert_eq!(names, ["before", "degraded", "rebuilding", "after"]);
        let read = |phase: usize| found.phases[phase].read_ms.unwrap();
        assert!(read(2) > 1.05 * read(0), "{:?}", found.phases);
        assert!(read(3) < 1.05 * read(0) && read(1) < read(2), "{:?}", found.phases);
        let shares: Vec<f64> = found.seconds.iter().map(|second| second.rebuilt_share).collect();
        assert!(shares.is_sorted() && shares[9] == 0.0 && (shares[shares.len() - 1] - 1.0).abs() < 1e-9);
        let (rate, time) = (found.phases[2].rebuild_mb_per_second, found.whole_rebuild_seconds.unwrap());
        assert!((time * rate / (drive.capacity() as f64 / 1e6) - 1.0).abs() < 0.1, "{rate} {time}");
    }
}
