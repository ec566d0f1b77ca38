//! A host's session with the coordinator. It performs no I/O: it receives messages and times, and returns messages to
//! send. The host's test runs on another thread and shares [`Progress`] with the session.

use std::sync::Arc;
use std::time::Duration;

use jetcell_workload::{Phase, StopSignal};
use parking_lot::{Condvar, Mutex};

use crate::clock::{ClockEstimate, Moment};
use crate::directory_mark::DirectoryMark;
use crate::message::{
    self, Condition, CoordinatorBeat, FromCoordinator, FromHost, Gate, HostBeat, LiveFigures, Order,
    Subjects, Unusable, Window,
};
use crate::parcel::Parcel;
use crate::place::Place;

/// Number of pings sent in quick succession at the start, to determine the clock offset before the test starts.
const FIRST_PINGS: usize = 8;

/// Interval between these pings.
const QUICK_NS: u64 = 50_000_000;

/// Interval between heartbeats, and between pings after the first ones.
const BEAT_NS: u64 = 500_000_000;

/// If the session has not run for this long, the process is considered to have been suspended. It then gets
/// additional time to receive a message before its lease expires.
const FROZEN_NS: u64 = 3_000_000_000;

/// Length of this additional time.
const THAW_NS: u64 = 5_000_000_000;

/// Maximum number of chunks sent in response to one request.
const MAX_PIECES: u64 = 64;

/// State shared between the test thread and the session.
#[derive(Debug, Default)]
struct Shared {
    open: Option<Gate>,
    /// True while it is the host's turn to measure its load alone.
    is_its_turn: bool,
    /// Start of the measurement on the host's monotonic clock.
    start_ns: Option<u64>,
    reached: Option<Gate>,
    phase: Option<Phase>,
    fraction: f64,
    live: Option<LiveFigures>,
    /// Measurement window on the host's monotonic clock.
    began_ns: Option<u64>,
    ended_ns: Option<u64>,
}

/// A test's progress, and the barriers that have been released for it. Clones share the same state.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    shared: Arc<(Mutex<Shared>, Condvar)>,
    stop: StopSignal,
}

/// Interval between checks for a stop request.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(50);

impl Progress {
    /// Returns the signal that stops the test.
    pub fn stop(&self) -> &StopSignal {
        &self.stop
    }

    fn change<R>(&self, change: impl FnOnce(&mut Shared) -> R) -> R {
        let changed = change(&mut self.shared.0.lock());
        self.shared.1.notify_all();
        changed
    }

    /// Records that the test has reached a barrier.
    pub fn reach(&self, gate: Gate) {
        self.change(|shared| shared.reached = shared.reached.max(Some(gate)));
    }

    /// Returns true if a barrier has been released.
    pub fn is_open(&self, gate: Gate) -> bool {
        self.change(|shared| shared.open >= Some(gate))
    }

    /// Waits at a barrier until it is released or the test must stop.
    pub fn pass(&self, gate: Gate) {
        self.reach(gate);
        self.wait_until(|shared| shared.open >= Some(gate));
    }

    /// Waits until it is the host's turn to measure its load alone, or the test must stop.
    pub fn pass_alone(&self) {
        self.pass(Gate::Alone);
        self.wait_until(|shared| shared.is_its_turn);
    }

    /// Returns true if it is the host's turn to measure its load alone.
    pub fn is_its_turn(&self) -> bool {
        self.shared.0.lock().is_its_turn
    }

    fn wait_until(&self, reached: impl Fn(&Shared) -> bool) {
        let mut shared = self.shared.0.lock();
        while !reached(&shared) && !self.stop.is_set() {
            self.shared.1.wait_for(&mut shared, STOP_POLL_INTERVAL);
        }
    }

    /// Returns the start of the measurement on the monotonic clock, if it is known.
    pub fn start_ns(&self) -> Option<u64> {
        self.shared.0.lock().start_ns
    }

    /// Records a test phase and its progress.
    pub fn at(&self, phase: Phase, fraction: f64) {
        self.change(|shared| (shared.phase, shared.fraction) = (Some(phase), fraction));
    }

    /// Records the figures for the last second.
    pub fn live(&self, figures: Option<LiveFigures>) {
        self.change(|shared| shared.live = figures);
    }

    /// Records the start of the measurement on the monotonic clock.
    pub fn measured_from(&self, monotonic_ns: u64) {
        self.change(|shared| shared.began_ns = Some(monotonic_ns));
    }

    /// Records the end of the measurement on the monotonic clock.
    pub fn measured_until(&self, monotonic_ns: u64) {
        self.change(|shared| shared.ended_ns = shared.ended_ns.or(Some(monotonic_ns)));
    }
}

/// An action that the session's caller must perform.
#[derive(Clone, Debug, PartialEq)]
pub enum Call {
    /// Publish a message to a subject.
    Send(String, Vec<u8>),
    /// Check the host's assignment and run it.
    Begin(Order),
    /// Leave the fleet, because the session has ended for the given reason.
    Leave(Departure),
}

/// Reason why a session has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Departure {
    /// The coordinator has received the result.
    HandedIn,
    /// The host cannot take part in the test.
    Refused(String),
    /// The test has ended, but the coordinator has not received the result, which remains on the host.
    Alone(String),
}

/// A host's identity.
#[derive(Clone, Debug, PartialEq)]
pub struct Identity {
    /// Rank of the host, and size of the fleet.
    pub place: Place,
    /// Random identifier of the process.
    pub token: String,
    /// Host name.
    pub name: String,
    /// Digest of the configuration, if it was given to the host.
    pub configuration: Option<String>,
}

/// A host's session with the coordinator.
#[derive(Debug)]
pub struct HostSession {
    identity: Identity,
    program: String,
    subjects: Subjects,
    progress: Progress,
    /// Maximum time that the host waits for its assignment.
    patience_ns: u64,
    condition: Condition,
    /// Run identifier. Empty until the host has received its assignment.
    run: String,
    epoch: String,
    lease_ns: u64,
    /// Time of the last message from the coordinator; initially the start of the session.
    heard_ns: Option<u64>,
    ticked_ns: u64,
    next_beat_ns: u64,
    next_ping_ns: u64,
    clock: ClockEstimate,
    /// Start of the measurement on the coordinator's clock.
    start_ns: Option<u64>,
    parcel: Option<Parcel>,
    stopped: Option<String>,
    departure: Option<Departure>,
    ignored: u64,
    calls: Vec<Call>,
}

impl HostSession {
    /// Creates a session that tries to obtain an assignment for at most `patience`.
    pub fn new(
        fleet: &str,
        program: &str,
        identity: Identity,
        progress: Progress,
        patience: Duration,
    ) -> HostSession {
        HostSession {
            identity,
            program: program.into(),
            subjects: Subjects::of(fleet),
            progress,
            patience_ns: patience.as_nanos() as u64,
            condition: Condition::Joining,
            run: String::new(),
            epoch: String::new(),
            lease_ns: u64::MAX,
            heard_ns: None,
            ticked_ns: 0,
            next_beat_ns: 0,
            next_ping_ns: 0,
            clock: ClockEstimate::default(),
            start_ns: None,
            parcel: None,
            stopped: None,
            departure: None,
            ignored: 0,
            calls: Vec::new(),
        }
    }

    /// Returns the subjects to which the session subscribes.
    pub fn subscriptions(&self) -> Vec<String> {
        vec![self.subjects.to_all(), self.subjects.to_host(self.identity.place.rank)]
    }

    /// Returns the state that the session shares with the test.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Returns the mark for the host's directories. Valid only after the host has received its assignment.
    pub fn mark(&self) -> DirectoryMark {
        DirectoryMark {
            run: self.run.clone(),
            rank: self.identity.place.rank,
            host: self.identity.name.clone(),
            token: self.identity.token.clone(),
        }
    }

    /// Returns the reason why the test was stopped, if it was.
    pub fn stopped(&self) -> Option<&str> {
        self.stopped.as_deref()
    }

    /// Declines the assignment.
    pub fn refuse(&mut self, reason: String) {
        self.condition = Condition::Refused { reason };
        self.next_beat_ns = 0;
    }

    /// Records that the host's test has ended.
    pub fn end(&mut self, outcome: Result<Parcel, String>) {
        let failure = match outcome {
            Ok(parcel) => {
                self.parcel = Some(parcel);
                None
            }
            Err(reason) => Some(reason),
        };
        self.condition = Condition::Ended { failure };
        self.next_beat_ns = 0;
    }

    /// Stops the host at its user's request.
    pub fn interrupt(&mut self, reason: &str) {
        match self.condition {
            // There is no coordinator to dismiss the host.
            Condition::Joining if self.epoch.is_empty() => self.leave(Departure::Refused(reason.into())),
            Condition::Joining => self.refuse(reason.into()),
            _ => self.progress.stop.stop(),
        }
    }

    fn send(&mut self, message: &FromHost, attached: &[u8]) {
        let payload = message::write(&self.program, &self.run, message, attached);
        self.calls.push(Call::Send(self.subjects.to_coordinator(), payload));
    }

    /// Processes a message.
    pub fn receive(&mut self, now: Moment, bytes: &[u8]) -> Vec<Call> {
        match message::read::<FromCoordinator>(&self.program, bytes) {
            Err(Unusable::OtherVersion { program, protocol, .. }) if self.condition == Condition::Joining => {
                self.leave(Departure::Refused(format!(
                    "the coordinator runs jetcell {program} with message version {protocol}, but this host \
                     runs jetcell {} with message version {}; install the same version on all hosts",
                    self.program, message::PROTOCOL
                )));
            }
            Err(_) => self.ignored += 1,
            Ok(received) if !self.run.is_empty() && received.run != self.run => self.ignored += 1,
            Ok(received) => self.hear(now, &received.run, received.message),
        }
        std::mem::take(&mut self.calls)
    }

    fn hear(&mut self, now: Moment, run: &str, message: FromCoordinator) {
        let own = self.identity.token.clone();
        match message {
            FromCoordinator::Beat(beat) => self.coordinator_beat(now, &beat),
            FromCoordinator::Pong { token, sent_ns, received_ns, answered_ns } if token == own => {
                self.clock.answer(sent_ns, received_ns, answered_ns, now.monotonic_ns);
                self.set_start();
            }
            FromCoordinator::Order { token, order } if token == own => {
                if self.condition == Condition::Joining {
                    (self.condition, self.run) = (Condition::Running, run.into());
                    self.heard_ns = Some(now.monotonic_ns);
                    self.next_beat_ns = 0;
                    self.calls.push(Call::Begin(order));
                }
            }
            FromCoordinator::Rejected { token, reason } if token == own => {
                self.progress.stop.stop();
                self.stopped.get_or_insert(message::shown(&reason));
                if matches!(self.condition, Condition::Joining | Condition::Refused { .. }) {
                    self.leave(Departure::Refused(message::shown(&reason)));
                }
            }
            FromCoordinator::Send { token, first, count } if token == own => self.send_pieces(first, count),
            FromCoordinator::Dismissed { token } if token == own => self.dismissed(),
            // The message is addressed to another process with the same rank.
            _ => self.ignored += 1,
        }
    }

    fn coordinator_beat(&mut self, now: Moment, beat: &CoordinatorBeat) {
        if beat.epoch != self.epoch {
            // The coordinator was restarted, so its clock is different.
            self.clock.forget();
            self.epoch.clone_from(&beat.epoch);
            self.next_ping_ns = 0;
        }
        self.heard_ns = Some(now.monotonic_ns);
        self.lease_ns = beat.lease_ms.saturating_mul(1_000_000);
        if let Some(reason) = &beat.stop {
            self.stop_by(message::shown(reason));
        }
        if self.condition != Condition::Joining {
            self.start_ns = beat.start_ns;
            self.set_start();
            let is_its_turn = beat.turn == Some(self.identity.place.rank);
            self.progress.change(|shared| {
                (shared.open, shared.is_its_turn) = (shared.open.max(beat.open), is_its_turn);
            });
        }
    }

    fn stop_by(&mut self, reason: String) {
        if self.condition == Condition::Joining {
            self.condition = Condition::Ended { failure: Some(reason.clone()) };
            self.next_beat_ns = 0;
        }
        self.progress.stop.stop();
        self.stopped.get_or_insert(reason);
    }

    /// Tells the test when the measurement starts.
    fn set_start(&mut self) {
        let start = self.start_ns.and_then(|start| self.clock.monotonic_ns(start));
        // The start time no longer changes once the measurement has started.
        self.progress.change(|shared| {
            if start.is_some() && shared.began_ns.is_none() {
                shared.start_ns = start;
            }
        });
    }

    fn send_pieces(&mut self, first: u64, count: u64) {
        let Some(parcel) = self.parcel.take() else { return };
        for number in first..first.saturating_add(count.min(MAX_PIECES)) {
            let Some(piece) = parcel.piece(number) else { break };
            let (rank, token) = (self.identity.place.rank, self.identity.token.clone());
            self.send(&FromHost::Piece { rank, token, number }, piece);
        }
        self.parcel = Some(parcel);
    }

    fn dismissed(&mut self) {
        match self.condition.clone() {
            Condition::Ended { failure: None } => self.leave(Departure::HandedIn),
            Condition::Ended { failure: Some(reason) } => {
                let reason = self.stopped.clone().unwrap_or(reason);
                self.leave(Departure::Refused(reason));
            }
            Condition::Refused { reason } => self.leave(Departure::Refused(reason)),
            // The test has not yet noticed that it must stop.
            Condition::Joining | Condition::Running => {}
        }
    }

    fn leave(&mut self, why: Departure) {
        if self.departure.is_none() {
            self.departure = Some(why.clone());
            self.calls.push(Call::Leave(why));
        }
    }

    /// Advances the time. Must be called several times per heartbeat interval.
    pub fn tick(&mut self, now: Moment) -> Vec<Call> {
        let at = now.monotonic_ns;
        self.clock.look(now);
        let heard = self.heard_ns.get_or_insert(at);
        if at.saturating_sub(self.ticked_ns) > FROZEN_NS && self.ticked_ns > 0 {
            let earliest = at.saturating_sub(self.lease_ns.saturating_sub(THAW_NS));
            *heard = (*heard).max(earliest);
        }
        let silence = at.saturating_sub(*heard);
        self.ticked_ns = at;
        self.keep_lease(silence);
        if at >= self.next_ping_ns {
            let quick = self.clock.answers() < FIRST_PINGS && !self.epoch.is_empty();
            self.next_ping_ns = at + if quick { QUICK_NS } else { BEAT_NS };
            let (rank, token) = (self.identity.place.rank, self.identity.token.clone());
            self.send(&FromHost::Ping { rank, token, sent_ns: at }, &[]);
        }
        if at >= self.next_beat_ns {
            self.next_beat_ns = at + BEAT_NS;
            let beat = self.beat(now);
            self.send(&FromHost::Beat(beat), &[]);
        }
        std::mem::take(&mut self.calls)
    }

    /// If no messages arrive from the coordinator, ends the test, and later the session.
    fn keep_lease(&mut self, silence_ns: u64) {
        let seconds = Duration::from_nanos(silence_ns).as_secs();
        match &self.condition {
            Condition::Joining if silence_ns >= self.patience_ns => {
                let reason = format!("no coordinator responded within {seconds} s; start jetcell fleet run");
                self.leave(Departure::Refused(reason));
            }
            Condition::Running if silence_ns >= self.lease_ns && !self.progress.stop.is_set() => {
                self.stop_by(format!(
                    "the coordinator did not respond for {seconds} s, which is longer than the lease"
                ));
            }
            Condition::Ended { failure: None } if silence_ns >= self.lease_ns => {
                let reason =
                    format!("the coordinator did not respond for {seconds} s; the result is stored on this host");
                self.leave(Departure::Alone(reason));
            }
            Condition::Ended { failure: Some(reason) } | Condition::Refused { reason }
                if silence_ns >= self.lease_ns.min(self.patience_ns) =>
            {
                self.leave(Departure::Refused(reason.clone()));
            }
            _ => {}
        }
    }

    fn beat(&self, now: Moment) -> HostBeat {
        let shared = self.progress.shared.0.lock();
        let coordinator = |monotonic: u64| self.clock.coordinator_ns(monotonic);
        let window = shared
            .began_ns
            .and_then(coordinator)
            .map(|began_ns| Window { began_ns, ended_ns: shared.ended_ns.and_then(coordinator) });
        HostBeat {
            rank: self.identity.place.rank,
            size: self.identity.place.size,
            token: self.identity.token.clone(),
            name: self.identity.name.clone(),
            configuration: self.identity.configuration.clone(),
            condition: self.condition.clone(),
            reached: shared.reached,
            phase: shared.phase,
            fraction: shared.fraction,
            live: shared.live,
            clock: self.clock.report(now),
            window,
            offer: self.parcel.as_ref().map(Parcel::offer),
            ignored: self.ignored,
        }
    }
}
