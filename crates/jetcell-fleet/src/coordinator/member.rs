//! The coordinator's record of a single host.

use std::fmt;

use jetcell_workload::RunPhase;
use serde::{Deserialize, Serialize};

use super::StorageOutcome;
use crate::message::{Barrier, HostCondition, HostHeartbeat, display_text, printable_start};
use crate::result_transfer::ResultReceiver;

/// Information about a fleet host that was declared lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostHost {
    /// Time of the last message from the host, in nanoseconds since 1970 on the coordinator's clock.
    pub heard_ns: u64,
    /// Activity of the host at that time.
    pub did: String,
    /// Description of the point at which the coordinator gave up on the host.
    pub given_up: String,
}

/// Activity of a fleet host, according to its messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HostActivity {
    /// The host was declared lost.
    Lost,
    /// The test has ended, and no more messages are expected.
    Ended,
    /// A phase of the test is running.
    Running(RunPhase),
    /// The test has not started.
    Waiting,
}

impl fmt::Display for HostActivity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HostActivity::Lost => "lost",
            HostActivity::Ended => "ended",
            HostActivity::Running(phase) => phase.title(),
            HostActivity::Waiting => "waits",
        })
    }
}

/// A host that has joined a fleet, as tracked by the coordinator.
#[derive(Debug)]
pub struct FleetMember {
    beat: HostHeartbeat,
    heard_ns: u64,
    /// True if the host's silence has been reported.
    pub(super) silent: bool,
    lost: Option<LostHost>,
    pub(super) receiver: Option<ResultReceiver>,
    /// Time of the last request for chunks.
    pub(super) requested_ns: u64,
    /// Number of the chunk that follows the last requested chunk.
    pub(super) requested_until: u64,
    /// Whether the host's result was stored successfully; `None` if it has not been stored yet.
    stored: Option<StorageOutcome>,
    pub(super) end_reported: bool,
}

impl FleetMember {
    /// Creates the record of a host that joins.
    pub(super) fn new(beat: HostHeartbeat, heard_ns: u64) -> FleetMember {
        FleetMember {
            beat: sanitized(beat),
            heard_ns,
            silent: false,
            lost: None,
            receiver: None,
            requested_ns: 0,
            requested_until: 0,
            stored: None,
            end_reported: false,
        }
    }

    /// Restores the record of a host from a saved state.
    pub(super) fn restored(
        beat: HostHeartbeat,
        heard_ns: u64,
        lost: Option<LostHost>,
        stored: Option<StorageOutcome>,
    ) -> FleetMember {
        FleetMember { lost, stored, ..FleetMember::new(beat, heard_ns) }
    }

    /// Stores the newest heartbeat.
    pub(super) fn update(&mut self, beat: HostHeartbeat, heard_ns: u64) {
        (self.beat, self.heard_ns) = (sanitized(beat), heard_ns);
    }

    pub(super) fn declare_lost(&mut self, given_up: &str) {
        let did = match (self.beat.phase, self.beat.reached) {
            (Some(phase), _) => phase.title().to_lowercase(),
            (None, Some(_)) => "waiting".into(),
            (None, None) => "joining".into(),
        };
        self.receiver = None;
        self.lost.get_or_insert(LostHost { heard_ns: self.heard_ns, did, given_up: given_up.into() });
    }

    pub(super) fn set_storage_outcome(&mut self, outcome: StorageOutcome) {
        self.receiver = None;
        self.stored = Some(outcome);
    }

    /// Returns the rank of the host.
    pub fn rank(&self) -> u32 {
        self.beat.rank
    }

    /// Returns the newest heartbeat of the host.
    pub fn heartbeat(&self) -> &HostHeartbeat {
        &self.beat
    }

    /// Returns the time of the last message from the host.
    pub fn last_contact_ns(&self) -> u64 {
        self.heard_ns
    }

    /// Returns the name of the host for display in messages.
    pub fn display_name(&self) -> String {
        format!("host {} (rank {})", self.beat.name, self.beat.rank)
    }

    /// Returns information about the loss, if the host was declared lost.
    pub fn loss(&self) -> Option<&LostHost> {
        self.lost.as_ref()
    }

    /// Returns the activity of the host.
    pub fn activity(&self) -> HostActivity {
        match self.beat.phase {
            _ if self.lost.is_some() => HostActivity::Lost,
            _ if self.is_settled() => HostActivity::Ended,
            Some(phase) => HostActivity::Running(phase),
            None => HostActivity::Waiting,
        }
    }

    /// Returns whether storing the host's result succeeded or failed, or `None` if it has not been attempted yet.
    pub fn storage_outcome(&self) -> Option<&StorageOutcome> {
        self.stored.as_ref()
    }

    /// Returns the reason why the host has no result, if it ended without one.
    pub fn failure(&self) -> Option<&str> {
        match (&self.beat.condition, &self.stored) {
            (_, Some(StorageOutcome::Failed(reason))) => Some(reason),
            (HostCondition::Ended { failure: Some(reason) } | HostCondition::Refused { reason }, _) => {
                Some(reason)
            }
            _ => None,
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        matches!(self.beat.condition, HostCondition::Ended { .. } | HostCondition::Refused { .. })
    }

    /// Returns true if no more messages are expected from the host.
    pub fn is_settled(&self) -> bool {
        self.lost.is_some() || self.stored.is_some() || (self.has_ended() && self.beat.offer.is_none())
    }

    /// Returns true if other hosts do not need to wait for this host at the barrier.
    pub(super) fn has_reached(&self, gate: Barrier) -> bool {
        self.lost.is_some() || self.has_ended() || self.beat.reached >= Some(gate)
    }
}

/// Returns a heartbeat with its texts shortened and control characters removed.
fn sanitized(beat: HostHeartbeat) -> HostHeartbeat {
    let condition = match beat.condition {
        HostCondition::Refused { reason } => HostCondition::Refused { reason: display_text(&reason) },
        HostCondition::Ended { failure } => {
            HostCondition::Ended { failure: failure.as_deref().map(display_text) }
        }
        other => other,
    };
    HostHeartbeat { name: printable_start(&beat.name, 64), condition, ..beat }
}
