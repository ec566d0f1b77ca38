//! One run before, during and after the loss of a drive, up to the end of its rebuild.

use serde::Serialize;

use crate::engine::{Pass, Second, Setup, simulate};

/// Parts of the time of a state, for the time before the loss, without a rebuild, and after it.
const PART: f64 = 1.0 / 3.0;
/// How many times the time of a state the rebuild may take about, and at most.
const REBUILD: f64 = 2.0;
const LONGEST_REBUILD: f64 = 10.0;
/// The least number of bytes that are rebuilt.
const LEAST: f64 = (64 << 20) as f64;

/// The run. Times are simulated seconds from its beginning.
#[derive(Clone, Debug, Serialize)]
pub struct Timeline {
    /// When the drive failed.
    pub failed: f64,
    /// When its rebuild began.
    pub rebuild_began: f64,
    /// When it ended; absent if it took longer than the run.
    pub rebuild_ended: Option<f64>,
    /// Share of the drive that the run rebuilt, evenly spread from the first byte to the last one.
    pub share_rebuilt: f64,
    /// Seconds that the rebuild of all of the drive takes: the time of this rebuild by its share.
    pub whole_rebuild_seconds: Option<f64>,
    /// Means of the parts.
    pub phases: Vec<Phase>,
    /// Each second.
    pub seconds: Vec<TimelineSecond>,
}

/// A part of the run.
#[derive(Clone, Debug, Serialize)]
pub struct Phase {
    /// `before`, `degraded`, `rebuilding` or `after`.
    pub name: &'static str,
    /// Simulated seconds from the beginning of the run.
    pub from: f64,
    /// End of the part.
    pub to: f64,
    /// Mean read latency in milliseconds.
    pub read_ms: Option<f64>,
    /// Mean write latency.
    pub write_ms: Option<f64>,
    /// Mean latency of writes of logs.
    pub log_ms: Option<f64>,
    /// Write commands of drives for each write of the host, without those of the rebuild.
    pub disk_writes_per_host_write: Option<f64>,
    /// Megabytes (10^6) that were rebuilt in a second.
    pub rebuild_mb_per_second: f64,
}

/// A second of the run.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct TimelineSecond {
    /// Mean read latency in milliseconds; absent without reads.
    pub read_ms: Option<f64>,
    /// Mean write latency.
    pub write_ms: Option<f64>,
    /// Mean latency of writes of logs.
    pub log_ms: Option<f64>,
    /// Write commands of drives.
    pub disk_writes: u64,
    /// Writes of the host.
    pub host_writes: u64,
    /// Megabytes (10^6) that were rebuilt.
    pub rebuilt_mb: f64,
    /// Share of the rebuild that is done, between 0 and 1.
    pub rebuilt_share: f64,
}

/// Runs the loss and the rebuild of one drive. `setup` has the time of a state; `rate` is about that of the rebuild in MB/s.
pub(crate) fn timeline(setup: Setup<'_>, rate: f64) -> Timeline {
    let seconds = setup.seconds;
    let (failed, rebuild_began) = (seconds * PART, seconds * 2.0 * PART);
    let capacity = setup.drive.capacity();
    let bytes = ((rate * 1e6 * REBUILD * seconds).max(LEAST) as u64).min(capacity);
    let measured = simulate(Setup {
        warm_up: 0.0,
        seconds: rebuild_began + LONGEST_REBUILD * seconds,
        lost: 1,
        failure: Some(failed),
        rebuild: Some(rebuild_began),
        pass: Some(Pass { bytes, tail: seconds * PART }),
        ..setup
    });
    let mut done = 0;
    let of_second = |second: &Second| {
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

/// Means over the seconds of a part. A second that two parts share belongs to neither.
fn phase(name: &'static str, from: f64, to: f64, seconds: &[Second]) -> Phase {
    let first = (from.ceil() as usize).min(seconds.len());
    let inside = &seconds[first..(to.floor() as usize).clamp(first, seconds.len())];
    let of = |value: fn(&Second) -> f64| inside.iter().map(value).sum::<f64>();
    let count = |value: fn(&Second) -> u64| inside.iter().map(value).sum::<u64>();
    let host_writes = count(|second| second.writes);
    Phase {
        name,
        from,
        to,
        read_ms: mean(of(|second| second.read_ms), count(|second| second.reads)),
        write_ms: mean(of(|second| second.write_ms), host_writes),
        log_ms: mean(of(|second| second.log_ms), count(|second| second.log_writes)),
        disk_writes_per_host_write: mean(count(|second| second.disk_writes) as f64, host_writes),
        rebuild_mb_per_second: count(|second| second.rebuilt_bytes) as f64 / 1e6 / inside.len().max(1) as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;
    use crate::engine::prepared;

    #[test]
    fn a_run_shows_the_time_before_the_loss_the_whole_rebuild_and_the_time_after_it() {
        let config = Config { seconds: 15.0, ..Config::exchange_2007() };
        let layout = &config.layouts[4];
        let drive = config.chosen_drive().unwrap();
        let volume = prepared(&config, layout, &drive);
        let setup = Setup {
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
