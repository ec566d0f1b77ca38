//! State of a running fleet, shared by the terminal view and the metrics.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use jetcell_fleet::message::LiveMetrics;
use jetcell_fleet::{Coordinator, FleetMember, HostActivity};
use parking_lot::{Mutex, MutexGuard};

/// Maximum number of retained event lines.
const MAX_EVENT_LINES: usize = 50;

/// State of a fleet host at a point in time.
pub struct HostState {
    pub rank: u32,
    pub name: String,
    pub activity: HostActivity,
    /// Completed fraction of the current phase, from 0 to 1.
    pub fraction: f64,
    pub live: Option<LiveMetrics>,
    /// Time since the last message from the host.
    pub silence: Duration,
}

/// State of a fleet at a point in time.
#[derive(Default)]
pub struct FleetState {
    /// Title of the fleet's current phase.
    pub title: &'static str,
    pub since: Duration,
    /// Number of hosts expected to take part.
    pub expected: u32,
    pub hosts: Vec<HostState>,
    /// Event lines, oldest first.
    pub event_lines: VecDeque<String>,
}

/// Shared handle to the state of a fleet. Clones share the state.
#[derive(Clone, Default)]
pub struct FleetMonitor(Arc<Mutex<FleetState>>);

impl HostState {
    fn from_member(fleet: &Coordinator, host: &FleetMember) -> HostState {
        let beat = host.heartbeat();
        HostState {
            rank: host.rank(),
            name: beat.name.clone(),
            activity: host.activity(),
            fraction: beat.fraction.clamp(0.0, 1.0),
            live: beat.live.filter(|_| host.loss().is_none()),
            silence: fleet.silence_duration(host),
        }
    }
}

impl FleetState {
    /// Returns the number of hosts with live figures, and the totals over these hosts of database I/O operations per
    /// second and bytes per second.
    pub fn totals(&self) -> (usize, f64, f64) {
        self.hosts.iter().filter_map(|host| host.live).fold((0, 0.0, 0.0), |(hosts, iops, bytes), live| {
            (hosts + 1, iops + live.iops, bytes + live.bytes_per_second)
        })
    }
}

impl FleetMonitor {
    /// Updates the state from the coordinator.
    pub fn update(&self, fleet: &Coordinator, now_ns: u64) {
        let mut state = self.0.lock();
        state.title = match (fleet.stop_reason(), fleet.released_barrier()) {
            (Some(_), _) => "Stopping",
            (None, Some(gate)) => gate.title(),
            (None, None) => "Waiting for hosts",
        };
        state.since = Duration::from_nanos(now_ns.saturating_sub(fleet.started_ns()));
        state.expected = fleet.config().size();
        state.hosts = fleet.members().map(|host| HostState::from_member(fleet, host)).collect();
    }

    /// Adds an event line.
    pub fn add_event_line(&self, text: &str) {
        let mut state = self.0.lock();
        if state.event_lines.len() == MAX_EVENT_LINES {
            state.event_lines.pop_front();
        }
        state.event_lines.push_back(text.into());
    }

    pub fn state(&self) -> MutexGuard<'_, FleetState> {
        self.0.lock()
    }
}
