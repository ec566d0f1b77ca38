//! What the coordinator knows about one host.

use serde::{Deserialize, Serialize};

use crate::message::{Condition, Gate, HostBeat, printable_start, shown};
use crate::parcel::Intake;

/// When a host was lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// Last message of the host, in nanoseconds of the coordinator's clock since 1970.
    pub heard_ns: u64,
    /// What it did then.
    pub did: String,
    /// When the coordinator gave it up, in words.
    pub given_up: String,
}

/// A host that has joined.
#[derive(Debug)]
pub struct Member {
    beat: HostBeat,
    heard_ns: u64,
    /// Whether the silence of the host was told.
    pub(super) silent: bool,
    lost: Option<Lost>,
    pub(super) intake: Option<Intake>,
    /// When pieces were asked for.
    pub(super) asked_ns: u64,
    /// The piece behind the last one that was asked for.
    pub(super) asked_until: u64,
    /// Whether the result is stored, or why it is not.
    stored: Option<Result<(), String>>,
    pub(super) ended_told: bool,
}

impl Member {
    /// A host that joins.
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

    /// A host as it was stored.
    pub(super) fn restored(
        beat: HostBeat,
        heard_ns: u64,
        lost: Option<Lost>,
        stored: Option<Result<(), String>>,
    ) -> Member {
        Member { lost, stored, ..Member::new(beat, heard_ns) }
    }

    /// Takes the newest state.
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

    /// Its rank.
    pub fn rank(&self) -> u32 {
        self.beat.rank
    }

    /// Its newest state.
    pub fn beat(&self) -> &HostBeat {
        &self.beat
    }

    /// When it was heard last.
    pub fn heard_ns(&self) -> u64 {
        self.heard_ns
    }

    /// How it is named in messages for people.
    pub fn shown(&self) -> String {
        format!("host {} (rank {})", self.beat.name, self.beat.rank)
    }

    /// When it was lost, if it was.
    pub fn lost(&self) -> Option<&Lost> {
        self.lost.as_ref()
    }

    /// Whether its result is stored, or why it could not be.
    pub fn stored(&self) -> Option<&Result<(), String>> {
        self.stored.as_ref()
    }

    /// Why it has no result, if it ended without one.
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

    /// Whether nothing more is expected of it.
    pub fn is_settled(&self) -> bool {
        self.lost.is_some() || self.stored.is_some() || (self.has_ended() && self.beat.offer.is_none())
    }

    /// Whether it does not keep others waiting at a gate.
    pub(super) fn is_at(&self, gate: Gate) -> bool {
        self.lost.is_some() || self.has_ended() || self.beat.reached >= Some(gate)
    }
}

/// A beat with texts that are short and without control characters.
fn cleaned(beat: HostBeat) -> HostBeat {
    let condition = match beat.condition {
        Condition::Refused { reason } => Condition::Refused { reason: shown(&reason) },
        Condition::Ended { failure } => Condition::Ended { failure: failure.as_deref().map(shown) },
        other => other,
    };
    HostBeat { name: printable_start(&beat.name, 64), condition, ..beat }
}
