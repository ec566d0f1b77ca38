//! A host's session with the coordinator. It performs no I/O: it receives messages and times, and returns messages to
//! send. The host's test runs on another thread and shares [`HostProgress`] with the session.

use std::sync::Arc;
use std::time::Duration;

use jetcell_workload::{Cancellation, RunPhase};
use parking_lot::{Condvar, Mutex};

use crate::clock::{ClockEstimate, ClockReading};
use crate::directory_mark::DirectoryMark;
use crate::fleet_rank::FleetRank;
use crate::host_error::HostTestError;
use crate::message::{
    self, Assignment, Barrier, CoordinatorHeartbeat, CoordinatorMessage, FleetSubjects, HostCondition,
    HostHeartbeat, HostMessage, LiveMetrics, MeasurementWindow, MessageError,
};
use crate::result_transfer::ResultTransfer;

/// Number of pings sent in quick succession at the start, to determine the clock offset before the test starts.
const FIRST_PINGS: usize = 8;

/// Interval between these pings.
const FAST_PING_INTERVAL_NS: u64 = 50_000_000;

/// Interval between heartbeats, and between pings after the first few.
const HEARTBEAT_INTERVAL_NS: u64 = 500_000_000;

/// If the session has not run for this long, the process is considered to have been suspended. It then gets
/// additional time to receive a message before its lease expires.
const SUSPEND_THRESHOLD_NS: u64 = 3_000_000_000;

/// Length of this additional time.
const RESUME_GRACE_NS: u64 = 5_000_000_000;

/// Maximum number of chunks sent in response to one request.
const MAX_CHUNKS_PER_REQUEST: u64 = 64;

/// State shared between the test thread and the session.
#[derive(Debug, Default)]
struct SharedTestState {
    open: Option<Barrier>,
    /// True while it is the host's turn to measure its load alone.
    is_its_turn: bool,
    /// Start of the measurement on the host's monotonic clock.
    start_ns: Option<u64>,
    reached: Option<Barrier>,
    phase: Option<RunPhase>,
    fraction: f64,
    live: Option<LiveMetrics>,
    /// Measurement window on the host's monotonic clock.
    began_ns: Option<u64>,
    ended_ns: Option<u64>,
}

/// Progress of a fleet host's test, including the barriers released so far. Clones share the same state.
#[derive(Clone, Debug, Default)]
pub struct HostProgress {
    shared: Arc<(Mutex<SharedTestState>, Condvar)>,
    stop: Cancellation,
}

/// Interval between checks for a stop request.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(50);

impl HostProgress {
    /// Returns the signal that stops the test.
    pub fn stop_signal(&self) -> &Cancellation {
        &self.stop
    }

    fn change<R>(&self, change: impl FnOnce(&mut SharedTestState) -> R) -> R {
        let changed = change(&mut self.shared.0.lock());
        self.shared.1.notify_all();
        changed
    }

    /// Records that the test has reached a barrier.
    pub fn reach_barrier(&self, gate: Barrier) {
        self.change(|shared| shared.reached = shared.reached.max(Some(gate)));
    }

    /// Returns true if a barrier has been released.
    pub fn is_released(&self, gate: Barrier) -> bool {
        self.change(|shared| shared.open >= Some(gate))
    }

    /// Waits at a barrier until it is released or the test must stop.
    pub fn wait_at_barrier(&self, gate: Barrier) {
        self.reach_barrier(gate);
        self.wait_until(|shared| shared.open >= Some(gate));
    }

    /// Waits until it is the host's turn to measure its load alone, or the test must stop.
    pub fn wait_for_turn(&self) {
        self.wait_at_barrier(Barrier::Alone);
        self.wait_until(|shared| shared.is_its_turn);
    }

    /// Returns true if it is the host's turn to measure its load alone.
    pub fn is_its_turn(&self) -> bool {
        self.shared.0.lock().is_its_turn
    }

    fn wait_until(&self, reached: impl Fn(&SharedTestState) -> bool) {
        let mut shared = self.shared.0.lock();
        while !reached(&shared) && !self.stop.is_cancelled() {
            self.shared.1.wait_for(&mut shared, STOP_POLL_INTERVAL);
        }
    }

    /// Returns the start of the measurement on the monotonic clock, if it is known.
    pub fn start_ns(&self) -> Option<u64> {
        self.shared.0.lock().start_ns
    }

    /// Records a test phase and its progress.
    pub fn set_phase(&self, phase: RunPhase, fraction: f64) {
        self.change(|shared| (shared.phase, shared.fraction) = (Some(phase), fraction));
    }

    /// Records the figures for the last second.
    pub fn set_live_figures(&self, figures: Option<LiveMetrics>) {
        self.change(|shared| shared.live = figures);
    }

    /// Records the start of the measurement on the monotonic clock.
    pub fn set_measurement_start(&self, monotonic_ns: u64) {
        self.change(|shared| shared.began_ns = Some(monotonic_ns));
    }

    /// Records the end of the measurement on the monotonic clock.
    pub fn set_measurement_end(&self, monotonic_ns: u64) {
        self.change(|shared| shared.ended_ns = shared.ended_ns.or(Some(monotonic_ns)));
    }
}

/// An action that a host's session asks its caller to perform.
#[derive(Clone, Debug, PartialEq)]
pub enum SessionAction {
    /// Publish a message to a subject.
    Send(String, Vec<u8>),
    /// Check the host's assignment and run it.
    RunAssignment(Assignment),
    /// Leave the fleet, because the session has ended for the given reason.
    EndSession(SessionEnd),
}

/// Reason why a fleet host's session ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionEnd {
    /// The coordinator has received the result.
    ResultDelivered,
    /// The host cannot take part in the test.
    Refused(String),
    /// The test has ended, but the coordinator has not received the result, which remains on the host.
    ResultNotDelivered(String),
}

/// Identifies a fleet host.
#[derive(Clone, Debug, PartialEq)]
pub struct HostIdentity {
    /// Rank of the host, and size of the fleet.
    pub fleet_rank: FleetRank,
    /// Random identifier of the process.
    pub token: String,
    /// Host name.
    pub name: String,
    /// Digest of the configuration, if it was given to the host.
    pub configuration: Option<String>,
}

/// A fleet host's session with the coordinator.
#[derive(Debug)]
pub struct HostSession {
    identity: HostIdentity,
    program: String,
    subjects: FleetSubjects,
    progress: HostProgress,
    /// Maximum time that the host waits for its assignment.
    assignment_timeout_ns: u64,
    condition: HostCondition,
    /// Run identifier. Empty until the host has received its assignment.
    run: String,
    epoch: String,
    lease_ns: u64,
    /// Time of the last message from the coordinator; initially the start of the session.
    last_contact_ns: Option<u64>,
    ticked_ns: u64,
    next_beat_ns: u64,
    next_ping_ns: u64,
    clock: ClockEstimate,
    /// Start of the measurement on the coordinator's clock.
    start_ns: Option<u64>,
    transfer: Option<ResultTransfer>,
    stopped: Option<String>,
    departure: Option<SessionEnd>,
    ignored: u64,
    calls: Vec<SessionAction>,
}

impl HostSession {
    /// Creates a session that tries to obtain an assignment for at most `patience`.
    pub fn new(
        fleet: &str,
        program: &str,
        identity: HostIdentity,
        progress: HostProgress,
        patience: Duration,
    ) -> HostSession {
        HostSession {
            identity,
            program: program.into(),
            subjects: FleetSubjects::new(fleet),
            progress,
            assignment_timeout_ns: patience.as_nanos() as u64,
            condition: HostCondition::Joining,
            run: String::new(),
            epoch: String::new(),
            lease_ns: u64::MAX,
            last_contact_ns: None,
            ticked_ns: 0,
            next_beat_ns: 0,
            next_ping_ns: 0,
            clock: ClockEstimate::default(),
            start_ns: None,
            transfer: None,
            stopped: None,
            departure: None,
            ignored: 0,
            calls: Vec::new(),
        }
    }

    /// Returns the subjects to which the session subscribes.
    pub fn subscriptions(&self) -> Vec<String> {
        vec![self.subjects.to_all(), self.subjects.to_host(self.identity.fleet_rank.rank)]
    }

    /// Returns the state that the session shares with the test.
    pub fn progress(&self) -> &HostProgress {
        &self.progress
    }

    /// Returns the mark for the host's directories. Valid only after the host has received its assignment.
    pub fn directory_mark(&self) -> DirectoryMark {
        DirectoryMark {
            run: self.run.clone(),
            rank: self.identity.fleet_rank.rank,
            host: self.identity.name.clone(),
            token: self.identity.token.clone(),
        }
    }

    /// Returns the reason why the test was stopped, if it was.
    pub fn stop_reason(&self) -> Option<&str> {
        self.stopped.as_deref()
    }

    /// Declines the assignment.
    pub fn decline(&mut self, reason: String) {
        self.condition = HostCondition::Refused { reason };
        self.next_beat_ns = 0;
    }

    /// Records that the host's test has ended.
    pub fn record_test_end(&mut self, outcome: Result<ResultTransfer, HostTestError>) {
        let failure = match outcome {
            Ok(parcel) => {
                self.transfer = Some(parcel);
                None
            }
            Err(error) => Some(error.reason()),
        };
        self.condition = HostCondition::Ended { failure };
        self.next_beat_ns = 0;
    }

    /// Stops the host at its user's request.
    pub fn interrupt(&mut self, reason: &str) {
        match self.condition {
            // There is no coordinator to dismiss the host.
            HostCondition::Joining if self.epoch.is_empty() => {
                self.end_session(SessionEnd::Refused(reason.into()));
            }
            HostCondition::Joining => self.decline(reason.into()),
            _ => self.progress.stop.cancel(),
        }
    }

    fn send(&mut self, message: &HostMessage, attached: &[u8]) {
        let payload = message::encode(&self.program, &self.run, message, attached);
        self.calls.push(SessionAction::Send(self.subjects.to_coordinator(), payload));
    }

    /// Processes a message.
    pub fn receive(&mut self, now: ClockReading, bytes: &[u8]) -> Vec<SessionAction> {
        match message::decode::<CoordinatorMessage>(&self.program, bytes) {
            Err(MessageError::OtherVersion { program, protocol, .. })
                if self.condition == HostCondition::Joining =>
            {
                self.end_session(SessionEnd::Refused(format!(
                    "the coordinator runs jetcell {program} with message version {protocol}, but this host \
                     runs jetcell {} with message version {}; install the same version on all hosts",
                    self.program,
                    message::PROTOCOL
                )));
            }
            Err(_) => self.ignored += 1,
            Ok(received) if !self.run.is_empty() && received.run != self.run => self.ignored += 1,
            Ok(received) => self.handle_message(now, &received.run, received.message),
        }
        std::mem::take(&mut self.calls)
    }

    fn handle_message(&mut self, now: ClockReading, run: &str, message: CoordinatorMessage) {
        let own = self.identity.token.clone();
        match message {
            CoordinatorMessage::Beat(beat) => self.handle_heartbeat(now, &beat),
            CoordinatorMessage::Pong { token, sent_ns, received_ns, answered_ns } if token == own => {
                self.clock.add_response(sent_ns, received_ns, answered_ns, now.monotonic_ns);
                self.update_measurement_start();
            }
            CoordinatorMessage::Order { token, order } if token == own => {
                if self.condition == HostCondition::Joining {
                    (self.condition, self.run) = (HostCondition::Running, run.into());
                    self.last_contact_ns = Some(now.monotonic_ns);
                    self.next_beat_ns = 0;
                    self.calls.push(SessionAction::RunAssignment(order));
                }
            }
            CoordinatorMessage::Rejected { token, reason } if token == own => {
                self.progress.stop.cancel();
                self.stopped.get_or_insert(message::display_text(&reason));
                if matches!(self.condition, HostCondition::Joining | HostCondition::Refused { .. }) {
                    self.end_session(SessionEnd::Refused(message::display_text(&reason)));
                }
            }
            CoordinatorMessage::Send { token, first, count } if token == own => {
                self.send_chunks(first, count);
            }
            CoordinatorMessage::Dismissed { token } if token == own => self.handle_dismissal(),
            // The message is addressed to another process with the same rank.
            _ => self.ignored += 1,
        }
    }

    fn handle_heartbeat(&mut self, now: ClockReading, beat: &CoordinatorHeartbeat) {
        if beat.epoch != self.epoch {
            // The coordinator was restarted, so its clock is different.
            self.clock.clear();
            self.epoch.clone_from(&beat.epoch);
            self.next_ping_ns = 0;
        }
        self.last_contact_ns = Some(now.monotonic_ns);
        self.lease_ns = beat.lease_ms.saturating_mul(1_000_000);
        if let Some(reason) = &beat.stop {
            self.stop_test(message::display_text(reason));
        }
        if self.condition != HostCondition::Joining {
            self.start_ns = beat.start_ns;
            self.update_measurement_start();
            let is_its_turn = beat.turn == Some(self.identity.fleet_rank.rank);
            self.progress.change(|shared| {
                (shared.open, shared.is_its_turn) = (shared.open.max(beat.open), is_its_turn);
            });
        }
    }

    fn stop_test(&mut self, reason: String) {
        if self.condition == HostCondition::Joining {
            self.condition = HostCondition::Ended { failure: Some(reason.clone()) };
            self.next_beat_ns = 0;
        }
        self.progress.stop.cancel();
        self.stopped.get_or_insert(reason);
    }

    /// Passes the start time of the measurement on to the test.
    fn update_measurement_start(&mut self) {
        let start = self.start_ns.and_then(|start| self.clock.monotonic_ns(start));
        // The start time no longer changes once the measurement has started.
        self.progress.change(|shared| {
            if start.is_some() && shared.began_ns.is_none() {
                shared.start_ns = start;
            }
        });
    }

    fn send_chunks(&mut self, first: u64, count: u64) {
        let Some(parcel) = self.transfer.take() else { return };
        for number in first..first.saturating_add(count.min(MAX_CHUNKS_PER_REQUEST)) {
            let Some(piece) = parcel.chunk(number) else { break };
            let (rank, token) = (self.identity.fleet_rank.rank, self.identity.token.clone());
            self.send(&HostMessage::Piece { rank, token, number }, piece);
        }
        self.transfer = Some(parcel);
    }

    fn handle_dismissal(&mut self) {
        match self.condition.clone() {
            HostCondition::Ended { failure: None } => self.end_session(SessionEnd::ResultDelivered),
            HostCondition::Ended { failure: Some(reason) } => {
                let reason = self.stopped.clone().unwrap_or(reason);
                self.end_session(SessionEnd::Refused(reason));
            }
            HostCondition::Refused { reason } => self.end_session(SessionEnd::Refused(reason)),
            // The test has not yet noticed that it must stop.
            HostCondition::Joining | HostCondition::Running => {}
        }
    }

    fn end_session(&mut self, why: SessionEnd) {
        if self.departure.is_none() {
            self.departure = Some(why.clone());
            self.calls.push(SessionAction::EndSession(why));
        }
    }

    /// Advances the time. Must be called several times per heartbeat interval.
    pub fn tick(&mut self, now: ClockReading) -> Vec<SessionAction> {
        let at = now.monotonic_ns;
        self.clock.check_drift(now);
        let heard = self.last_contact_ns.get_or_insert(at);
        if at.saturating_sub(self.ticked_ns) > SUSPEND_THRESHOLD_NS && self.ticked_ns > 0 {
            let earliest = at.saturating_sub(self.lease_ns.saturating_sub(RESUME_GRACE_NS));
            *heard = (*heard).max(earliest);
        }
        let silence = at.saturating_sub(*heard);
        self.ticked_ns = at;
        self.check_lease(silence);
        if at >= self.next_ping_ns {
            let quick = self.clock.response_count() < FIRST_PINGS && !self.epoch.is_empty();
            self.next_ping_ns = at + if quick { FAST_PING_INTERVAL_NS } else { HEARTBEAT_INTERVAL_NS };
            let (rank, token) = (self.identity.fleet_rank.rank, self.identity.token.clone());
            self.send(&HostMessage::Ping { rank, token, sent_ns: at }, &[]);
        }
        if at >= self.next_beat_ns {
            self.next_beat_ns = at + HEARTBEAT_INTERVAL_NS;
            let beat = self.heartbeat(now);
            self.send(&HostMessage::Beat(beat), &[]);
        }
        std::mem::take(&mut self.calls)
    }

    /// If no messages arrive from the coordinator, ends the test, and later the session.
    fn check_lease(&mut self, silence_ns: u64) {
        let seconds = Duration::from_nanos(silence_ns).as_secs();
        match &self.condition {
            HostCondition::Joining if silence_ns >= self.assignment_timeout_ns => {
                let reason = format!("no coordinator responded within {seconds} s; start jetcell fleet run");
                self.end_session(SessionEnd::Refused(reason));
            }
            HostCondition::Running if silence_ns >= self.lease_ns && !self.progress.stop.is_cancelled() => {
                self.stop_test(format!(
                    "the coordinator did not respond for {seconds} s, which is longer than the lease"
                ));
            }
            HostCondition::Ended { failure: None } if silence_ns >= self.lease_ns => {
                let reason = format!(
                    "the coordinator did not respond for {seconds} s; the result is stored on this host"
                );
                self.end_session(SessionEnd::ResultNotDelivered(reason));
            }
            HostCondition::Ended { failure: Some(reason) } | HostCondition::Refused { reason }
                if silence_ns >= self.lease_ns.min(self.assignment_timeout_ns) =>
            {
                self.end_session(SessionEnd::Refused(reason.clone()));
            }
            _ => {}
        }
    }

    fn heartbeat(&self, now: ClockReading) -> HostHeartbeat {
        let shared = self.progress.shared.0.lock();
        let coordinator = |monotonic: u64| self.clock.coordinator_ns(monotonic);
        let window = shared
            .began_ns
            .and_then(coordinator)
            .map(|began_ns| MeasurementWindow { began_ns, ended_ns: shared.ended_ns.and_then(coordinator) });
        HostHeartbeat {
            rank: self.identity.fleet_rank.rank,
            size: self.identity.fleet_rank.size,
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
            offer: self.transfer.as_ref().map(ResultTransfer::offer),
            ignored: self.ignored,
        }
    }
}
