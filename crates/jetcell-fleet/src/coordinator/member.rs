//! The coordinator's record of a single host.

use serde::{Deserialize, Serialize};

use crate::message::{Condition, Gate, HostBeat, printable_start, shown};
use crate::parcel::Intake;

/// Information about a host that was declared lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// Time of the last message from the host, in nanoseconds since 1970 on the coordinator's clock.
    pub heard_ns: u64,
    /// What the host was doing at that time.
    pub did: String,
    /// Description of the situation in which the coordinator gave up on the host.
    pub given_up: String,
}

/// A host that has joined.
#[derive(Debug)]
pub struct Member {
    beat: HostBeat,
    heard_ns: u64,
    /// True if the host's silence has been reported.
    pub(super) silent: bool,
    lost: Option<Lost>,
    pub(super) intake: Option<Intake>,
    /// Time of the last request for chunks.
    pub(super) asked_ns: u64,
    /// Number of the chunk after the last requested one.
    pub(super) asked_until: u64,
    /// Whether the host's result was stored successfully; `None` if it has not been stored yet.
    stored: Option<Result<(), String>>,
    pub(super) ended_told: bool,
}

impl Member {
    /// Creates the record of a host that joins.
    pub(super) fn new(beat: HostBeat, heard_ns: u64) -> Member {
        Member {
            beat: cleaned(beat),
            heard_ns,
            silent: false,
            lost: None,
            intake: None,
            asked_ns: 0,
            asked_until: 0,
            stored: None,
            ended_told: false,
        }
    }

    /// Restores the record of a host from a saved state.
    pub(super) fn restored(
        beat: HostBeat,
        heard_ns: u64,
        lost: Option<Lost>,
        stored: Option<Result<(), String>>,
    ) -> Member {
        Member { lost, stored, ..Member::new(beat, heard_ns) }
    }

    /// Stores the newest heartbeat.
    pub(super) fn update(&mut self, beat: HostBeat, heard_ns: u64) {
        (self.beat, self.heard_ns) = (cleaned(beat), heard_ns);
    }

    pub(super) fn lose(&mut self, given_up: &str) {
        let did = match (self.beat.phase, self.beat.reached) {
            (Some(phase), _) => phase.title().to_lowercase(),
            (None, Some(_)) => "waiting".into(),
            (None, None) => "joining".into(),
        };
        self.intake = None;
        self.lost.get_or_insert(Lost { heard_ns: self.heard_ns, did, given_up: given_up.into() });
    }

    pub(super) fn kept(&mut self, outcome: Result<(), String>) {
        self.intake = None;
        self.stored = Some(outcome);
    }

    /// Returns the rank of the host.
    pub fn rank(&self) -> u32 {
        self.beat.rank
    }

    /// Returns the newest heartbeat of the host.
    pub fn beat(&self) -> &HostBeat {
        &self.beat
    }

    /// Returns the time of the last message from the host.
    pub fn heard_ns(&self) -> u64 {
        self.heard_ns
    }

    /// Returns the name of the host for messages.
    pub fn shown(&self) -> String {
        format!("host {} (rank {})", self.beat.name, self.beat.rank)
    }

    /// Returns information about the loss, if the host was declared lost.
    pub fn lost(&self) -> Option<&Lost> {
        self.lost.as_ref()
    }

    /// Returns whether storing the host's result succeeded or failed, or `None` if it has not been attempted yet.
    pub fn stored(&self) -> Option<&Result<(), String>> {
        self.stored.as_ref()
    }

    /// Returns the reason why the host has no result, if it ended without one.
    pub fn failure(&self) -> Option<&str> {
        match (&self.beat.condition, &self.stored) {
            (_, Some(Err(reason))) => Some(reason),
            (Condition::Ended { failure: Some(reason) } | Condition::Refused { reason }, _) => Some(reason),
            _ => None,
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        matches!(self.beat.condition, Condition::Ended { .. } | Condition::Refused { .. })
    }

    /// Returns true if no more messages are expected from the host.
    pub fn is_settled(&self) -> bool {
        self.lost.is_some() || self.stored.is_some() || (self.has_ended() && self.beat.offer.is_none())
    }

    /// Returns true if other hosts do not need to wait for this host at the barrier.
    pub(super) fn is_at(&self, gate: Gate) -> bool {
        self.lost.is_some() || self.has_ended() || self.beat.reached >= Some(gate)
    }
}

/// Returns a heartbeat with its texts shortened and control characters removed.
fn cleaned(beat: HostBeat) -> HostBeat {
    let condition = match beat.condition {
        Condition::Refused { reason } => Condition::Refused { reason: shown(&reason) },
        Condition::Ended { failure } => Condition::Ended { failure: failure.as_deref().map(shown) },
        other => other,
    };
    HostBeat { name: printable_start(&beat.name, 64), condition, ..beat }
}
