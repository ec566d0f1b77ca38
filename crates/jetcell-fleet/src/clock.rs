//! The coordinator's and the hosts' clocks: their offsets, and the round-trip times of messages.

use std::collections::VecDeque;
use std::time::{Instant, SystemTime};

use crate::message::ClockReport;

/// Maximum number of retained responses. The one with the shortest round trip is used. Older responses are dropped
/// because clocks drift.
const MAX_SAMPLES: usize = 64;

/// A reading of both clocks on a host, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockReading {
    /// Monotonic clock, since the start of the process.
    pub monotonic_ns: u64,
    /// Wall clock, since 1970.
    pub wall_ns: u64,
}

/// This host's monotonic and wall clocks.
#[derive(Clone, Copy, Debug)]
pub struct HostClocks {
    began: Instant,
    began_wall_ns: u64,
}

impl HostClocks {
    /// Creates clocks that start now.
    pub fn start() -> HostClocks {
        HostClocks { began: Instant::now(), began_wall_ns: wall_ns() }
    }

    /// Returns the current time on both clocks.
    pub fn now(&self) -> ClockReading {
        ClockReading { monotonic_ns: self.monotonic_ns(Instant::now()), wall_ns: wall_ns() }
    }

    /// Converts an instant to a time on the monotonic clock.
    pub fn monotonic_ns(&self, instant: Instant) -> u64 {
        instant.saturating_duration_since(self.began).as_nanos() as u64
    }

    /// Returns the wall clock time at the start plus the monotonic time elapsed since then, so it never jumps. The
    /// coordinator uses this clock.
    pub fn steady_ns(&self) -> u64 {
        self.began_wall_ns + self.began.elapsed().as_nanos() as u64
    }
}

/// Returns the wall clock time in nanoseconds since 1970.
pub fn wall_ns() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

/// The coordinator's response to a time request.
#[derive(Clone, Copy, Debug)]
struct TimeResponse {
    round_trip_ns: u64,
    /// Coordinator clock minus the host's monotonic clock.
    offset_ns: i128,
}

/// A host's estimate of the coordinator's clock.
#[derive(Clone, Debug, Default)]
pub struct ClockEstimate {
    answers: VecDeque<TimeResponse>,
    /// Initial difference between the wall clock and the monotonic clock.
    first: Option<i128>,
    moved_ns: u64,
}

impl ClockEstimate {
    /// Adds a response. The first and last arguments are the times of the request and the response on the host's
    /// monotonic clock. `received` and `answered` are the corresponding times on the coordinator's clock.
    pub fn add_response(&mut self, sent: u64, received: u64, answered: u64, heard: u64) {
        let (sent, received, answered, heard) =
            (i128::from(sent), i128::from(received), i128::from(answered), i128::from(heard));
        let round_trip = (heard - sent) - (answered - received);
        if heard < sent || answered < received || round_trip < 0 {
            return;
        }
        let offset_ns = ((received - sent) + (answered - heard)) / 2;
        self.answers.push_back(TimeResponse { round_trip_ns: round_trip as u64, offset_ns });
        if self.answers.len() > MAX_SAMPLES {
            self.answers.pop_front();
        }
    }

    /// Drops all responses, because a different coordinator has a different clock.
    pub fn clear(&mut self) {
        self.answers.clear();
    }

    /// Returns the number of retained responses.
    pub fn response_count(&self) -> usize {
        self.answers.len()
    }

    fn best(&self) -> Option<&TimeResponse> {
        self.answers.iter().min_by_key(|answer| answer.round_trip_ns)
    }

    /// Converts a time on the monotonic clock to the coordinator's clock.
    pub fn coordinator_ns(&self, monotonic_ns: u64) -> Option<u64> {
        u64::try_from(i128::from(monotonic_ns) + self.best()?.offset_ns).ok()
    }

    /// Converts a time on the coordinator's clock to the monotonic clock.
    pub fn monotonic_ns(&self, coordinator_ns: u64) -> Option<u64> {
        Some(u64::try_from(i128::from(coordinator_ns) - self.best()?.offset_ns).unwrap_or(0))
    }

    /// Compares the host's two clocks. A wall clock that stops or jumps has moved relative to the monotonic clock.
    pub fn check_drift(&mut self, now: ClockReading) {
        let apart = i128::from(now.wall_ns) - i128::from(now.monotonic_ns);
        let first = *self.first.get_or_insert(apart);
        self.moved_ns = self.moved_ns.max(u64::try_from((apart - first).unsigned_abs()).unwrap_or(u64::MAX));
    }

    /// Returns the host's clock report.
    pub fn report(&self, now: ClockReading) -> Option<ClockReport> {
        let best = self.best()?;
        let coordinator = i128::from(now.monotonic_ns) + best.offset_ns;
        let offset_ns = i64::try_from(i128::from(now.wall_ns) - coordinator).unwrap_or(i64::MAX);
        Some(ClockReport { offset_ns, round_trip_ns: best.round_trip_ns, moved_ns: self.moved_ns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn the_clock_offset_comes_from_the_shortest_round_trip() {
        let mut clock = ClockEstimate::default();
        assert_eq!(clock.coordinator_ns(0), None);
        // The coordinator's clock is 1,000 ms ahead. The first response was delayed by 40 ms on its way back.
        clock.add_response(10 * MS, 1_011 * MS, 1_012 * MS, 53 * MS);
        clock.add_response(100 * MS, 1_101 * MS, 1_103 * MS, 104 * MS);
        let now = ClockReading { monotonic_ns: 200 * MS, wall_ns: 1_205 * MS };
        let report = clock.report(now).unwrap();
        assert_eq!((report.offset_ns, report.round_trip_ns), (5 * MS as i64, 2 * MS));
        assert_eq!(
            (clock.coordinator_ns(0), clock.monotonic_ns(1_500 * MS)),
            (Some(1_000 * MS), Some(500 * MS))
        );
        assert_eq!(clock.monotonic_ns(1), Some(0), "a time before the start is clamped to the start");
    }

    #[test]
    fn impossible_clock_responses_are_ignored() {
        let mut clock = ClockEstimate::default();
        for (sent, received, answered, heard) in
            [(9, 5, 5, 8), (1, 9, 5, 3), (1, 5, 90, 3), (u64::MAX, 0, 0, 0)]
        {
            clock.add_response(sent, received, answered, heard);
        }
        assert_eq!(clock.response_count(), 0);
        clock.add_response(0, u64::MAX, u64::MAX, 0);
        assert_eq!(clock.coordinator_ns(u64::MAX), None);
        for at in 0..1_000 {
            clock.add_response(at, at, at, at);
        }
        assert_eq!(clock.response_count(), MAX_SAMPLES);
    }

    #[test]
    fn a_stopped_wall_clock_drifts_from_the_monotonic_clock() {
        let mut clock = ClockEstimate::default();
        clock.add_response(0, 0, 0, 0);
        for second in 0..10_u64 {
            let now = ClockReading { monotonic_ns: second * 1_000 * MS, wall_ns: 500 };
            clock.check_drift(now);
            assert_eq!(clock.report(now).unwrap().moved_ns, second * 1_000 * MS);
        }
    }
}
